"""tensorboardX's reader of OpenVINO models."""

from __future__ import annotations

import os
from typing import Any

from tbhub.writer.graphs.openvino_graph import openvino_graph


def load_openvino_graph(fname: str | os.PathLike[str]) -> Any:
    """The ``GraphDef`` of an OpenVINO XML file."""
    return openvino_graph(fname)
