// The Event message, taken apart without copying: what a reader of logs needs and no more.
#pragma once

#include <cstdint>
#include <vector>

#include "wire.h"

namespace tbhub {

// What a value that is not a scalar holds; the numbers are part of the Python interface.
enum class BlobKind : uint8_t {
  kImage = 1,
  kHistogram = 2,
  kAudio = 3,
  kTensor = 4,
  kBare = 5,  // only metadata, as the hparams plugin writes
  kOldHistogram = 6,
  kGraph = 7,
  kMetaGraph = 8,
  kRunMetadata = 9,
  kLogMessage = 10,
};

// So many values of two bytes each would take a hundred times that to hold; no writer comes near.
constexpr size_t kMaxValues = 1'000'000;

struct ParsedValue {
  Bytes message;  // the whole Summary.Value
  Bytes tag;
  Bytes metadata;  // empty where the value has none
  Bytes plugin;    // metadata.plugin_data.plugin_name
  BlobKind blob = BlobKind::kBare;
  bool has_metadata = false;
  // A number, when the value holds exactly one: always for simple_value; for a tensor only when
  // its element type is numeric. `rank` tells how many dimensions the tensor claims.
  bool has_number = false;
  bool is_double = false;  // float32 does not hold it
  bool is_simple = false;
  uint32_t rank = 0;
  double number = 0;
  // Where the number stands as plain little-endian float32 or float64, and how wide; else null.
  const uint8_t* number_at = nullptr;
  uint8_t number_width = 0;

  void set_number(const uint8_t* at, size_t width) {
    number = width == 4 ? load<float>(at) : load<double>(at);
    number_at = at;
    number_width = static_cast<uint8_t>(width);
  }
};

struct ParsedEvent {
  double wall_time = 0;
  int64_t step = 0;
  bool has_version = false;
  int file_version = 0;  // N of "brain.Event:N"
  bool session_start = false;
  std::vector<ParsedValue> values;
  // The one payload an event may have beside a summary (graph, run metadata, log message).
  bool has_payload = false;
  BlobKind payload_kind = BlobKind::kGraph;
  Bytes payload;
  Bytes payload_tag;

  void clear();
};

// False when the bytes are not an Event. `event` is reused between calls to spare allocations.
bool parse_event(const uint8_t* data, size_t size, ParsedEvent& event);

bool is_utf8(Bytes bytes);

}  // namespace tbhub
