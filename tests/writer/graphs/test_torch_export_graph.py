"""The graph of a PyTorch model drawn through torch.export."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from tbhub.events.schema import GraphDef
from tbhub.writer.graphs.torch_export_graph import torch_export_nodes

process_graph = pytest.importorskip("tensorboard.backend.process_graph")


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.out = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return self.out(torch.relu(self.fc(x)))


class Layers(nn.Module):
    """Containers, a module called twice, a parameter, a buffer and a constant of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Perceptron(), nn.Sequential(nn.Linear(4, 4), nn.Dropout())])
        self.shared = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x) * self.scale + self.shift
        return self.shared(self.shared(x)) + torch.tensor([1.0, 2.0, 3.0, 4.0])


class ManyInManyOut(nn.Module):
    def forward(self, x: Any, pair: Any, factor: int, unused: Any) -> Any:
        first, second = x.split(1)
        return {"a": first * factor, "b": (second + pair["y"], None), "c": x, "d": 7}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 2)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)


class Dynamic(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.nonzero() + 1


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


CASES: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "layers": (Layers(), (torch.rand(2, 4),)),
    "many": (ManyInManyOut(), (torch.rand(2, 3), {"y": torch.rand(1, 3)}, 2, torch.rand(1))),
    "recurrent": (Recurrent(), (torch.rand(4, 1, 3),)),
    "dynamic": (Dynamic(), (torch.tensor([1.0, 0.0, 2.0]),)),
    "branching": (Branching(), (torch.rand(3),)),
}


def nodes_of(case: str) -> dict[str, Any]:
    model, inputs = CASES[case]
    nodes = torch_export_nodes(model.eval(), inputs)
    by_name = {node.name: node for node in nodes}
    assert len(by_name) == len(nodes)
    return by_name


def shapes(node: Any) -> list[list[int]]:
    return [[dim.size for dim in shape.dim] for shape in node.attr["_output_shapes"].list.shape]


@pytest.fixture(scope="module")
def layers() -> dict[str, Any]:
    return nodes_of("layers")


def test_operations_stand_in_the_boxes_of_their_modules(layers: dict[str, Any]) -> None:
    linear = layers["Layers/ModuleList[layers]/Perceptron[0]/Linear[fc]/linear"]
    assert linear.op == "aten::linear"
    assert list(linear.input) == [
        "input/x",
        "Layers/ModuleList[layers]/Perceptron[0]/Linear[fc]/weight/p_layers_0_fc_weight",
        "Layers/ModuleList[layers]/Perceptron[0]/Linear[fc]/bias/p_layers_0_fc_bias",
    ]
    assert shapes(linear) == [[2, 3]]
    assert layers["Layers/ModuleList[layers]/Perceptron[0]/relu"].op == "aten::relu"
    assert layers["Layers/ModuleList[layers]/Sequential[1]/Linear[0]/linear_2"].op == "aten::linear"


def test_a_module_called_twice_is_one_box(layers: dict[str, Any]) -> None:
    calls = [name for name in layers if re.fullmatch(r"Layers/Linear\[shared\]/linear_\d", name)]
    assert len(calls) == 2


def test_parameters_buffers_and_constants(layers: dict[str, Any]) -> None:
    assert layers["Layers/scale/p_scale"].op == "Parameter"
    assert layers["Layers/shift/b_shift"].op == "Buffer"
    assert shapes(layers["Layers/scale/p_scale"]) == [[4]]
    assert [name for name, node in layers.items() if node.op == "Constant"]


def test_arguments_that_are_not_edges_are_attributes(layers: dict[str, Any]) -> None:
    dropout = next(node for node in layers.values() if node.op == "aten::dropout")
    assert dropout.attr["attr"].s.decode() == "{ p : 0.5,  train : False}"


def test_inputs_and_outputs() -> None:
    nodes = nodes_of("many")
    # The number and the tensor nobody reads have no node.
    assert [name for name in nodes if name.startswith("input/")] == ["input/x", "input/pair_y"]
    outputs = {name: list(nodes[name].input) for name in nodes if name.startswith("output/")}
    assert outputs == {
        "output/output.1": ["ManyInManyOut/mul"],
        "output/output.2": ["ManyInManyOut/add"],
        "output/output.4": ["input/x"],
    }
    assert shapes(nodes["output/output.2"]) == [[1, 3]]
    assert nodes["ManyInManyOut/getitem"].op == "operator::getitem"
    assert shapes(nodes["ManyInManyOut/split"]) == [[1, 3], [1, 3]]


def test_a_dimension_of_run_time_is_open() -> None:
    assert shapes(nodes_of("dynamic")["output/output.1"]) == [[-1, 1]]


def test_long_attributes_are_cut() -> None:
    class Long(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.permute(list(reversed(range(60))))

    permute = next(
        node
        for node in torch_export_nodes(Long(), (torch.rand([1] * 60),))
        if node.op == "aten::permute"
    )
    assert permute.attr["attr"].s.decode().startswith("{ dims : [59, 58, ")
    assert len(permute.attr["attr"].s) < 1000


def test_verbose_prints_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    torch_export_nodes(Dynamic(), (torch.ones(2),), verbose=True)
    assert "aten.nonzero" in capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_tensorboard_takes_it(case: str) -> None:
    from tensorboard.compat.proto import graph_pb2

    nodes = nodes_of(case)
    graph = graph_pb2.GraphDef.FromString(GraphDef(node=nodes.values()).SerializeToString())
    process_graph.prepare_graph_for_ui(graph)
    for node in graph.node:
        assert "_too_large_attrs" not in node.attr
        assert set(node.input) <= set(nodes), "an edge from nowhere"
