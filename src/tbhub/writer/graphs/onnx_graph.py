"""An ONNX model as the graph TensorBoard draws.

Nodes are those of the libraries people use today: a ``Variable`` for each input, a node for each
operation, named by its first output, with its attributes in ``parameters``. Where their graph falls
apart on the page, ours does not: weights are ``Const`` nodes rather than edges from nowhere, a
further output of a node is an edge from that node, a graph output is a sink ``output/<name>``
rather than a second node of the same name, and an element type is TensorBoard's number for it, not
ONNX's. Weights are never read: a model of many gigabytes is drawn from its structure alone.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tbhub.events.schema import AttrValue, DataType, GraphDef, NodeDef, TensorShapeProto
from tbhub.writer.graphs.torch_graph import PRODUCER

# TensorBoard hides an attribute of more than 1,024 bytes altogether; a cut one is still shown.
_TEXT_BYTES = 960
_LIST_LENGTH = 16
_STRING_LENGTH = 80

# TensorBoard's element types in the order of ONNX's TensorProto.DataType.
_ELEMENT_TYPES = """
INVALID FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL HALF DOUBLE UINT32 UINT64 COMPLEX64
COMPLEX128 BFLOAT16 FLOAT8_E4M3FN FLOAT8_E4M3FNUZ FLOAT8_E5M2 FLOAT8_E5M2FNUZ UINT4 INT4
FLOAT4_E2M1FN INVALID UINT2 INT2
"""


def onnx_graph(path_or_model: Any) -> Any:
    """The ``GraphDef`` of an ONNX file, or of a ``ModelProto`` already in memory.

    Raises ``ValueError`` for a file that is no ONNX model, ``ImportError`` where the ``onnx``
    package is needed and missing.
    """
    graph = _model(path_or_model).graph
    infos = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
    names = NodeNames()
    sources: dict[str, str] = {}  # ONNX value → what a node that reads it names as its input

    variables = []
    for value in graph.input:
        if value.name and value.name not in sources:
            sources[value.name] = names.claim(value.name)
            variables.append(_variable(sources[value.name], value))

    constants = []
    sparse = ((tensor.values, tensor.dims) for tensor in graph.sparse_initializer)
    dense = ((tensor, tensor.dims) for tensor in graph.initializer)
    for tensor, dims in itertools.chain(dense, sparse):
        # Older models list their weights among the inputs as well.
        if tensor.name and tensor.name not in sources:
            sources[tensor.name] = names.claim(tensor.name)
            constants.append(_constant(sources[tensor.name], tensor, dims))

    # All names first: a reader may stand before what it reads, if the model was not sorted.
    labels = []
    for number, node in enumerate(graph.node):
        outputs = [output for output in node.output if output]
        first = outputs[0] if outputs else node.name or f"{node.op_type}_{number}"
        labels.append(names.claim(first))
        for position, output in enumerate(outputs):
            sources[output] = f"{labels[-1]}:{position}" if position else labels[-1]

    operations = [
        _operation(label, node, sources, infos)
        for label, node in zip(labels, graph.node, strict=True)
    ]
    sinks = [
        _variable(names.claim(f"output/{value.name}"), value, [sources.get(value.name, value.name)])
        for value in graph.output
    ]
    return GraphDef(
        node=[*variables, *sinks, *constants, *operations], versions={"producer": PRODUCER}
    )


class NodeNames:
    """Names that are unique in one graph and that TensorBoard does not read as something else."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def claim(self, wanted: str) -> str:
        # "^x" would be a control edge, and "x:1" the second output of a node called x.
        name = base = re.sub(r"^\^|:(?=\d+$)", "_", wanted)
        for number in itertools.count(1):
            if name not in self._taken:
                break
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def parameters(pairs: Iterable[tuple[str, str]]) -> Any:
    """``name = value, …`` as an attribute, cut to what TensorBoard still shows."""
    text = ", ".join(f"{name} = {value}" for name, value in pairs).encode()
    if len(text) > _TEXT_BYTES:
        text = (text[:_TEXT_BYTES].decode(errors="ignore") + "…").encode()
    return AttrValue(s=text)


def output_shapes(shapes: Sequence[Any]) -> Any:
    """The attribute from which TensorBoard writes shapes along the edges."""
    return AttrValue(list={"shape": shapes})


def _model(path_or_model: Any) -> Any:
    if hasattr(path_or_model, "graph"):
        return path_or_model
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "reading an ONNX file needs the onnx package: pip install onnx"
        ) from error
    path = os.fspath(path_or_model)
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not an ONNX model: {error}") from error
    if not model.HasField("graph"):
        raise ValueError(f"{path} is not an ONNX model: it has no graph")
    return model


def _variable(name: str, value: Any, inputs: Sequence[str] = ()) -> Any:
    shape = _value_shape(value)
    attr = {
        "dtype": AttrValue(type=_element_type(value.type.tensor_type.elem_type)),
        "shape": AttrValue(shape=shape),
        "_output_shapes": output_shapes([shape]),
    }
    return NodeDef(name=name, op="Variable", input=inputs, attr=attr)


def _constant(name: str, tensor: Any, dims: Iterable[int]) -> Any:
    shape = TensorShapeProto(dim=[{"size": size} for size in dims])
    attr = {
        "dtype": AttrValue(type=_element_type(tensor.data_type)),
        "shape": AttrValue(shape=shape),
        "_output_shapes": output_shapes([shape]),
    }
    return NodeDef(name=name, op="Const", attr=attr)


def _operation(name: str, node: Any, sources: dict[str, str], infos: dict[str, Any]) -> Any:
    attr = {"parameters": parameters((each.name, _value_text(each)) for each in node.attribute)}
    outputs = [output for output in node.output if output]
    if any(output in infos for output in outputs):
        unknown = TensorShapeProto(unknown_rank=True)
        attr["_output_shapes"] = output_shapes(
            [_value_shape(infos[output]) if output in infos else unknown for output in outputs]
        )
    # An optional input that is left out has the empty name.
    inputs = [sources.get(value, value) for value in node.input if value]
    return NodeDef(name=name, op=node.op_type, input=inputs, attr=attr)


def _value_shape(value: Any) -> Any:
    """A dimension named by a symbol is -1, which the page shows as ?, and keeps its name."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):  # not inferred, or a sequence, map or optional
        return TensorShapeProto(unknown_rank=True)
    return TensorShapeProto(
        dim=[
            {"size": dim.dim_value if dim.HasField("dim_value") else -1, "name": dim.dim_param}
            for dim in tensor.shape.dim
        ]
    )


def _element_type(number: int) -> int:
    names = _ELEMENT_TYPES.split()
    return int(DataType.Value("DT_" + (names[number] if 0 <= number < len(names) else "INVALID")))


def _value_text(attribute: Any) -> str:
    """An attribute's value in a few words: whole tensors and subgraphs are only named."""
    values = [
        value
        for field, value in attribute.ListFields()
        if field.name not in {"name", "type", "doc_string", "ref_attr_name"}
    ]
    if attribute.ref_attr_name:  # inside a function, a parameter of it
        return f"@{attribute.ref_attr_name}"
    return " ".join(_text(value) for value in values) if values else "[]"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return value if len(value) <= _STRING_LENGTH else value[:_STRING_LENGTH] + "…"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if hasattr(value, "data_type"):
        kind = DataType.Name(_element_type(value.data_type)).removeprefix("DT_").lower()
        return f"{kind}[{'×'.join(map(str, value.dims))}]"
    if hasattr(value, "node"):
        return f"graph {value.name} ({len(value.node)} nodes)"
    if hasattr(value, "__len__"):
        shown = [_text(each) for each in itertools.islice(value, _LIST_LENGTH)]
        return f"[{', '.join(shown)}{', …' if len(value) > _LIST_LENGTH else ''}]"
    return type(value).__name__
