"""The layout of the custom scalars dashboard: which tags share a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tbhub.events import schema
from tbhub.writer.summaries.tensor import shape_proto

Layout = Mapping[str, Mapping[str, Sequence[Any]]]


def custom_scalars(layout: Layout) -> Any:
    """A summary with the layout ``{category: {chart: [kind, tags]}}``.

    The kind ``"Margin"`` draws one tag between a lower and an upper one, so it takes exactly
    three; any other kind draws all tags as lines.
    """
    message = schema.Layout()
    for category, charts in _mapping(layout, "layout").items():
        entry = message.category.add(title=category)
        for title, description in _mapping(charts, f"category {category!r}").items():
            _add_chart(entry, title, description)
    value = schema.Summary.Value(
        tag="custom_scalars__config__",
        metadata=schema.SummaryMetadata(
            plugin_data=schema.SummaryMetadata.PluginData(plugin_name="custom_scalars")
        ),
        tensor=schema.TensorProto(
            dtype="DT_STRING",
            string_val=[message.SerializeToString()],
            tensor_shape=shape_proto(()),
        ),
    )
    return schema.Summary(value=[value])


def _add_chart(category: Any, title: str, description: Sequence[Any]) -> None:
    where = f"add_custom_scalars: chart {title!r}"
    if not isinstance(description, list | tuple) or len(description) != 2:
        raise TypeError(f"{where} expects [kind, tags], got {description!r:.80}")
    kind, tags = description
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError(f"{where} expects a list of tags, got {tags!r:.80}")
    chart = category.chart.add(title=title)
    if kind != "Margin":
        chart.multiline.tag.extend(tags)
        return
    if len(tags) != 3:
        raise ValueError(
            f"{where} is a Margin chart and expects 3 tags (value, lower, upper), got {len(tags)}"
        )
    value, lower, upper = tags
    chart.margin.series.add(value=value, lower=lower, upper=upper)


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"add_custom_scalars: {what} must be a dict, got {type(value).__name__}")
    return value
