"""The routes of ``/api/v1`` and of the hub's own pages, a file for each noun."""
