"""Fixtures for boards in a browser."""

from __future__ import annotations

from support.browser import browser, page, view

__all__ = ["browser", "page", "view"]
