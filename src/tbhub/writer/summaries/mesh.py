"""Meshes and point clouds for TensorBoard's mesh dashboard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.events import schema
from tbhub.writer.arrays import to_array
from tbhub.writer.summaries.tensor import tensor_proto

_CONTENT_TYPES = schema.MeshPluginData.ContentType


def mesh(
    tag: str,
    vertices: object,
    colors: object = None,
    faces: object = None,
    config_dict: Mapping[str, Any] | None = None,
    display_name: str = "",
    description: str = "",
) -> Any:
    """A summary with one value per part, tagged ``<tag>_VERTEX``, ``_FACE`` and ``_COLOR``.

    Each part has the shape [batch, n, 3]; [n, 3] is read as a batch of one. Every value
    carries the set of parts that belong together, so the dashboard knows what to wait for.
    """
    if config_dict is not None and not isinstance(config_dict, Mapping):
        raise TypeError(
            f"add_mesh({tag!r}): config_dict must be a dict, got {type(config_dict).__name__}"
        )
    json_config = json.dumps({} if config_dict is None else dict(config_dict), sort_keys=True)
    given = {"VERTEX": vertices, "FACE": faces, "COLOR": colors}
    parts = {
        name: _triples(part, f"add_mesh({tag!r}): {_NAMES[name]}")
        for name, part in given.items()
        if part is not None or name == "VERTEX"
    }
    if "COLOR" in parts and parts["COLOR"].shape != parts["VERTEX"].shape:
        raise ValueError(
            f"add_mesh({tag!r}): colors of shape {parts['COLOR'].shape} do not match"
            f" vertices of shape {parts['VERTEX'].shape}"
        )
    components = sum(1 << _CONTENT_TYPES.Value(name) for name in parts)
    summary = schema.Summary()
    for name, array in parts.items():
        plugin_data = schema.MeshPluginData(
            version=0,
            name=tag,
            content_type=name,
            components=components,
            shape=array.shape,
            json_config=json_config,
        )
        metadata = schema.SummaryMetadata(
            display_name=display_name or "",
            summary_description=description or "",
            plugin_data=schema.SummaryMetadata.PluginData(
                plugin_name="mesh", content=plugin_data.SerializeToString()
            ),
        )
        proto = tensor_proto(array, f"add_mesh({tag!r})")
        summary.value.add(tag=f"{tag}_{name}", tensor=proto, metadata=metadata)
    return summary


_NAMES = {"VERTEX": "vertices", "FACE": "faces", "COLOR": "colors"}


def _triples(part: object, where: str) -> NDArray[np.float32]:
    array = to_array(part, where)
    if array.ndim == 2:
        array = array[np.newaxis]
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"{where} must have the shape [batch, n, 3], got {array.shape}")
    if array.dtype.kind == "c":
        raise TypeError(f"{where} must be real numbers, got {array.dtype}")
    return array.astype(np.float32, copy=False)
