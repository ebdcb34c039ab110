"""The graph of an ONNX model, against tensorboardX's where that one holds together."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tbhub.writer.graphs.onnx_graph import onnx_graph

onnx = pytest.importorskip("onnx")
process_graph = pytest.importorskip("tensorboard.backend.process_graph")
helper = onnx.helper
FLOAT = onnx.TensorProto.FLOAT


def value(name: str, shape: Any = (), kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, *shape: int) -> Any:
    return onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name)


def model(nodes: Any, inputs: Any, outputs: Any, **more: Any) -> Any:
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, **more))


def by_name(graph: Any) -> dict[str, Any]:
    nodes = {node.name: node for node in graph.node}
    assert len(nodes) == len(graph.node)
    return nodes


def sizes(shape: Any) -> list[int]:
    return [dim.size for dim in shape.dim]


@pytest.fixture
def classifier() -> Any:
    return model(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1, alpha=0.5),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        [value("x", ["batch", 4])],
        [value("y", ["batch", 2])],
        initializer=[tensor("w", 2, 4), tensor("b", 2)],
        value_info=[value("h", ["batch", 2])],
    )


def test_nodes(classifier: Any) -> None:
    nodes = by_name(onnx_graph(classifier))
    assert set(nodes) == {"x", "w", "b", "h", "y", "output/y"}
    assert nodes["x"].op == "Variable"
    assert nodes["x"].attr["dtype"].type == 1
    assert sizes(nodes["x"].attr["shape"].shape) == [-1, 4]
    assert nodes["x"].attr["shape"].shape.dim[0].name == "batch"
    assert nodes["h"].op == "Gemm"
    assert list(nodes["h"].input) == ["x", "w", "b"]
    assert set(nodes["h"].attr["parameters"].s.decode().split(", ")) == {
        "alpha = 0.5",
        "transB = 1",
    }
    assert sizes(nodes["h"].attr["_output_shapes"].list.shape[0]) == [-1, 2]
    assert nodes["w"].op == "Const"
    assert sizes(nodes["w"].attr["shape"].shape) == [2, 4]
    assert nodes["output/y"].op == "Variable"
    assert list(nodes["output/y"].input) == ["y"]


def test_has_every_node_of_tensorboardx(classifier: Any) -> None:
    theirs = pytest.importorskip("tensorboardX.onnx_graph")
    with contextlib.redirect_stdout(io.StringIO()):
        expected = theirs.parse(classifier.graph)
    nodes = by_name(onnx_graph(classifier))
    for node in expected.node:
        assert node.name in nodes
        if node.op != "Variable":  # theirs has the output twice, as operation and as variable
            assert (nodes[node.name].op, list(nodes[node.name].input)) == (
                node.op,
                list(node.input),
            )


def test_a_file_is_read_without_its_weights(
    classifier: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        classifier,
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (tmp_path / "weights.bin").unlink()
    graph = onnx_graph(path)
    assert "h" in by_name(graph)
    assert graph == onnx_graph(str(path))
    assert capsys.readouterr().out == ""


def test_weights_listed_as_inputs_are_drawn_once() -> None:
    graph = onnx_graph(
        model(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [value("x", [2]), value("w", [2])],
            [value("y", [2])],
            initializer=[tensor("w", 2)],
        )
    )
    assert by_name(graph)["w"].op == "Variable"


def test_missing_inputs_and_further_outputs() -> None:
    nodes = by_name(
        onnx_graph(
            model(
                [
                    helper.make_node("Clip", ["x", "", "high"], ["c"]),
                    helper.make_node("Split", ["c"], ["", "s:0", "s:1"]),
                    helper.make_node("Add", ["s:0", "s:1"], ["y"]),
                    helper.make_node("Print", ["x"], []),
                    helper.make_node("Print", ["x"], [], name="c"),
                ],
                [value("x"), value("high")],
                [value("y"), value("s:1"), value("x")],
            )
        )
    )
    assert list(nodes["c"].input) == ["x", "high"]
    # "s:0" would be read as the first output of a node called s.
    assert nodes["s_0"].op == "Split"
    assert list(nodes["y"].input) == ["s_0", "s_0:1"]
    assert nodes["Print_3"].op == nodes["c_1"].op == "Print"
    assert list(nodes["output/s_1"].input) == ["s_0:1"]
    assert list(nodes["output/x"].input) == ["x"]


def test_open_shapes_and_other_kinds_of_values() -> None:
    sequence = helper.make_tensor_sequence_value_info("sequence", FLOAT, None)
    nodes = by_name(
        onnx_graph(
            model(
                [helper.make_node("SequenceAt", ["sequence", "i"], ["y"])],
                [
                    sequence,
                    value("i", [], onnx.TensorProto.INT64),
                    value("unknown", None),
                    value("anonymous", [None, 3]),
                ],
                [value("y", None)],
            )
        )
    )
    assert nodes["sequence"].attr["shape"].shape.unknown_rank
    assert nodes["unknown"].attr["shape"].shape.unknown_rank
    assert not nodes["i"].attr["shape"].shape.unknown_rank
    assert sizes(nodes["anonymous"].attr["shape"].shape) == [-1, 3]
    assert nodes["i"].attr["dtype"].type == 9  # DT_INT64; ONNX's 7 would be a string


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("BFLOAT16", "DT_BFLOAT16"),
        ("FLOAT16", "DT_HALF"),
        ("FLOAT8E5M2", "DT_FLOAT8_E5M2"),
        ("BOOL", "DT_BOOL"),
        ("STRING", "DT_STRING"),
        ("UINT4", "DT_UINT4"),
        ("COMPLEX128", "DT_COMPLEX128"),
        ("UNDEFINED", "DT_INVALID"),
    ],
)
def test_element_types(kind: str, name: str) -> None:
    from tbhub.events.schema import DataType

    number = onnx.TensorProto.DataType.Value(kind)
    nodes = by_name(onnx_graph(model([], [value("x", [], number)], [])))
    assert DataType.Name(nodes["x"].attr["dtype"].type) == name


def test_an_element_type_of_the_future() -> None:
    assert by_name(onnx_graph(model([], [value("x", [], 99)], [])))["x"].attr["dtype"].type == 0


def test_attributes_are_short() -> None:
    body = helper.make_graph([helper.make_node("Relu", ["h"], ["r"])], "body", [], [value("r")])
    node = helper.make_node(
        "Everything",
        ["x"],
        ["y"],
        weights=tensor("", 300, 400),
        axes=list(range(5000)),
        mode="linear",
        names=["a", "b"],
        text="z" * 5000,
        then=body,
        bodies=[body, body],
        rate=0.25,
    )
    node.attribute.add(name="given", ref_attr_name="outer")
    node.attribute.add(name="empty")
    graph = onnx_graph(model([node], [value("x")], [value("y")]))
    text = by_name(graph)["y"].attr["parameters"].s.decode()
    assert "weights = float[300×400]" in text
    assert "14, 15, …]" in text
    assert "mode = linear" in text
    assert "names = [a, b]" in text
    assert "then = graph body (1 nodes)" in text
    assert "rate = 0.25" in text
    assert "given = @outer" in text
    assert "empty = []" in text
    assert len(text.encode()) < 1000


def test_the_whole_text_is_cut_to_what_is_shown() -> None:
    node = helper.make_node("Many", ["x"], ["y"], **{f"é{i}": "é" * 60 for i in range(50)})
    text = by_name(onnx_graph(model([node], [value("x")], [value("y")])))["y"].attr["parameters"].s
    assert text.decode().endswith("…")
    assert len(text) < 1000


def test_sparse_weights() -> None:
    sparse = onnx.helper.make_sparse_tensor(
        tensor("w", 2), helper.make_tensor("", onnx.TensorProto.INT64, [2], [0, 5]), [3, 3]
    )
    graph = onnx_graph(
        model(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [value("x", [1, 3])],
            [value("y", [1, 3])],
            sparse_initializer=[sparse],
        )
    )
    assert sizes(by_name(graph)["w"].attr["shape"].shape) == [3, 3]


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\xff" * 64])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.onnx is not an ONNX model"):
        onnx_graph(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
        onnx_graph(tmp_path / "none.onnx")


def test_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        onnx_graph("model.onnx")


def test_tensorboard_takes_it(classifier: Any) -> None:
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    graph = GraphDef.FromString(onnx_graph(classifier).SerializeToString())
    process_graph.prepare_graph_for_ui(graph)
    nodes = by_name(graph)
    assert graph.versions.producer == 22
    for node in graph.node:
        assert "_too_large_attrs" not in node.attr
        assert set(node.input) <= set(nodes), "an edge from nowhere"
