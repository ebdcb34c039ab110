"""Fixtures for boards in a browser, and over buckets."""

from __future__ import annotations

from support.azurite import azurite
from support.browser import browser, page, view
from support.buckets import azure_place, no_environment, proxy, s3
from support.seaweedfs import seaweedfs

__all__ = [
    "azure_place",
    "azurite",
    "browser",
    "no_environment",
    "page",
    "proxy",
    "s3",
    "seaweedfs",
    "view",
]
