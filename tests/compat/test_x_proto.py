"""tensorboardX's protobuf modules: the same names, the same bytes."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tbhub.compat.tensorboardX import proto

# Requests and answers of the dashboard's own server, which no writer sends.
SERVER_MESSAGES = {
    "AggregationType",
    "ColParams",
    "GetExperimentRequest",
    "ListMetricEvalsRequest",
    "ListSessionGroupsRequest",
    "ListSessionGroupsResponse",
    "MetricValue",
    "Session",
    "SessionGroup",
    "SortOrder",
}


def pair(module: str) -> tuple[Any, Any]:
    ours = importlib.import_module(f"tbhub.compat.tensorboardX.proto.{module}")
    return ours, importlib.import_module(f"tensorboardX.proto.{module}")


def test_ways_to_import() -> None:
    import tbhub.compat.tensorboardX.proto.event_pb2
    from tbhub.compat.tensorboardX.proto.event_pb2 import Event

    from tbhub.compat import tensorboardX
    from tbhub.compat.tensorboardX.proto import event_pb2

    assert tbhub.compat.tensorboardX.proto.event_pb2 is event_pb2
    assert tensorboardX.proto.event_pb2 is event_pb2
    assert event_pb2.Event is Event


@pytest.mark.parametrize("module", proto.__all__)
def test_same_names(module: str) -> None:
    ours, theirs = pair(module)
    declared = theirs.DESCRIPTOR
    names = {*declared.message_types_by_name, *declared.enum_types_by_name} - SERVER_MESSAGES
    assert names
    assert names <= set(vars(ours))
    for name, enum in declared.enum_types_by_name.items():
        if name not in SERVER_MESSAGES:
            for value in enum.values:
                assert getattr(ours, value.name) == value.number
                assert getattr(ours, name).Value(value.name) == value.number


@pytest.mark.parametrize("module", proto.__all__)
def test_same_fields(module: str) -> None:
    ours, theirs = pair(module)
    for name, message in theirs.DESCRIPTOR.message_types_by_name.items():
        if name in SERVER_MESSAGES:
            continue
        fields = getattr(ours, name).DESCRIPTOR.fields_by_name
        for field in message.fields:
            assert fields[field.name].number == field.number
            assert fields[field.name].type == field.type
            assert fields[field.name].is_repeated == field.is_repeated


def build(modules: dict[str, Any]) -> list[Any]:
    event_pb2, summary_pb2 = modules["event_pb2"], modules["summary_pb2"]
    tensor = modules["tensor_pb2"].TensorProto(
        dtype=modules["types_pb2"].DT_FLOAT,
        float_val=[1, 2.5],
        tensor_shape=modules["tensor_shape_pb2"].TensorShapeProto(
            dim=[modules["tensor_shape_pb2"].TensorShapeProto.Dim(size=2, name="n")]
        ),
        resource_handle_val=[modules["resource_handle_pb2"].ResourceHandleProto(device="cpu")],
    )
    metadata = summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(
            plugin_name="text",
            content=modules["plugin_text_pb2"].TextPluginData(version=3).SerializeToString(),
        )
    )
    value = summary_pb2.Summary.Value
    summary = summary_pb2.Summary(
        value=[
            value(tag="scalar", simple_value=0.25),
            value(tag="tensor", tensor=tensor, metadata=metadata),
            value(
                tag="histogram",
                histo=summary_pb2.HistogramProto(min=0, max=1, bucket_limit=[1], bucket=[2]),
            ),
            value(tag="image", image=summary_pb2.Summary.Image(height=1, width=2, colorspace=3)),
            value(tag="audio", audio=summary_pb2.Summary.Audio(sample_rate=44100.0)),
        ]
    )
    layout = modules["layout_pb2"]
    api, hparams = modules["api_pb2"], modules["plugin_hparams_pb2"]
    start = hparams.SessionStartInfo(group_name="group")
    start.hparams["rate"].number_value = 0.5
    attr = modules["attr_value_pb2"].AttrValue
    return [
        event_pb2.Event(step=4, wall_time=1.5, summary=summary),
        event_pb2.Event(session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
        event_pb2.Event(
            tagged_run_metadata=event_pb2.TaggedRunMetadata(tag="t", run_metadata=b"m")
        ),
        event_pb2.Event(
            log_message=event_pb2.LogMessage(level=event_pb2.LogMessage.WARN, message="careful")
        ),
        modules["graph_pb2"].GraphDef(
            node=[
                modules["node_def_pb2"].NodeDef(
                    name="n", op="o", input=["a"], attr={"k": attr(list=attr.ListValue(i=[1, 2]))}
                )
            ],
            versions=modules["versions_pb2"].VersionDef(producer=22, bad_consumers=[1]),
        ),
        layout.Layout(
            category=[
                layout.Category(
                    title="c",
                    chart=[
                        layout.Chart(
                            title="m", multiline=layout.MultilineChartContent(tag=["a", "b"])
                        ),
                        layout.Chart(
                            margin=layout.MarginChartContent(
                                series=[
                                    layout.MarginChartContent.Series(
                                        value="v", lower="l", upper="u"
                                    )
                                ]
                            )
                        ),
                    ],
                )
            ]
        ),
        modules["plugin_pr_curve_pb2"].PrCurvePluginData(num_thresholds=127),
        modules["plugin_mesh_pb2"].MeshPluginData(
            name="m",
            content_type=modules["plugin_mesh_pb2"].MeshPluginData.FACE,
            json_config="{}",
            shape=[1, 2, 3],
        ),
        hparams.HParamsPluginData(session_start_info=start),
        hparams.HParamsPluginData(
            session_end_info=hparams.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))
        ),
        api.Experiment(
            name="e",
            hparam_infos=[
                api.HParamInfo(
                    name="h",
                    type=api.DATA_TYPE_FLOAT64,
                    domain_interval=api.Interval(min_value=0, max_value=1),
                )
            ],
            metric_infos=[
                api.MetricInfo(name=api.MetricName(tag="t"), dataset_type=api.DATASET_VALIDATION)
            ],
        ),
    ]


def test_same_bytes() -> None:
    pairs = {module: pair(module) for module in proto.__all__}
    ours = build({module: each[0] for module, each in pairs.items()})
    theirs = build({module: each[1] for module, each in pairs.items()})
    for our, their in zip(ours, theirs, strict=True):
        assert our.SerializeToString() == their.SerializeToString()
        assert type(our).FromString(their.SerializeToString()) == our
