"""The Python SDK over the hub's HTTP API."""
