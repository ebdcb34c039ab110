"""The graph of a PyTorch model against that of torch.utils.tensorboard, node by node."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tbhub.writer.graphs.torch_graph import torch_graph

process_graph = pytest.importorskip("tensorboard.backend.process_graph")


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.out = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(F.relu(self.fc(x)))


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout())
        self.shared = nn.Conv2d(2, 2, 1)
        self.head = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.shared(self.body(x))
        x = self.shared(x) + x
        return self.head(x.mean((2, 3)))


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Perceptron()
        self.rest = nn.Sequential(nn.Linear(2, 4), nn.Sequential(Perceptron(), nn.Tanh()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output, _ = self.rnn(x)
        return self.fc(output[:, -1])


class ManyInManyOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Any, y: Any, unused: Any) -> Any:
        return self.fc(x), self.fc(y) * 2, x


class Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.heads = nn.ModuleDict({"only": nn.Linear(3, 1)})
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.arange(3.0))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x) * self.scale + self.shift
        return self.heads["only"](x)


class DictOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return {"a": self.fc(x), "b": x + 1}


class DictIn(nn.Module):
    def forward(self, x: Any) -> Any:
        return x["a"] + x["b"]


class Constant(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.zeros(3) + 1


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.embedding(x))


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = self.fc(x)
        return x


class NamedOutput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = x + 1
        if bool(x.sum() > 0):
            output = output * 2
        return output


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y + 1


CASES: dict[str, tuple[Any, Any, bool]] = {
    "perceptron": (Perceptron, torch.rand(2, 4), True),
    "one layer": (lambda: nn.Linear(4, 2), torch.rand(1, 4), True),
    "convolutional": (Convolutional, torch.rand(2, 1, 4, 4), True),
    "tuple of one": (Convolutional, (torch.rand(2, 1, 4, 4),), True),
    "nested": (Nested, torch.rand(1, 4), True),
    "recurrent": (Recurrent, torch.rand(2, 5, 3), True),
    "tuple of inputs": (ManyInManyOut, (torch.rand(1, 3), torch.rand(1, 3), torch.rand(1)), True),
    "list of inputs": (ManyInManyOut, [torch.rand(1, 3), torch.rand(1, 3), torch.rand(1)], True),
    "containers": (Containers, torch.rand(1, 3), True),
    "dict out": (DictOut, torch.rand(1, 3), False),
    "dict in": (DictIn, {"a": torch.rand(2), "b": torch.rand(2)}, True),
    "constant": (Constant, torch.rand(1), True),
    "tied": (Tied, torch.tensor([1, 2]), True),
    "attention": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        torch.rand(1, 2, 4),
        True,
    ),
}


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """For torch's own use of what it deprecates, and what the reference prints."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def reference(model: Any, inputs: Any, strict: bool = True) -> tuple[Any, Any]:
    with quietly():
        from torch.utils.tensorboard._pytorch_graph import graph

        return graph(model, inputs, False, strict)


def scripted(model: Any) -> Any:
    with quietly():
        return torch.jit.script(model)


def as_tensorboard(graph: Any) -> Any:
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    return GraphDef.FromString(graph.SerializeToString())


def renumbered(graph: Any) -> list[tuple[str, str, list[str]]]:
    """The nodes with the running numbers of unnamed values in order of appearance."""
    numbers: dict[str, str] = {}

    def rename(name: str) -> str:
        return re.sub(
            r"/(\d+)$", lambda m: "/#" + numbers.setdefault(m[1], str(len(numbers))), name
        )

    return [(rename(node.name), node.op, [*map(rename, node.input)]) for node in graph.node]


@pytest.mark.parametrize("case", CASES)
def test_same_as_torch(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, inputs, strict = CASES[case]
    model = make()
    graph, metadata = torch_graph(model, inputs, use_strict_trace=strict)
    if case == "attention":  # whose own check fails, as it runs a fused kernel the second time
        trace = torch.jit.trace
        monkeypatch.setattr(torch.jit, "trace", lambda *a, **k: trace(*a, **k, check_trace=False))
    expected, expected_metadata = reference(model, inputs, strict)

    assert list(as_tensorboard(graph).node) == list(expected.node)
    assert as_tensorboard(graph) == expected
    assert metadata.SerializeToString() == expected_metadata.SerializeToString()


def test_names() -> None:
    graph, metadata = torch_graph(Perceptron(), torch.rand(2, 4))
    nodes = {node.name: node for node in graph.node}
    assert nodes["input/x"].op == "IO Node"
    assert [dim.size for dim in nodes["input/x"].attr["_output_shapes"].list.shape[0].dim] == [2, 4]
    linear = nodes["Perceptron/Linear[fc]/input.1"]
    assert linear.op == "aten::linear"
    assert linear.input[0] == "input/x"
    assert nodes["output/output.1"].input[0].startswith("Perceptron/Linear[out]/")
    assert metadata.step_stats.dev_stats[0].device == "/device:CPU:0"


@pytest.mark.parametrize("inputs", [torch.rand(2, 4), None])
def test_script_module_is_read_and_left_as_it_was(inputs: Any) -> None:
    model = scripted(Nested())
    before = str(model.graph)
    graph, _ = torch_graph(model, inputs)
    assert str(model.graph) == before
    expected, _ = reference(model, inputs)
    assert renumbered(graph) == renumbered(expected)


def test_traced_module() -> None:
    with quietly():
        model = torch.jit.trace(Perceptron(), torch.rand(2, 4))
    graph, _ = torch_graph(model, torch.rand(2, 4))
    expected, _ = reference(model, torch.rand(2, 4))
    assert renumbered(graph) == renumbered(expected)


def test_frozen_script_module() -> None:
    with quietly():
        model = torch.jit.freeze(torch.jit.script(Perceptron().eval()))
    graph, _ = torch_graph(model)
    assert "aten::linear" in {node.op for node in graph.node}


def test_scripted_part() -> None:
    model = nn.Sequential(scripted(Perceptron()), nn.ReLU())
    graph, _ = torch_graph(model, torch.rand(2, 4))
    expected, _ = reference(model, torch.rand(2, 4))
    assert as_tensorboard(graph) == expected


@pytest.mark.parametrize("wrap", [scripted, lambda function: function])
def test_functions(wrap: Any) -> None:
    graph, _ = torch_graph(wrap(product), (torch.rand(2), torch.rand(2)))
    operations = {node.op: node.name for node in graph.node if node.name.startswith("product/")}
    assert {"aten::mul", "aten::add"} <= set(operations)


def test_a_value_called_output_does_not_hide_the_output() -> None:
    """torch.utils.tensorboard draws one node for both."""
    graph, _ = torch_graph(scripted(NamedOutput()))
    names = [node.name for node in graph.node]
    assert {"NamedOutput/output.1", "output/output.1"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("inputs", [torch.rand(2, 1, 4, 4), torch.rand(7)])
def test_the_model_is_left_as_it_was(inputs: Any) -> None:
    model = Convolutional().train()
    model.body[1].eval()
    statistics = model.body[1].running_mean.clone()
    with contextlib.suppress(RuntimeError):
        torch_graph(model, inputs)
    assert model.training
    assert model.body.training
    assert not model.body[1].training
    assert torch.equal(model.body[1].running_mean, statistics)
    assert torch.is_grad_enabled()
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_model_with_work_in_train_is_not_asked_to_do_it() -> None:
    class Merging(Perceptron):
        def train(self, mode: bool = True) -> Any:
            raise AssertionError("merged")

    torch_graph(Merging(), torch.rand(2, 4))


def test_the_tracers_warning_about_the_model_is_kept() -> None:
    with pytest.warns(torch.jit.TracerWarning, match="Python boolean"):
        torch_graph(Branching(), torch.rand(2, 3))


def test_verbose_prints_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    torch_graph(Perceptron(), torch.rand(2, 4))
    assert capsys.readouterr().out == ""
    torch_graph(Perceptron(), torch.rand(2, 4), verbose=True)
    assert "aten::linear" in capsys.readouterr().out


def test_what_cannot_be_traced_is_exported() -> None:
    graph, metadata = torch_graph(DictOut(), torch.rand(1, 3))
    outputs = [node.input[0] for node in graph.node if node.name.startswith("output/")]
    assert outputs == ["DictOut/Linear[fc]/linear", "DictOut/add"]
    assert metadata.step_stats.dev_stats


def test_without_the_tracer_the_model_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.jit, "trace")
    graph, _ = torch_graph(DictIn(), {"a": torch.rand(2), "b": torch.rand(2)})
    assert "DictIn/add" in {node.name for node in graph.node}


def test_both_reasons_are_given() -> None:
    with pytest.raises(RuntimeError, match="graph of Perceptron") as caught:
        torch_graph(Perceptron(), torch.rand(2, 9))
    trace, export = str(caught.value).splitlines()[1:]
    assert trace.startswith("  torch.jit.trace: RuntimeError: mat1 and mat2")
    assert export.startswith("  torch.export: ")
    assert "mat1 and mat2" in str(caught.value.__cause__)


def test_no_inputs() -> None:
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace: TypeError: .* argument: 'x'"):
        torch_graph(Perceptron())


@pytest.mark.parametrize("case", CASES)
def test_tensorboard_takes_it(case: str) -> None:
    make, inputs, strict = CASES[case]
    graph = as_tensorboard(torch_graph(make(), inputs, use_strict_trace=strict)[0])
    process_graph.prepare_graph_for_ui(graph)
    assert len({node.name for node in graph.node}) == len(graph.node)
    assert graph.versions.producer == 22


def test_torch_is_imported_only_when_a_model_comes() -> None:
    code = "import sys, tbhub.writer.graphs.torch_graph as _; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
