"""Which credentials are for a place: those of the connection with the longest prefix. Pure.

Of connections with the same prefix a workspace's own counts before one that is for all, and then
the newest: who adds one because the other does not work gets the new one used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tbhub.storage.errors import StoreError
from tbhub.storage.uri import OSS, Uri, parse

Workspaces = Collection[int] | None  # None: all of them


@dataclass(frozen=True)
class Known:
    """A connection with its secrets, which stay out of what is printed."""

    name: str
    place: Uri
    workspace_id: int | None
    settings: Mapping[str, str] = field(repr=False)

    def holds(self, place: Uri) -> bool:
        """Whether a place lies at or below the prefix: ``s3://b/x`` holds no ``s3://b/xy``.

        Keys go to a host that a place names only if the connection names it, too. A region of OSS
        is no other host: names of buckets are unique in all regions.
        """
        mine = self.place
        if (mine.scheme, mine.bucket) != (place.scheme, place.bucket):
            return False
        named = mine.account or "." in place.account
        if mine.scheme != OSS and mine.account != place.account and named:
            return False
        return not mine.path or f"{place.path}/".startswith(f"{mine.path}/")


def choose(known: Iterable[Known], place: str | Uri, allowed: Workspaces) -> Known | None:
    """Return the connection for a place; none if there is none.

    Args:
        known: All connections, the oldest first.
        allowed: The workspaces whose connections may be used, beside those that are for all.
    """
    if isinstance(place, str):
        if "://" not in place:
            return None
        try:
            place = parse(place)
        except StoreError:
            return None
    fitting = [
        each
        for each in known
        if each.holds(place)
        and (each.workspace_id is None or allowed is None or each.workspace_id in allowed)
    ]
    # `max` returns the first of equals, which is the newest of them.
    return max(
        reversed(fitting),
        key=lambda each: (len(each.place.path), each.workspace_id is not None),
        default=None,
    )
