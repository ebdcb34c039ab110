"""Fixtures for tests of the database: each runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from support.database import database, database_url, empty_url, postgresql, sqlite_template

__all__ = ["database", "database_url", "empty_url", "postgresql", "sqlite_template"]
