"""Hyperparameters given with a run, in the form TensorBoard's HParams dashboard reads."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real

from google.protobuf import struct_pb2
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.plugins.hparams.metadata import PLUGIN_DATA_VERSION


def session_start(hparams: Mapping[str, object]) -> bytes:
    """The plugin data of the start of a session with these values."""
    start = plugin_data_pb2.SessionStartInfo()
    for name, value in hparams.items():
        start.hparams[name].CopyFrom(_value(value))
    data = plugin_data_pb2.HParamsPluginData(version=PLUGIN_DATA_VERSION, session_start_info=start)
    return bytes(data.SerializeToString())


def _value(value: object) -> struct_pb2.Value:
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, Real):
        return struct_pb2.Value(number_value=float(value))
    return struct_pb2.Value(string_value=str(value))
