"""tensorboardX's protobuf modules, made from tbhub's message tables.

The modules exist only in ``sys.modules``: importing this package puts them there, and the import
of a submodule imports its package first.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tbhub.events.schema import event_names, hparams_names

# The messages and enums of each module. An enum brings its values along.
_EVENT_MODULES = {
    "attr_value_pb2": "AttrValue NameAttrList",
    "event_pb2": "Event LogMessage SessionLog TaggedRunMetadata",
    "graph_pb2": "GraphDef",
    "layout_pb2": "Category Chart Layout MarginChartContent MultilineChartContent",
    "node_def_pb2": "NodeDef",
    "plugin_mesh_pb2": "MeshPluginData",
    "plugin_pr_curve_pb2": "PrCurvePluginData",
    "plugin_text_pb2": "TextPluginData",
    "resource_handle_pb2": "ResourceHandleProto",
    "summary_pb2": "HistogramProto Summary SummaryDescription SummaryMetadata",
    "tensor_pb2": "TensorProto",
    "tensor_shape_pb2": "TensorShapeProto",
    "types_pb2": "DataType",
    "versions_pb2": "VersionDef",
}
_HPARAMS_MODULES = {
    "api_pb2": ("DataType DatasetType Experiment HParamInfo Interval MetricInfo MetricName Status"),
    "plugin_hparams_pb2": "HParamsPluginData SessionEndInfo SessionStartInfo",
}


def _register(modules: Mapping[str, str], names: Mapping[str, Any]) -> None:
    for module_name, listing in modules.items():
        module = ModuleType(f"{__name__}.{module_name}", f"Messages: {listing}.")
        for name in listing.split():
            member = names[name]
            setattr(module, name, member)
            if hasattr(member, "items"):  # an enum
                vars(module).update(member.items())
        sys.modules[module.__name__] = module
        globals()[module_name] = module


_register(_EVENT_MODULES, event_names())
_register(_HPARAMS_MODULES, hparams_names())

__all__ = [*_EVENT_MODULES, *_HPARAMS_MODULES]
