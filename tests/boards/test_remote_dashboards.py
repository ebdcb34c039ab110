"""Dashboards that read files of their own, over a bucket, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from boards import test_dashboards as here
from support import every_kind
from support import seaweedfs as weed
from support.browser import Page, View
from support.buckets import Place
from support.seaweedfs import SeaweedFS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def board(
    view: Callable[..., View], tmp_path_factory: pytest.TempPathFactory, seaweedfs: SeaweedFS
) -> View:
    """A board over one of every kind in a bucket."""
    logs: Path = tmp_path_factory.mktemp("logs")
    every_kind.write_with_tbhub(logs)
    known = {"access_key_id": "everything", "secret_access_key": weed.SECRET}
    uri = f"s3://{weed.BUCKET}/dashboards"
    Place("s3", uri, {**known, "endpoint": seaweedfs.url}).upload(logs)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in known.items():
            patch.setenv(f"AWS_{name.upper()}", value)
        patch.setenv("AWS_ENDPOINT_URL", seaweedfs.url)
        return view(uri, "--path_prefix", "/behind/a/proxy")


def test_images(board: View, page: Page) -> None:
    here.test_images(board, page)


def test_audio(board: View, page: Page) -> None:
    here.test_audio(board, page)


def test_projector(board: View, page: Page) -> None:
    here.test_projector(board, page)
