"""The messages TensorBoard reads, as protobuf classes built from one table.

Why a table and not generated code: generated modules are tied to the protobuf release that
made them and break at every major; the descriptor calls used here have been stable for a
decade. The classes live in a descriptor pool of their own, so they never collide with those
of tensorboard, tensorboardX or TensorFlow in the same process, and are the same on the wire.

Building takes a few milliseconds and imports protobuf, so import this module where a message is
needed, not at the top of a module that a plain ``add_scalar`` loads.

Notation, one message per paragraph, nested messages by dotted name::

    Message
      NUMBER TYPE[*] NAME [/ ONEOF]     * marks a repeated field, map<K,V> a map
    enum Name FIRST=0 SECOND=1
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2
from google.protobuf.internal import enum_type_wrapper

_EVENT = """
Event
  1 double wall_time
  2 int64 step
  3 string file_version / what
  4 bytes graph_def / what
  5 Summary summary / what
  6 LogMessage log_message / what
  7 SessionLog session_log / what
  8 TaggedRunMetadata tagged_run_metadata / what
  9 bytes meta_graph_def / what
  10 SourceMetadata source_metadata
SourceMetadata
  1 string writer
LogMessage
  1 LogMessage.Level level
  2 string message
enum LogMessage.Level UNKNOWN=0 DEBUGGING=10 INFO=20 WARN=30 ERROR=40 FATAL=50
SessionLog
  1 SessionLog.SessionStatus status
  2 string checkpoint_path
  3 string msg
enum SessionLog.SessionStatus STATUS_UNSPECIFIED=0 START=1 STOP=2 CHECKPOINT=3
TaggedRunMetadata
  1 string tag
  2 bytes run_metadata

SummaryDescription
  1 string type_hint
HistogramProto
  1 double min
  2 double max
  3 double num
  4 double sum
  5 double sum_squares
  6 double* bucket_limit
  7 double* bucket
SummaryMetadata
  1 SummaryMetadata.PluginData plugin_data
  2 string display_name
  3 string summary_description
  4 DataClass data_class
SummaryMetadata.PluginData
  1 string plugin_name
  2 bytes content
enum DataClass DATA_CLASS_UNKNOWN=0 DATA_CLASS_SCALAR=1 DATA_CLASS_TENSOR=2 DATA_CLASS_BLOB_SEQUENCE=3
Summary
  1 Summary.Value* value
Summary.Image
  1 int32 height
  2 int32 width
  3 int32 colorspace
  4 bytes encoded_image_string
Summary.Audio
  1 float sample_rate
  2 int64 num_channels
  3 int64 length_frames
  4 bytes encoded_audio_string
  5 string content_type
Summary.Value
  7 string node_name
  1 string tag
  9 SummaryMetadata metadata
  2 float simple_value / value
  3 bytes obsolete_old_style_histogram / value
  4 Summary.Image image / value
  5 HistogramProto histo / value
  6 Summary.Audio audio / value
  8 TensorProto tensor / value

TensorProto
  1 DataType dtype
  2 TensorShapeProto tensor_shape
  3 int32 version_number
  4 bytes tensor_content
  13 int32* half_val
  5 float* float_val
  6 double* double_val
  7 int32* int_val
  8 bytes* string_val
  9 float* scomplex_val
  10 int64* int64_val
  11 bool* bool_val
  12 double* dcomplex_val
  14 ResourceHandleProto* resource_handle_val
  15 VariantTensorDataProto* variant_val
  16 uint32* uint32_val
  17 uint64* uint64_val
  18 bytes float8_val
VariantTensorDataProto
  1 string type_name
  2 bytes metadata
  3 TensorProto* tensors
TensorShapeProto
  2 TensorShapeProto.Dim* dim
  3 bool unknown_rank
TensorShapeProto.Dim
  1 int64 size
  2 string name
ResourceHandleProto
  1 string device
  2 string container
  3 string name
  4 uint64 hash_code
  5 string maybe_type_name

GraphDef
  1 NodeDef* node
  4 VersionDef versions
  3 int32 version
NodeDef
  1 string name
  2 string op
  3 string* input
  4 string device
  5 map<string,AttrValue> attr
AttrValue
  2 bytes s / value
  3 int64 i / value
  4 float f / value
  5 bool b / value
  6 DataType type / value
  7 TensorShapeProto shape / value
  8 TensorProto tensor / value
  1 AttrValue.ListValue list / value
  10 NameAttrList func / value
  9 string placeholder / value
AttrValue.ListValue
  2 bytes* s
  3 int64* i
  4 float* f
  5 bool* b
  6 DataType* type
  7 TensorShapeProto* shape
  8 TensorProto* tensor
  9 NameAttrList* func
NameAttrList
  1 string name
  2 map<string,AttrValue> attr
VersionDef
  1 int32 producer
  2 int32 min_consumer
  3 int32* bad_consumers
RunMetadata
  1 StepStats step_stats
StepStats
  1 DeviceStepStats* dev_stats
DeviceStepStats
  1 string device

Layout
  1 int32 version
  2 Category* category
Category
  1 string title
  2 Chart* chart
  3 bool closed
Chart
  1 string title
  2 MultilineChartContent multiline / content
  3 MarginChartContent margin / content
MultilineChartContent
  1 string* tag
MarginChartContent
  1 MarginChartContent.Series* series
MarginChartContent.Series
  1 string value
  2 string lower
  3 string upper

TextPluginData
  1 int32 version
PrCurvePluginData
  1 int32 version
  2 uint32 num_thresholds
MeshPluginData
  1 int32 version
  2 string name
  3 MeshPluginData.ContentType content_type
  5 string json_config
  6 int32* shape
  7 uint32 components
enum MeshPluginData.ContentType UNDEFINED=0 VERTEX=1 FACE=2 COLOR=3

ProjectorConfig
  1 string model_checkpoint_path
  2 EmbeddingInfo* embeddings
  3 string model_checkpoint_dir
EmbeddingInfo
  1 string tensor_name
  2 string metadata_path
  3 string bookmarks_path
  4 uint32* tensor_shape
  5 SpriteMetadata sprite
  6 string tensor_path
SpriteMetadata
  1 string image_path
  2 uint32* single_image_dim
"""

# Element types of tensors; each also exists as a reference type, numbered 100 higher.
_ELEMENT_TYPES = """
INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32
BFLOAT16 QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2
FLOAT8_E4M3FN FLOAT8_E4M3FNUZ FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2
FLOAT4_E2M1FN
"""
_EVENT += "enum DataType " + " ".join(
    f"DT_{name}={number}" for number, name in enumerate(_ELEMENT_TYPES.split())
)
_EVENT += " " + " ".join(
    f"DT_{name}_REF={number + 100}"
    for number, name in enumerate(_ELEMENT_TYPES.split())
    if number > 0
)

_HPARAMS = """
HParamsPluginData
  1 int32 version
  2 Experiment experiment / data
  3 SessionStartInfo session_start_info / data
  4 SessionEndInfo session_end_info / data
SessionStartInfo
  1 map<string,google.protobuf.Value> hparams
  2 string model_uri
  3 string monitor_url
  4 string group_name
  5 double start_time_secs
SessionEndInfo
  1 Status status
  2 double end_time_secs
Experiment
  6 string name
  1 string description
  2 string user
  3 double time_created_secs
  4 HParamInfo* hparam_infos
  5 MetricInfo* metric_infos
HParamInfo
  1 string name
  2 string display_name
  3 string description
  4 DataType type
  5 google.protobuf.ListValue domain_discrete / domain
  6 Interval domain_interval / domain
  7 bool differs
Interval
  1 double min_value
  2 double max_value
MetricName
  1 string group
  2 string tag
MetricInfo
  1 MetricName name
  3 string display_name
  4 string description
  5 DatasetType dataset_type
enum DataType DATA_TYPE_UNSET=0 DATA_TYPE_STRING=1 DATA_TYPE_BOOL=2 DATA_TYPE_FLOAT64=3
enum DatasetType DATASET_UNKNOWN=0 DATASET_TRAINING=1 DATASET_VALIDATION=2
enum Status STATUS_UNKNOWN=0 STATUS_SUCCESS=1 STATUS_FAILURE=2 STATUS_RUNNING=3
"""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALAR_TYPES = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in (
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "bool",
        "string",
        "bytes",
    )
}


class _File:
    """One table turned into a file descriptor."""

    def __init__(self, package: str, table: str) -> None:
        self.proto = descriptor_pb2.FileDescriptorProto(
            name=package.replace(".", "/") + ".proto", package=package, syntax="proto3"
        )
        self.proto.dependency.append("google/protobuf/struct.proto")
        self._messages: dict[str, Any] = {}
        lines = [line for line in table.splitlines() if line.strip()]
        self._enums = {line.split()[1] for line in lines if line.startswith("enum ")}
        message: Any = None
        for line in lines:
            if line.startswith("enum "):
                self._add_enum(*line.split()[1:])
            elif line.startswith(" "):
                declaration, _, oneof = line.partition("/")
                number, kind, name = declaration.split()
                self._add_field(message, int(number), kind, name, oneof.strip())
            else:
                message = self._message(line.strip())

    def _message(self, path: str) -> Any:
        if path not in self._messages:
            outer, _, name = path.rpartition(".")
            siblings = self._message(outer).nested_type if outer else self.proto.message_type
            self._messages[path] = siblings.add(name=name)
        return self._messages[path]

    def _add_enum(self, path: str, *values: str) -> None:
        outer, _, name = path.rpartition(".")
        enum = (self._message(outer) if outer else self.proto).enum_type.add(name=name)
        for value in values:
            label, number = value.split("=")
            enum.value.add(name=label, number=int(number))

    def _add_field(self, message: Any, number: int, kind: str, name: str, oneof: str) -> None:
        field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
        if kind.startswith("map<"):
            kind = self._add_map_entry(message, name, *kind[4:-1].split(",")) + "*"
        if kind.endswith("*"):
            kind, field.label = kind[:-1], _Field.LABEL_REPEATED
        self._set_type(field, kind)
        if oneof:
            names = [each.name for each in message.oneof_decl]
            if oneof not in names:
                message.oneof_decl.add(name=oneof)
                names.append(oneof)
            field.oneof_index = names.index(oneof)

    def _add_map_entry(self, message: Any, name: str, key: str, value: str) -> str:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for number, part, kind in ((1, "key", key), (2, "value", value)):
            self._set_type(
                entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL), kind
            )
        path = next(path for path, each in self._messages.items() if each is message)
        return f"{path}.{entry.name}"

    def _set_type(self, field: Any, kind: str) -> None:
        if kind in _SCALAR_TYPES:
            field.type = _SCALAR_TYPES[kind]
            return
        field.type = _Field.TYPE_ENUM if kind in self._enums else _Field.TYPE_MESSAGE
        field.type_name = kind if kind.startswith("google.") else f"{self.proto.package}.{kind}"
        field.type_name = "." + field.type_name


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)


def _build(package: str, table: str) -> dict[str, Any]:
    """The top-level messages and enums of a table, by name."""
    _pool.AddSerializedFile(_File(package, table).proto.SerializeToString())
    file = _pool.FindFileByName(package.replace(".", "/") + ".proto")
    names: dict[str, Any] = {
        name: message_factory.GetMessageClass(message)
        for name, message in file.message_types_by_name.items()
    }
    for name, enum in file.enum_types_by_name.items():
        names[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        names.update({value.name: value.number for value in enum.values})
    return names


_event_names = _build("tbhub.event", _EVENT)
_hparams_names = _build("tbhub.hparams", _HPARAMS)

Event: Any = _event_names["Event"]
SessionLog: Any = _event_names["SessionLog"]
TaggedRunMetadata: Any = _event_names["TaggedRunMetadata"]
Summary: Any = _event_names["Summary"]
SummaryMetadata: Any = _event_names["SummaryMetadata"]
HistogramProto: Any = _event_names["HistogramProto"]
TensorProto: Any = _event_names["TensorProto"]
TensorShapeProto: Any = _event_names["TensorShapeProto"]
DataType: Any = _event_names["DataType"]
GraphDef: Any = _event_names["GraphDef"]
NodeDef: Any = _event_names["NodeDef"]
AttrValue: Any = _event_names["AttrValue"]
VersionDef: Any = _event_names["VersionDef"]
RunMetadata: Any = _event_names["RunMetadata"]
Layout: Any = _event_names["Layout"]
TextPluginData: Any = _event_names["TextPluginData"]
PrCurvePluginData: Any = _event_names["PrCurvePluginData"]
MeshPluginData: Any = _event_names["MeshPluginData"]
ProjectorConfig: Any = _event_names["ProjectorConfig"]

HParamsPluginData: Any = _hparams_names["HParamsPluginData"]
SessionStartInfo: Any = _hparams_names["SessionStartInfo"]
SessionEndInfo: Any = _hparams_names["SessionEndInfo"]
Experiment: Any = _hparams_names["Experiment"]
HParamInfo: Any = _hparams_names["HParamInfo"]
MetricInfo: Any = _hparams_names["MetricInfo"]
HParamType: Any = _hparams_names["DataType"]
Status: Any = _hparams_names["Status"]


def event_names() -> dict[str, Any]:
    """Every message, enum and enum value of the event, summary, graph and plugin tables."""
    return dict(_event_names)


def hparams_names() -> dict[str, Any]:
    """Every message, enum and enum value of the hyperparameter table."""
    return dict(_hparams_names)
