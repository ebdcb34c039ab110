"""Following a directory and publishing it: what a run has written, where its team reads it."""
