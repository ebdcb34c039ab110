"""A PyTorch model as the graph TensorBoard draws.

The picture is that of ``torch.utils.tensorboard``, node by node, so runs written by either look
alike side by side. It comes from ``torch.jit.trace``, which torch has deprecated; whatever that
tracer cannot follow, and every model once it is gone, is drawn through ``torch.export``.

Three things differ from the library we follow, and none of them redraws the picture: every module
gets its own training flag back (theirs sets all of them to the outermost one); the model is run
once, not again to check the trace; and a model that is scripted already is read from a copy, not
inlined in place, so only the running numbers of its unnamed values differ.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tbhub.events.schema import AttrValue, GraphDef, NodeDef, RunMetadata, TensorShapeProto

# What TensorBoard's own graphs declare; readers compare it before they merge two graphs.
PRODUCER = 22

_REASON_LENGTH = 300


def torch_graph(
    model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
) -> tuple[Any, Any]:
    """The ``GraphDef`` of a model, and the ``RunMetadata`` that goes with it.

    ``model`` is an ``nn.Module``, a scripted module or function, or a plain function.
    ``input_to_model`` is what it is called with: a tensor, a tuple or list of arguments, or a dict
    as the single argument; a scripted model needs none. ``use_strict_trace=False`` lets the tracer
    follow dicts and lists in the output. ``verbose`` prints the graph torch made.

    Raises ``RuntimeError`` when the model can neither be traced nor exported, saying why for each.
    """
    arguments = () if input_to_model is None else input_to_model
    with _evaluating(model):
        try:
            nodes = _traced_nodes(model, arguments, verbose, use_strict_trace)
        except Exception as untraced:
            try:
                nodes = _exported_nodes(model, arguments, verbose)
            except Exception as unexported:
                raise RuntimeError(
                    f"cannot draw the graph of {_title(model)}: check that the model runs with the "
                    "inputs given\n"
                    f"  torch.jit.trace: {_reason(untraced)}\n"
                    f"  torch.export: {_reason(unexported)}"
                ) from untraced
    graph = GraphDef(node=nodes, versions={"producer": PRODUCER})
    # The page groups nodes by device and wants one; where the model really ran is not recorded.
    metadata = RunMetadata(step_stats={"dev_stats": [{"device": "/device:CPU:0"}]})
    return graph, metadata


def torch_node(
    name: str,
    op: str,
    inputs: Sequence[str] = (),
    shapes: Sequence[Sequence[int]] | None = None,
    attributes: str = "",
) -> Any:
    """One ``NodeDef`` with the attributes TensorBoard shows for a torch operation."""
    attr = {"attr": AttrValue(s=attributes.encode())}
    if shapes is not None:
        protos = [TensorShapeProto(dim=[{"size": size} for size in shape]) for shape in shapes]
        attr["_output_shapes"] = AttrValue(list={"shape": protos})
    return NodeDef(name=name, op=op, input=inputs, attr=attr)


def readable(attributes: dict[str, Any]) -> str:
    """Attributes as text. TensorBoard's page misreads single quotes, so there are none."""
    return str(attributes).replace("'", " ")


@dataclass(frozen=True)
class _Operation:
    """One node of a TorchScript graph, under the scope the page shows it in."""

    kind: str
    scope: str
    inputs: list[str]
    outputs: list[tuple[str, list[int] | None]]
    attributes: str


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """The model as it is used for inference, and afterwards just as it was.

    The flags are set one by one and not through ``model.train()``: a frozen part stays in eval
    mode inside a training model, and a model that does work in its own ``train`` (merging
    adapters into its weights, say) is left alone. Attention's fused inference kernel is off, as
    it would hide the layers it stands for.
    """
    import torch

    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    # A frozen script module has no flag, and reading its graph needs none.
    flags = [(module, module.training) for module in modules if hasattr(module, "training")]
    attention: Any = getattr(torch.backends, "mha", None)  # not in older releases
    fused = attention is not None and attention.get_fastpath_enabled()
    try:
        if fused:
            attention.set_fastpath_enabled(False)
        for module, _ in flags:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        if fused:
            attention.set_fastpath_enabled(True)
        for module, training in flags:
            module.training = training


def _traced_nodes(model: Any, arguments: Any, verbose: bool, strict: bool) -> list[Any]:
    import torch

    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        traced = model
        graph = model.graph.copy()
    else:
        with warnings.catch_warnings():
            # The user did not choose the tracer, so its end of life is not theirs to hear of.
            warnings.filterwarnings("ignore", r".*torch\.jit\.\w+.* is deprecated")
            # Torch silences what it says of its own layers, unless filters were reset since.
            torch.jit.TracerWarning.ignore_lib_warnings()
            traced = torch.jit.trace(model, arguments, strict=strict, check_trace=False)
        graph = traced.graph
    torch._C._jit_pass_inline(graph)
    if verbose:
        print(graph)
    return _script_nodes(graph, traced)


def _exported_nodes(model: Any, arguments: Any, verbose: bool) -> list[Any]:
    from tbhub.writer.graphs.torch_export_graph import torch_export_nodes

    positional = tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)
    return torch_export_nodes(model, positional, verbose)


def _script_nodes(graph: Any, traced: Any) -> list[Any]:
    """The nodes of an inlined TorchScript graph: inputs, outputs, then operations in order."""
    # An input nobody reads is left out, and so is the module itself.
    inputs = [value for value in graph.inputs() if value.uses() and not _is_module(value)]
    operations = list(_operations(graph, traced))

    names: dict[str, str] = {}
    for operation in operations:
        # Modules are read from but are not nodes: name them under whoever reads them last.
        for value in operation.inputs:
            names[value] = f"{operation.scope}/{value}"
    for operation in operations:
        for value, _ in operation.outputs:
            names[value] = f"{operation.scope}/{value}"
    for value in inputs:
        names[value.debugName()] = f"input/{value.debugName()}"

    nodes = [
        torch_node(names[value.debugName()], "IO Node", shapes=_io_shapes(value))
        for value in inputs
    ]
    for number, value in enumerate(graph.outputs(), start=1):
        source = names[value.debugName()]
        nodes.append(torch_node(f"output/output.{number}", "IO Node", [source], _io_shapes(value)))
    for operation in operations:
        sources = [names[value] for value in operation.inputs]
        for value, sizes in operation.outputs:
            shapes = None if sizes is None else [sizes]
            nodes.append(
                torch_node(names[value], operation.kind, sources, shapes, operation.attributes)
            )
    return nodes


def _operations(graph: Any, traced: Any) -> Iterator[_Operation]:
    root = _title(traced)
    titles = _module_titles(traced)
    owners: dict[str, list[str]] = {}  # attribute value → the aliases of the modules above it
    for node in graph.nodes():
        aliases = node.scopeName().split("/")
        if node.kind() == "prim::GetAttr":
            above = owners.get(node.input().debugName(), [])
            aliases = [*above, f"{above[-1] if above else '__module'}.{node.s('name')}"]
            owners[node.output().debugName()] = aliases
            if _is_module(node.output()):
                continue
        steps = [titles.get(alias, alias.split(".")[-1]) for alias in aliases]
        yield _Operation(
            kind=node.kind(),
            scope="/".join([root, *steps] if any(steps) else [root]),
            inputs=[value.debugName() for value in node.inputs()],
            outputs=[(value.debugName(), _sizes(value)) for value in node.outputs()],
            attributes=readable(
                {name: getattr(node, node.kindOf(name))(name) for name in node.attributeNames()}
            ),
        )


def _module_titles(traced: Any) -> dict[str, str]:
    """``Linear[fc]`` for the alias ``__module.fc`` that scopes speak of; a function has none."""
    if not hasattr(traced, "named_modules"):
        return {}
    return {
        alias: f"{_title(module)}[{alias.split('.')[-1]}]"
        for alias, module in traced.named_modules(prefix="__module")
    }


def _title(model: Any) -> str:
    """The class a module had before torch wrapped it, or a function's name."""
    if hasattr(model, "named_modules"):
        return str(getattr(model, "original_name", type(model).__name__))
    # A scripted function's `__name__` is that of its class.
    return str(getattr(model, "name", None) or getattr(model, "__name__", type(model).__name__))


def _is_module(value: Any) -> bool:
    return bool(value.type().kind() == "ClassType")


def _sizes(value: Any) -> list[int] | None:
    return value.type().sizes() if value.isCompleteTensor() else None


def _io_shapes(value: Any) -> list[list[int]] | None:
    try:
        sizes = value.type().sizes()
    except RuntimeError:  # a tuple or dict of tensors; the libraries call that one element
        sizes = [1]
    return None if sizes is None else [sizes]


def _reason(error: Exception) -> str:
    """The head of an error on one line: torch's own run to pages."""
    text = " ".join(str(error).split())
    if len(text) > _REASON_LENGTH:
        text = text[:_REASON_LENGTH].rstrip() + " …"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
