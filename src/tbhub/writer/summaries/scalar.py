"""One number, in the old form every reader knows or in the newer tensor form."""

from __future__ import annotations

from typing import Any

from tbhub.events import schema
from tbhub.writer.arrays import to_float


def scalar(
    tag: str,
    value: object,
    display_name: str = "",
    summary_description: str = "",
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """A summary with one number.

    ``new_style`` stores it as a tensor for the scalars plugin; only there can it keep double
    precision. The display name and description are shown on TensorBoard's card.
    """
    number = to_float(value, f"add_scalar({tag!r})")
    message = schema.Summary.Value(tag=tag)
    if display_name or summary_description:
        message.metadata.display_name = display_name
        message.metadata.summary_description = summary_description
    if not new_style:
        message.simple_value = number
    else:
        message.metadata.plugin_data.plugin_name = "scalars"
        if double_precision:
            message.tensor.dtype = schema.DataType.Value("DT_DOUBLE")
            message.tensor.double_val.append(number)
        else:
            message.tensor.dtype = schema.DataType.Value("DT_FLOAT")
            message.tensor.float_val.append(number)
    return schema.Summary(value=[message])
