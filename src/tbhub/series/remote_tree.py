"""Which runs lie below a prefix of a bucket, once: for programs that read and are done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tbhub.events.segments import group_segments
from tbhub.series.blocks import Blocks
from tbhub.series.growing_file import GrowingFile
from tbhub.series.objects import Objects
from tbhub.series.parted_file import Part, PartedFile, Span
from tbhub.storage.open import open_store
from tbhub.storage.store import Range
from tbhub.storage.uri import Uri


def find_remote_runs(place: Uri) -> dict[str, list[GrowingFile]]:
    """The event files of each run below a place, by name as `find_runs` has it.

    Raises:
        StoreError: It cannot be listed.
    """
    store, prefix = open_store(place)
    objects, blocks = Objects(), Blocks()
    objects.take(prefix, store.list(prefix), 0.0)

    def read(spans: Sequence[Span]) -> Iterator[bytes]:
        if len(spans) == 1:
            return iter([store.read(*spans[0])])
        return store.read_many(Range(*span) for span in spans)

    def read_again(part: Part, offset: int, size: int) -> bytes:
        return blocks.read(store.read, part, offset, size)

    bucket = Uri(place.scheme, place.bucket, "", place.account)
    start = len(prefix) + 1 if prefix else 0
    found: dict[str, list[GrowingFile]] = {}
    for directory, folder in sorted(objects.folders.items()):
        found[directory[start:] or "."] = [
            PartedFile(
                f"{bucket}/{directory}/{name}" if directory else f"{bucket}/{name}",
                [folder[each] for each in names],
                read,
                read_again,
            )
            for name, names in group_segments(folder).items()
        ]
    return found
