"""The graph of an OpenVINO model, from files written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tbhub.writer.graphs.openvino_graph import openvino_graph

process_graph = pytest.importorskip("tensorboard.backend.process_graph")

MODEL = """<?xml version="1.0"?>
<net name="Model0" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data shape="?,4" element_type="f32"/>
      <output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>4</dim></port></output>
    </layer>
    <layer id="1" name="axis" type="Const" version="opset1">
      <data element_type="i64" shape="" offset="0" size="8"/>
      <output><port id="0" precision="I64"/></output>
    </layer>
    <layer id="2" name="block/split" type="Split" version="opset1">
      <data num_splits="2"/>
      <input>
        <port id="0"><dim>-1</dim><dim>4</dim></port>
        <port id="1"/>
      </input>
      <output>
        <port id="2"><dim>-1</dim><dim>2</dim></port>
        <port id="3"><dim>-1</dim><dim>2</dim></port>
      </output>
    </layer>
    <layer id="3" name="block/sub" type="Subtract" version="opset1">
      <input><port id="0"/><port id="1"/></input>
      <output><port id="2"><dim>-1</dim><dim>2</dim></port></output>
    </layer>
    <layer id="4" name="block/sub" type="Result" version="opset1">
      <input><port id="0"/></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
    <edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
    <edge from-layer="2" from-port="2" to-layer="3" to-port="1"/>
    <edge from-layer="2" from-port="3" to-layer="3" to-port="0"/>
    <edge from-layer="3" from-port="2" to-layer="4" to-port="0"/>
  </edges>
</net>
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.xml"
    path.write_text(MODEL)
    return path


def by_name(graph: Any) -> dict[str, Any]:
    nodes = {node.name: node for node in graph.node}
    assert len(nodes) == len(graph.node)
    return nodes


def test_one_node_per_layer_with_every_input(model: Path) -> None:
    nodes = by_name(openvino_graph(str(model)))
    assert {name: node.op for name, node in nodes.items()} == {
        "x": "Parameter",
        "axis": "Const",
        "block/split": "Split",
        "block/sub": "Subtract",
        "block/sub_1": "Result",
    }
    assert list(nodes["block/split"].input) == ["x", "axis"]
    assert list(nodes["block/sub"].input) == ["block/split:1", "block/split"]
    assert list(nodes["block/sub_1"].input) == ["block/sub"]
    assert not nodes["x"].input


def test_shapes_and_parameters(model: Path) -> None:
    nodes = by_name(openvino_graph(model))
    shapes = nodes["block/split"].attr["_output_shapes"].list.shape
    assert [[dim.size for dim in shape.dim] for shape in shapes] == [[-1, 2], [-1, 2]]
    assert nodes["block/split"].attr["parameters"].s == b"num_splits = 2"
    assert nodes["x"].attr["parameters"].s == b"shape = ?,4, element_type = f32"
    assert nodes["block/sub"].attr["parameters"].s == b""
    assert "_output_shapes" not in nodes["block/sub_1"].attr


def test_the_body_of_a_loop_is_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "loop.xml"
    path.write_text(
        "<net><layers><layer id='0' name='loop' type='Loop'><body><layers>"
        "<layer id='0' name='inside' type='Add'/></layers><edges/></body></layer></layers></net>"
    )
    assert set(by_name(openvino_graph(path))) == {"loop"}


def test_long_parameters_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "long.xml"
    data = f"<data values='{'1, ' * 5000}'/>"
    path.write_text(f"<net><layers><layer id='0' name='a' type='A'>{data}</layer></layers></net>")
    assert len(by_name(openvino_graph(path))["a"].attr["parameters"].s) < 1000


LAYERS = "<net><layers><layer id='0' name='a' type='A'/></layers>"
BOMB = "<!DOCTYPE net [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]><net><layers>&b;</layers></net>"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not well-formed"),
        ("<net><layers>", "not well-formed"),
        ("\0\1\2", "not well-formed"),
        (BOMB, "document type"),
        ("<!DOCTYPE net SYSTEM 'file:///etc/passwd'><net><layers/></net>", "document type"),
        ("<html/>", "no <net>"),
        ("<net/>", "no <net>"),
        ("<net><layers><layer id='0' type='A'/></layers></net>", "<layer> has no name"),
        (f"{LAYERS}<edges><edge from-layer='0'/></edges></net>", "<edge> has no to-layer"),
        (f"{LAYERS}<edges><edge from-layer='0' to-layer='7'/></edges></net>", "layers 0 and 7"),
        (LAYERS.replace("</layers>", "<layer id='0' name='b' type='B'/></layers></net>"), "id 0"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_file_that_is_no_model(tmp_path: Path, content: str, reason: str, encoding: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(content, encoding=encoding)
    with pytest.raises(ValueError, match=rf"bad\.xml is not an OpenVINO model: .*{reason}"):
        openvino_graph(path)


def test_a_size_no_tensor_has(tmp_path: Path) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(MODEL.replace("<dim>4</dim>", f"<dim>{2**80}</dim>"))
    with pytest.raises(ValueError, match=r"bad\.xml is not an OpenVINO model"):
        openvino_graph(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.xml"):
        openvino_graph(tmp_path / "none.xml")


def test_tensorboard_takes_it(model: Path) -> None:
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    graph = GraphDef.FromString(openvino_graph(model).SerializeToString())
    process_graph.prepare_graph_for_ui(graph)
    nodes = by_name(graph)
    assert graph.versions.producer == 22
    for node in graph.node:
        assert {name.split(":")[0] for name in node.input} <= set(nodes), "an edge from nowhere"
