"""An OpenVINO model (IR, the ``.xml`` beside the weights) as the graph TensorBoard draws.

One node per layer, with every input it has; tensorboardX writes one per edge, so that a layer with
two inputs is drawn twice and one without any is not drawn at all. The weights are not read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from tbhub.events.schema import GraphDef, NodeDef, TensorShapeProto
from tbhub.writer.graphs.onnx_graph import NodeNames, output_shapes, parameters
from tbhub.writer.graphs.torch_graph import PRODUCER


def openvino_graph(xml_path: str | os.PathLike[str]) -> Any:
    """The ``GraphDef`` of an IR file. Raises ``ValueError``, naming the file, if it is not one."""
    path = Path(xml_path)
    try:
        nodes = _nodes(_parse(path))
    except ValueError as error:
        raise ValueError(f"{path} is not an OpenVINO model: {error}") from error
    return GraphDef(node=nodes, versions={"producer": PRODUCER})


class _BadModelError(ValueError):
    """What is wrong with a file, before we know its name."""


def _parse(path: Path) -> Element:
    """The document as elements.

    IR has no document type, and one is the way to make a parser expand a small file without end
    or open others, so it ends the reading where it starts.
    """

    def refuse(*_: object) -> None:
        raise _BadModelError("it declares a document type, which no model needs")

    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise _BadModelError(f"it is not well-formed XML ({error})") from error
    return builder.close()


def _nodes(root: Element) -> list[Any]:
    layers = root.find("layers")
    if root.tag != "net" or layers is None:
        raise _BadModelError("it has no <net> with <layers>")
    names = NodeNames()
    labels: dict[str, str] = {}
    for layer in layers.iterfind("layer"):
        if _required(layer, "id") in labels:
            raise _BadModelError(f"two layers have the id {layer.get('id')}")
        labels[_required(layer, "id")] = names.claim(_required(layer, "name"))
    # (layer, port) → what a layer that reads this port names as its input
    sources = {
        (layer.get("id"), port.get("id")): label if not position else f"{label}:{position}"
        for layer, label in zip(layers.iterfind("layer"), labels.values(), strict=True)
        for position, port in enumerate(layer.iterfind("output/port"))
    }
    inputs: dict[str, list[tuple[int, str]]] = {label: [] for label in labels}
    for edge in root.iterfind("edges/edge"):
        origin = _required(edge, "from-layer")
        reader = _required(edge, "to-layer")
        if origin not in labels or reader not in labels:
            raise _BadModelError(f"an edge joins layers {origin} and {reader}, not both present")
        source = sources.get((origin, edge.get("from-port")), labels[origin])
        inputs[reader].append((_size(edge.get("to-port")), source))
    return [
        NodeDef(
            name=labels[_required(layer, "id")],
            op=_required(layer, "type"),
            input=[source for _, source in sorted(inputs[_required(layer, "id")])],
            attr=_attributes(layer),
        )
        for layer in layers.iterfind("layer")
    ]


def _attributes(layer: Element) -> dict[str, Any]:
    data = layer.find("data")
    attr = {"parameters": parameters(data.attrib.items() if data is not None else ())}
    shapes = [
        TensorShapeProto(dim=[{"size": _size(dim.text)} for dim in port.iterfind("dim")])
        for port in layer.iterfind("output/port")
    ]
    if shapes:
        attr["_output_shapes"] = output_shapes(shapes)
    return attr


def _required(element: Element, attribute: str) -> str:
    value = element.get(attribute)
    if value is None:
        raise _BadModelError(f"a <{element.tag}> has no {attribute}")
    return value


def _size(text: str | None) -> int:
    """A number of the file; whatever is open until run time is -1, which the page shows as ?."""
    try:
        return int(text or "")
    except ValueError:
        return -1
