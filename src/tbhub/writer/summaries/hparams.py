"""Hyperparameters and metrics of a run, for TensorBoard's HParams dashboard.

Three messages describe a run: the experiment (which hyperparameters and metrics exist), the
start of its session (their values), and its end (how it went).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tbhub.events import schema
from tbhub.writer.arrays import to_array

_Value = bool | float | str

# The type an HParamInfo declares and the field of protobuf's Value it is stored in.
_KINDS: dict[type, tuple[str, str]] = {
    bool: ("DATA_TYPE_BOOL", "bool_value"),
    float: ("DATA_TYPE_FLOAT64", "number_value"),
    str: ("DATA_TYPE_STRING", "string_value"),
}


def hparams(
    hparam_dict: Mapping[str, Any],
    metric_dict: Mapping[str, Any],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """The summaries of the experiment, the session's start, and its successful end."""
    _check_mapping(metric_dict, "metric_dict")
    return (
        experiment(hparam_dict, metric_dict, hparam_domain_discrete),
        session_start(hparam_dict),
        session_end("STATUS_SUCCESS"),
    )


def experiment(
    hparam_dict: Mapping[str, Any],
    metrics: Iterable[str],
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> Any:
    """The summary that declares the names and types of hyperparameters, and the metrics."""
    values = _normalize(hparam_dict)
    domains = {} if hparam_domain_discrete is None else hparam_domain_discrete
    _check_mapping(domains, "hparam_domain_discrete")
    for name in domains:
        if name not in hparam_dict:
            raise TypeError(
                f"add_hparams: hparam_domain_discrete names {name!r}, which is no hyperparameter"
            )
    message = schema.Experiment()
    for name, value in values.items():
        kind, field = _KINDS[type(value)]
        info = message.hparam_infos.add(name=name, type=kind)
        if name in domains:
            info.domain_discrete.SetInParent()
            for choice in _domain(name, domains[name], type(value)):
                setattr(info.domain_discrete.values.add(), field, choice)
    for metric in metrics:
        message.metric_infos.add().name.tag = metric
    return _summary("_hparams_/experiment", experiment=message)


def session_start(
    hparam_dict: Mapping[str, Any], group_name: str = "", start_time_secs: float = 0.0
) -> Any:
    """The summary with the values of the hyperparameters."""
    message = schema.SessionStartInfo(group_name=group_name, start_time_secs=start_time_secs)
    for name, value in _normalize(hparam_dict).items():
        setattr(message.hparams[name], _KINDS[type(value)][1], value)
    return _summary("_hparams_/session_start_info", session_start_info=message)


def session_end(status: str | int = "STATUS_SUCCESS", end_time_secs: float = 0.0) -> Any:
    """The summary that says how the session ended: a name or number of ``schema.Status``."""
    message = schema.SessionEndInfo(status=status, end_time_secs=end_time_secs)
    return _summary("_hparams_/session_end_info", session_end_info=message)


def _summary(tag: str, **content: Any) -> Any:
    data = schema.HParamsPluginData(version=0, **content)
    metadata = schema.SummaryMetadata(
        plugin_data=schema.SummaryMetadata.PluginData(
            plugin_name="hparams", content=data.SerializeToString()
        )
    )
    return schema.Summary(value=[schema.Summary.Value(tag=tag, metadata=metadata)])


def _check_mapping(value: object, name: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"add_hparams: {name} must be a dict, got {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"add_hparams: {name} must have str keys, got {key!r:.40}")


def _normalize(hparam_dict: Mapping[str, Any]) -> dict[str, _Value]:
    """Each value as the bool, float or str it is shown as; None means not set, so left out."""
    _check_mapping(hparam_dict, "hparam_dict")
    return {name: _value(value) for name, value in hparam_dict.items() if value is not None}


def _value(value: Any) -> _Value:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:  # an integer beyond what the dashboard can hold as a number
            return str(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _array_value(value)
    if isinstance(value, list | tuple | dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    if callable(value):
        return str(getattr(value, "__name__", value))
    return str(value)


def _array_value(value: Any) -> _Value:
    """One element as the number it is, more as JSON; what is not numeric as its text."""
    try:
        array = to_array(value, "add_hparams")
    except TypeError:
        return str(value)
    if array.size == 1 and array.dtype.kind != "c":
        return _value(array.item())
    return json.dumps(array.tolist()) if array.dtype.kind != "c" else str(array)


def _domain(name: str, choices: Sequence[Any], kind: type) -> list[_Value]:
    if not isinstance(choices, list | tuple):
        raise TypeError(f"add_hparams: hparam_domain_discrete[{name!r}] must be a list")
    values = [_value(choice) for choice in choices]
    if any(type(value) is not kind for value in values):
        raise TypeError(
            f"add_hparams: hparam_domain_discrete[{name!r}] must hold values of the type of"
            f" hparam_dict[{name!r}], got {choices!r:.80}"
        )
    return values
