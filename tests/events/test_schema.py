"""Our messages are TensorBoard's, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from tensorboard.compat.proto import (
    attr_value_pb2,
    config_pb2,
    event_pb2,
    graph_pb2,
    node_def_pb2,
    resource_handle_pb2,
    step_stats_pb2,
    summary_pb2,
    tensor_pb2,
    tensor_shape_pb2,
    types_pb2,
    versions_pb2,
)
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import plugin_data_pb2 as hparams_pb2
from tensorboard.plugins.mesh import plugin_data_pb2 as mesh_pb2
from tensorboard.plugins.pr_curve import plugin_data_pb2 as pr_curve_pb2
from tensorboard.plugins.projector import projector_config_pb2
from tensorboard.plugins.text import plugin_data_pb2 as text_pb2

from tbhub.events import schema

THEIRS = [
    attr_value_pb2,
    config_pb2,
    event_pb2,
    graph_pb2,
    node_def_pb2,
    resource_handle_pb2,
    step_stats_pb2,
    summary_pb2,
    tensor_pb2,
    tensor_shape_pb2,
    types_pb2,
    versions_pb2,
    layout_pb2,
    api_pb2,
    hparams_pb2,
    mesh_pb2,
    pr_curve_pb2,
    projector_config_pb2,
    text_pb2,
]


def descriptors(names: dict[str, Any]) -> dict[str, Descriptor | EnumDescriptor]:
    return {name: each.DESCRIPTOR for name, each in names.items() if hasattr(each, "DESCRIPTOR")}


def find_theirs(name: str, hparams: bool) -> Any:
    for module in THEIRS:
        if ("hparams" in module.__name__) == hparams and hasattr(module, name):
            return getattr(module, name).DESCRIPTOR
    raise AssertionError(f"TensorBoard has no {name}")


def shape(field: Any) -> tuple[Any, ...]:
    kind = field.message_type or field.enum_type
    packed = field.is_packed if field.is_repeated else None
    oneof = field.containing_oneof.name if field.containing_oneof else None
    return field.number, field.type, kind.name if kind else None, field.is_repeated, packed, oneof


def compare(ours: Descriptor, theirs: Descriptor) -> None:
    for field in ours.fields:
        assert field.name in theirs.fields_by_name, f"{ours.name}.{field.name}"
        assert shape(field) == shape(theirs.fields_by_name[field.name]), f"{ours.name}.{field.name}"
    for nested in ours.nested_types:
        compare(nested, theirs.nested_types_by_name[nested.name])


@pytest.mark.parametrize("hparams", [False, True])
def test_messages_and_enums_are_tensorboards(hparams: bool) -> None:
    names = schema.hparams_names() if hparams else schema.event_names()
    found = descriptors(names)
    assert len(found) > 8
    for name, ours in found.items():
        theirs = find_theirs(name, hparams)
        if isinstance(ours, EnumDescriptor):
            assert {each.name: each.number for each in ours.values} == {
                each.name: each.number for each in theirs.values
            }
        else:
            compare(ours, theirs)
