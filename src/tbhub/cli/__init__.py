"""The ``tbhub`` command."""
