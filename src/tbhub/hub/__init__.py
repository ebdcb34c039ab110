"""The hub: every run known, every board managed, behind one address."""
