"""Every public method takes what the library's own takes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import tensorboardX
import tensorboardX.event_file_writer
import tensorboardX.torchvis
import torch.utils.tensorboard as torch_tensorboard
from tensorboardX.writer import DummyFileWriter

import tbhub.compat.tensorboardX
import tbhub.compat.tensorboardX.event_file_writer
import tbhub.compat.torch
from tbhub.compat.tensorboardX import writer as x_writer

CLASSES = [
    (tbhub.compat.tensorboardX.SummaryWriter, tensorboardX.SummaryWriter),
    (tbhub.compat.tensorboardX.GlobalSummaryWriter, tensorboardX.GlobalSummaryWriter),
    (tbhub.compat.tensorboardX.FileWriter, tensorboardX.FileWriter),
    (tbhub.compat.tensorboardX.RecordWriter, tensorboardX.RecordWriter),
    (tbhub.compat.tensorboardX.TorchVis, tensorboardX.TorchVis),
    (x_writer.DummyFileWriter, DummyFileWriter),
    (
        tbhub.compat.tensorboardX.event_file_writer.EventFileWriter,
        tensorboardX.event_file_writer.EventFileWriter,
    ),
    (
        tbhub.compat.tensorboardX.event_file_writer.EventsWriter,
        tensorboardX.event_file_writer.EventsWriter,
    ),
    (tbhub.compat.torch.SummaryWriter, torch_tensorboard.SummaryWriter),
    (tbhub.compat.torch.FileWriter, torch_tensorboard.FileWriter),
    (tbhub.compat.torch.RecordWriter, torch_tensorboard.RecordWriter),
]
METHODS = [
    (ours, theirs, name)
    for ours, theirs in CLASSES
    for name, _ in inspect.getmembers(theirs, inspect.isfunction)
    if not name.startswith("_") or name == "__init__"
]


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [
        pytest.param(*each, id=f"{each[1].__module__}.{each[1].__name__}.{each[2]}")
        for each in METHODS
    ],
)
def test_same_parameters(ours: Any, theirs: Any, name: str) -> None:
    assert parameters(getattr(ours, name)) == parameters(getattr(theirs, name))


def test_methods_are_found() -> None:
    assert len(METHODS) > 90
