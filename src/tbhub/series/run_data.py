"""RunData: everything one run has logged, decoded when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tbhub.events.names import SESSION_START_TAG
from tbhub.series.column import Column
from tbhub.series.file_content import Blob, FileContent
from tbhub.series.join import join_blobs, join_columns, restarts

T = TypeVar("T")

# The numbers the kernel gives to what is not a scalar; see native/event.h.
_IMAGE, _HISTOGRAM, _AUDIO, _TENSOR, _GRAPH = 1, 2, 3, 4, 7


class ScalarSeries:
    """The points of one tag, in the order they were logged: three arrays of one length.

    ``values`` are float32, or float64 where the file has doubles. The arrays are read-only and
    share the memory the file was decoded into.
    """

    def __init__(self, tag: str, parts: Sequence[Column]) -> None:
        self.tag = tag
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        if len(self) == 0:
            return f"<ScalarSeries {self.tag!r}: empty>"
        return (
            f"<ScalarSeries {self.tag!r}: {len(self)} points, steps {self.steps[0]} to "
            f"{self.steps[-1]}, last value {self.values[-1]:g}>"
        )

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """The global steps."""
        return self._column("steps")

    @cached_property
    def wall_times(self) -> NDArray[np.float64]:
        """When each point was logged, in seconds since the epoch."""
        return self._column("wall_times")

    @cached_property
    def values(self) -> NDArray[Any]:
        """The numbers."""
        return self._column("values")

    def _column(self, name: str) -> NDArray[Any]:
        columns = [getattr(part, name) for part in self._parts]
        if len(columns) == 1:
            return columns[0]  # type: ignore[no-any-return]
        joined = np.concatenate(columns) if columns else np.zeros(0)
        joined.flags.writeable = False
        return joined

    def to_pandas(self) -> Any:
        """A DataFrame of value and wall time by step (needs pandas)."""
        import pandas as pd

        columns = {"wall_time": self.wall_times, "value": self.values}
        return pd.DataFrame(columns, index=pd.Index(self.steps, name="step"))


class BlobSeries(Sequence[T], Generic[T]):
    """What one tag has logged that is not a number; each item is read and decoded when taken."""

    def __init__(self, tag: str, blobs: list[Blob], decode: Callable[[bytes], T]) -> None:
        self.tag = tag
        self._blobs = blobs
        self._decode = decode

    def __len__(self) -> int:
        return len(self._blobs)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._decode(blob.read()) for blob in self._blobs[index]]
        return self._decode(self._blobs[index].read())

    def __repr__(self) -> str:
        return f"<{len(self)} of {self.tag!r}, steps {self.steps.tolist()[:5]}…>"

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """The global steps."""
        return np.array([blob.step for blob in self._blobs], np.int64)

    @cached_property
    def wall_times(self) -> NDArray[np.float64]:
        """When each was logged, in seconds since the epoch."""
        return np.array([blob.wall_time for blob in self._blobs], np.float64)


class RunData:
    """One run. Scalars are in memory; everything else is read from its file when asked for."""

    def __init__(self, name: str, contents: Sequence[FileContent]) -> None:
        self.name = name
        self.files = [content.path for content in contents]
        self.size = sum(content.size for content in contents)
        self.events = sum(content.events for content in contents)
        self.pending_bytes = sum(content.pending for content in contents)
        self.skipped_values = sum(content.skipped for content in contents)
        self.damages: dict[str, int] = {}
        for content in contents:
            for kind, count in content.damage_counts.items():
                self.damages[kind] = self.damages.get(kind, 0) + count
        self._contents = contents

    def __repr__(self) -> str:
        points = sum(map(len, self.scalars.values()))
        kinds = ", ".join(
            f"{len(tags)} {kind}"
            for kind in ("images", "histograms", "audio", "text", "tensors")
            if (tags := getattr(self, kind))
        )
        more = f", {kinds}" if kinds else ""
        return f"<RunData {self.name!r}: {len(self.scalars)} scalars with {points} points{more}>"

    @cached_property
    def scalars(self) -> Mapping[str, ScalarSeries]:
        """Series of numbers by tag."""
        tags = dict.fromkeys(tag for content in self._contents for tag in content.columns)
        joined = ((tag, join_columns(tag, self._contents)) for tag in tags)
        return {tag: ScalarSeries(tag, columns) for tag, columns in joined if columns}

    @property
    def restarts(self) -> list[int]:
        """The steps the run went back to; what it had logged from there on before is left out."""
        return restarts(self._contents)

    @cached_property
    def plugins(self) -> Mapping[str, str]:
        """Which TensorBoard plugin each tag with metadata belongs to."""
        return {tag: name for tag, (name, _) in self._metadata.items()}

    @cached_property
    def _metadata(self) -> Mapping[str, tuple[str, bytes]]:
        found: dict[str, tuple[str, bytes]] = {}
        for content in reversed(self._contents):
            found.update(content.plugins)
        return found

    @cached_property
    def _blobs(self) -> list[Blob]:
        tags = dict.fromkeys(tag for content in self._contents for tag in content.blobs)
        return [blob for tag in tags for blob in join_blobs(tag, self._contents)]

    @cached_property
    def images(self) -> Mapping[str, BlobSeries[Any]]:
        """Pictures by tag."""
        from tbhub.series.decode import image_from

        return self._series(_IMAGE, "images", image_from)

    @cached_property
    def audio(self) -> Mapping[str, BlobSeries[Any]]:
        """Sounds by tag."""
        from tbhub.series.decode import audio_from

        return self._series(_AUDIO, "audio", audio_from)

    @cached_property
    def histograms(self) -> Mapping[str, BlobSeries[Any]]:
        """Distributions by tag."""
        from tbhub.series.decode import histogram_from

        return self._series(_HISTOGRAM, "histograms", histogram_from)

    @cached_property
    def text(self) -> Mapping[str, BlobSeries[str]]:
        """Texts by tag."""
        from tbhub.series.decode import text_from

        return self._series(None, "text", text_from)

    @cached_property
    def tensors(self) -> Mapping[str, BlobSeries[NDArray[Any]]]:
        """Tensors by tag: precision-recall curves, meshes, and whatever is not shown elsewhere."""
        from tbhub.series.decode import tensor_from

        shown_elsewhere = ("images", "audio", "histograms", "text")
        chosen = [
            blob
            for blob in self._blobs
            if blob.kind == _TENSOR and self.plugins.get(blob.tag) not in shown_elsewhere
        ]
        return _by_tag(chosen, tensor_from)

    @cached_property
    def hparams(self) -> Mapping[str, Any]:
        """The hyperparameters the run was started with."""
        from tbhub.series.decode import hparams_from

        _, metadata = self._metadata.get(SESSION_START_TAG, ("", b""))
        return hparams_from(metadata) if metadata else {}

    @property
    def graph(self) -> Any:
        """The last graph logged, as a GraphDef message; None where there is none."""
        from tbhub.events.schema import GraphDef

        graphs = [blob for blob in self._blobs if blob.kind == _GRAPH]
        return GraphDef.FromString(graphs[-1].read()) if graphs else None

    def _series(
        self, kind: int | None, plugin: str, decode: Callable[[bytes], T]
    ) -> Mapping[str, BlobSeries[T]]:
        """What is stored as this kind of value, or as a tensor of this plugin."""
        chosen = [
            blob
            for blob in self._blobs
            if blob.kind == kind or (blob.kind == _TENSOR and self.plugins.get(blob.tag) == plugin)
        ]
        return _by_tag(chosen, decode)

    def to_pandas(self) -> Any:
        """Every scalar point as a row of tag, step, wall time and value (needs pandas)."""
        import pandas as pd

        frames = [
            pd.DataFrame(
                {
                    "tag": tag,
                    "step": series.steps,
                    "wall_time": series.wall_times,
                    "value": series.values,
                }
            )
            for tag, series in self.scalars.items()
        ]
        columns = ["tag", "step", "wall_time", "value"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _by_tag(blobs: list[Blob], decode: Callable[[bytes], T]) -> dict[str, BlobSeries[T]]:
    groups: dict[str, list[Blob]] = {}
    for blob in blobs:
        groups.setdefault(blob.tag, []).append(blob)
    return {tag: BlobSeries(tag, group, decode) for tag, group in groups.items()}


class Runs(dict[str, RunData]):
    """Runs by name, as ``load`` returns them."""

    def __repr__(self) -> str:
        lines = [f"<{len(self)} runs>", *(f"  {run!r}" for run in list(self.values())[:20])]
        if len(self) > 20:
            lines.append(f"  … and {len(self) - 20} more")
        return "\n".join(lines)

    def to_pandas(self) -> Any:
        """Every scalar point of every run as a row (needs pandas)."""
        import pandas as pd

        frames = list(self._frames())
        columns = ["run", "tag", "step", "wall_time", "value"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    def _frames(self) -> Iterator[Any]:
        for name, run in self.items():
            frame = run.to_pandas()
            frame.insert(0, "run", name)
            yield frame
