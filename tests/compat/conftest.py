"""A tiny model, an ONNX file and an OpenVINO file for the graph calls."""

from __future__ import annotations

from pathlib import Path

import pytest

OPENVINO = """<?xml version="1.0"?>
<net name="tiny" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter"/>
    <layer id="1" name="relu" type="ReLU"/>
    <layer id="2" name="y" type="Result"/>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
    <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
  </edges>
</net>
"""


@pytest.fixture
def onnx_file(tmp_path: Path) -> str:
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Relu", ["x"], ["h"]),
            onnx.helper.make_node("LeakyRelu", ["h"], ["y"], alpha=0.5),
        ],
        "tiny",
        [value("x", onnx.TensorProto.FLOAT, [1, 4])],
        [value("y", onnx.TensorProto.FLOAT, [1, 4])],
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(onnx.helper.make_model(graph), path)
    return str(path)


@pytest.fixture
def openvino_file(tmp_path: Path) -> str:
    path = tmp_path / "tiny.xml"
    path.write_text(OPENVINO)
    return str(path)
