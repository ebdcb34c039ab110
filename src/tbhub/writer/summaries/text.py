"""Text, shown as Markdown by TensorBoard's text dashboard."""

from __future__ import annotations

from typing import Any

import numpy as np

from tbhub.events import schema
from tbhub.writer.summaries.tensor import shape_proto


def text(tag: str, text: object) -> Any:
    """A summary with one string, or with a list or numpy array of strings shown as a table.

    The tag gets the suffix ``/text_summary`` that both other libraries write.
    """
    shape: tuple[int, ...] = (1,)
    strings: list[object] = [text]
    if isinstance(text, np.ndarray):
        shape, strings = text.shape or (1,), text.ravel().tolist()
    elif isinstance(text, list | tuple):
        shape, strings = (len(text),), list(text)
    for each in strings:
        if not isinstance(each, str):
            raise TypeError(
                f"add_text({tag!r}): expected str or a list of str, got {type(each).__name__}"
            )
    content = schema.TextPluginData(version=0).SerializeToString()
    metadata = schema.SummaryMetadata(
        plugin_data=schema.SummaryMetadata.PluginData(plugin_name="text", content=content)
    )
    tensor = schema.TensorProto(
        dtype="DT_STRING",
        string_val=[str(each).encode() for each in strings],
        tensor_shape=shape_proto(shape),
    )
    value = schema.Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor)
    return schema.Summary(value=[value])
