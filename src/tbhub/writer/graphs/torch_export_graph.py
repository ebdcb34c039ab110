"""A PyTorch model drawn through ``torch.export``: what follows when the tracer is no more.

An exported program has no module hierarchy left, only for each operation the stack of modules it
was called from. We name nodes by it as the tracer does (``Model/Linear[fc]/linear``), so that the
page groups them into the boxes its user knows. Two things are better than the tracer's naming:
a ``ModuleList`` keeps its box around the operations inside it, and every output of a dict or
tuple is a sink of its own.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from tbhub.writer.graphs.torch_graph import readable, torch_node

# TensorBoard hides an attribute of more than 1,024 bytes altogether; a cut one is still shown.
_ATTRIBUTES_LENGTH = 240

_KINDS = {
    "PARAMETER": "Parameter",
    "BUFFER": "Buffer",
    "CONSTANT_TENSOR": "Constant",
    "CUSTOM_OBJ": "Object",
}


def torch_export_nodes(model: Any, inputs: tuple[Any, ...], verbose: bool = False) -> list[Any]:
    """The nodes of ``model`` called with ``inputs``: inputs, outputs, then the rest in order.

    The caller has put the model in eval mode. Whatever keeps torch from exporting it is raised.
    """
    import torch

    with warnings.catch_warnings():
        # Recurrent layers cache their weights as they run; it concerns who saves the program.
        warnings.filterwarnings("ignore", r"(?s).* assigned during export")
        program = torch.export.export(model, inputs, strict=False)
    if verbose:
        print(program)
    signature = program.graph_signature
    scopes = _Scopes(model)

    names: dict[str, str] = {}
    input_nodes: list[Any] = []
    operations: list[Any] = []
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if not node.users:
                continue
            spec = specs[node.name]
            if spec.kind.name == "USER_INPUT":
                names[node.name] = f"input/{node.name}"
                kind, group = "IO Node", input_nodes
            else:
                names[node.name] = f"{scopes.of_path(spec.target or '')}/{node.name}"
                kind, group = _KINDS.get(spec.kind.name, "Parameter"), operations
            group.append(torch_node(names[node.name], kind, shapes=_shapes(node)))
        elif node.op != "output":
            names[node.name] = f"{scopes.of_node(node)}/{node.name}"
            operations.append(
                torch_node(
                    names[node.name],
                    _operator(node),
                    [names[source.name] for source in node.all_input_nodes],
                    _shapes(node),
                    _attributes(node),
                )
            )

    results = {node.name: node for node in program.graph.nodes}
    returned = [spec.arg for spec in signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    sinks = [
        torch_node(
            f"output/output.{number}",
            "IO Node",
            [names[result.name]],
            _shapes(results[result.name]),
        )
        for number, result in enumerate(returned, start=1)
        if getattr(result, "name", None) in names  # a constant is returned by no node
    ]
    return input_nodes + sinks + operations


class _Scopes:
    """Where on the page an operation or a parameter belongs."""

    def __init__(self, model: Any) -> None:
        self._root = type(model).__name__
        self._classes = {
            path: type(module).__name__
            for path, module in model.named_modules(remove_duplicate=False)
        }

    def of_node(self, node: Any) -> str:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        # A module called again is marked fc@1, but it is the same box.
        return self.of_path(re.sub(r"@\d+", "", stack[-1][0]) if stack else "")

    def of_path(self, path: str) -> str:
        """``Model/Linear[fc]/weight`` for the path ``fc.weight``."""
        steps = [self._root]
        parts = path.split(".") if path else []
        for depth, part in enumerate(parts, start=1):
            kind = self._classes.get(".".join(parts[:depth]))
            steps.append(f"{kind}[{part}]" if kind else part)
        return "/".join(steps)


def _operator(node: Any) -> str:
    if node.op == "get_attr":
        return "prim::GetAttr"
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return str(schema.name)
    module = getattr(node.target, "__module__", None) or "torch"
    name = getattr(node.target, "__name__", str(node.target))
    return f"{module.strip('_')}::{name}"


def _attributes(node: Any) -> str:
    """The arguments that no edge of the graph shows, by name."""
    schema = getattr(node.target, "_schema", None)
    labels = [argument.name for argument in schema.arguments] if schema is not None else []
    labels += [str(position) for position in range(len(labels), len(node.args))]
    given = dict(zip(labels, node.args, strict=False)) | dict(node.kwargs)
    text = readable({name: value for name, value in given.items() if not _has_node(value)})
    return text if len(text) <= _ATTRIBUTES_LENGTH else text[: _ATTRIBUTES_LENGTH - 1] + "…"


def _has_node(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_node(each) for each in value)
    return hasattr(value, "all_input_nodes")


def _shapes(node: Any) -> list[list[int]] | None:
    """One shape per result; a dimension only known at run time is -1, which the page shows as ?."""
    value = node.meta.get("val")
    results: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    shapes = [
        [size if isinstance(size, int) else -1 for size in result.shape]
        for result in results
        if hasattr(result, "shape")
    ]
    return shapes or None
