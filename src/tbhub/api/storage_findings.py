"""The test of a place as it goes over the wire: what was found, and which roles are needed."""

from __future__ import annotations

from collections.abc import Mapping

from tbhub.api.models import StorageFinding, StorageFindings, StoragePurpose
from tbhub.storage.errors import StoreError
from tbhub.storage.probe import is_good, probe, usable_for
from tbhub.storage.roles import BOARDS, RUNS, role
from tbhub.storage.uri import Uri, parse


def test_place(
    uri: str | Uri, settings: Mapping[str, str] | None, purpose: StoragePurpose | None
) -> StorageFindings:
    """Use a place as boards or runs would, or as both, and return what was found."""
    found = probe(uri, settings, purpose=purpose)
    return StorageFindings(
        good=is_good(found),
        findings=[StorageFinding(check=one.check, good=one.good, text=one.text) for one in found],
        usable_for=usable_for(found),
        roles=_roles(uri),
    )


def _roles(uri: str | Uri) -> dict[StoragePurpose, str]:
    try:
        scheme = (parse(uri) if isinstance(uri, str) else uri).scheme
    except StoreError:
        return {}
    found = {purpose: role(scheme, purpose) for purpose in (BOARDS, RUNS)}
    return {purpose: text for purpose, text in found.items() if text}
