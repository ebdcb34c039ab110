"""The tfevents format: its messages, its files, what can be wrong with them."""
