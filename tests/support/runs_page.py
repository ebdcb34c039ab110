"""The runs page as its tests look at it."""

from __future__ import annotations

from typing import Any

# The runs of the fixture: other tests have runs of their own on the same hub.
OURS = "/?search=trial"


def rows(page: Any) -> Any:
    return page.locator("[role=row].run")


def count(page: Any) -> str:
    """How many runs there are, as it says."""
    return str(page.locator(".foot").inner_text())


def filter_field(page: Any) -> Any:
    return page.get_by_role("combobox", name="Filter")
