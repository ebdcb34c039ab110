"""Boards: TensorBoard's own page, many of them from one process, on our data."""
