"""The helper modules have the names people import from the libraries, with their parameters."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

# What is left out, and why.
NO_CLOUD_CLIENTS = {
    "GCSRecordWriter",
    "GCSRecordWriterFactory",
    "S3RecordWriter",
    "S3RecordWriterFactory",
    "maybe_upload_file",
}
NO_FRAMEWORK_IMPORTS = {"prepare_chainer", "prepare_mxnet", "prepare_pytorch", "prepare_theano"}
EMPTY_THERE = {"graphviz_to_image"}
TRACER_INTERNALS = {"GraphPy", "NodeBase", "NodePy", "NodePyIO", "NodePyOP", "parse"}

X = "tensorboardX"
T = "torch.utils.tensorboard"
MODULES = [
    (f"{X}.crc32c", set()),
    (f"{X}.embedding", NO_CLOUD_CLIENTS),
    (f"{X}.event_file_writer", set()),
    (f"{X}.global_writer", set()),
    (f"{X}.onnx_graph", set()),
    (f"{X}.openvino_graph", set()),
    (f"{X}.record_writer", NO_CLOUD_CLIENTS),
    (f"{X}.summary", set()),
    (f"{X}.torchvis", set()),
    (f"{X}.utils", EMPTY_THERE),
    (f"{X}.writer", set()),
    (f"{X}.x2num", NO_FRAMEWORK_IMPORTS),
    (f"{T}._convert_np", set()),
    (f"{T}._embedding", set()),
    (f"{T}._onnx_graph", set()),
    (f"{T}._proto_graph", set()),
    (f"{T}._pytorch_graph", TRACER_INTERNALS),
    (f"{T}._utils", set()),
    (f"{T}.summary", set()),
    (f"{T}.writer", set()),
]


def ours_for(name: str) -> str:
    return "tbhub.compat." + name.replace(T, "torch")


@pytest.mark.parametrize(("name", "left_out"), MODULES)
def test_definitions(name: str, left_out: set[str]) -> None:
    theirs, ours = importlib.import_module(name), importlib.import_module(ours_for(name))
    for member, value in vars(theirs).items():
        defined_there = getattr(value, "__module__", None) == name
        if not defined_there or member.startswith("_") or member in left_out:
            continue
        assert hasattr(ours, member), member
        if inspect.isfunction(value):
            wanted = [(p.name, p.default) for p in inspect.signature(value).parameters.values()]
            got = inspect.signature(getattr(ours, member)).parameters.values()
            assert [(p.name, p.default) for p in got] == wanted, member


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (X, ["SummaryWriter", "GlobalSummaryWriter", "FileWriter", "RecordWriter", "TorchVis"]),
        (X, ["__version__", "summary", "utils", "x2num", "proto", "writer", "embedding"]),
        (f"{X}.summary", ["_clean_tag"]),
        (f"{X}.utils", ["_prepare_video"]),
        (f"{X}.writer", ["numpy_compatible", "DummyFileWriter"]),
        (f"{X}.record_writer", ["REGISTERED_FACTORIES", "masked_crc32c"]),
        (f"{X}.crc32c", ["CRC_TABLE", "CRC_INIT", "crc32c"]),
        (f"{X}.embedding", ["TB_MAX_SPRITE_SIZE"]),
        (f"{X}.torchvis", ["vis_formats"]),
        (T, ["SummaryWriter", "FileWriter", "RecordWriter", "summary", "writer", "_utils"]),
        (f"{T}._utils", ["_prepare_video"]),
    ],
)
def test_names(module: str, names: list[str]) -> None:
    theirs, ours = importlib.import_module(module), importlib.import_module(ours_for(module))
    for name in names:
        assert hasattr(theirs, name)
        assert hasattr(ours, name), name


@pytest.mark.parametrize("package", ["tensorboardX", "torch"])
def test_unknown_names(package: str) -> None:
    module = importlib.import_module(f"tbhub.compat.{package}")
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_name"):
        module.writer.no_such_name  # noqa: B018


LIGHT = """
import sys
before = set(sys.modules)  # what is installed may put a name there
from tbhub.compat.{package} import SummaryWriter
with SummaryWriter({logdir!r}) as writer:
    writer.add_scalar("a b", 1.0, 1)
    writer.add_scalars("a b", {{"train": 1.0, "test": 2.0}}, 1)
heavy = {{"numpy", "google", "google.protobuf", "torch", "tensorboard", "tensorboardX", "PIL"}}
heavy.add("multiprocessing")
print(sorted(heavy & set(sys.modules) - before))
"""


@pytest.mark.parametrize("package", ["tensorboardX", "torch"])
def test_scalars_are_light(package: str, tmp_path: Path) -> None:
    script = LIGHT.format(package=package, logdir=str(tmp_path))
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.strip() == "[]"


HELPERS = """
import importlib, sys
from tbhub.compat import torch, tensorboardX
for name in sorted(torch._SUBMODULES):
    importlib.import_module("tbhub.compat.torch." + name)
for name in sorted(tensorboardX._SUBMODULES):
    importlib.import_module("tbhub.compat.tensorboardX." + name)
print(sorted({"torch", "tensorboard", "tensorboardX", "matplotlib", "onnx"} & set(sys.modules)))
"""


def test_helpers_import_no_framework(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", HELPERS], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert run.stdout.strip() == "[]"
