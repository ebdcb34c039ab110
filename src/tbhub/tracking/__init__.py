"""Runs: what trains, where that is told, and how it ends."""
