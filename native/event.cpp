#include "event.h"

#include <bit>
#include <cmath>

namespace tbhub {
namespace {

// The numbers of TensorFlow's DataType.
enum DataType : uint64_t {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
};

float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const int exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero and subnormals
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 0xffu : uint32_t(exponent - 15 + 127);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

bool fits_float(uint64_t type) { return type == kFloat || type == kHalf || type == kBfloat16; }

// One element of raw little-endian tensor_content.
bool number_from_content(uint64_t type, Bytes content, double& number) {
  const uint8_t* p = content.data;
  auto take = [&](auto zero) {
    if (content.size != sizeof zero) return false;
    number = static_cast<double>(load<decltype(zero)>(p));
    return true;
  };
  switch (type) {
    case kFloat:
      return take(float{});
    case kDouble:
      return take(double{});
    case kInt8:
      return take(int8_t{});
    case kInt16:
      return take(int16_t{});
    case kInt32:
      return take(int32_t{});
    case kInt64:
      return take(int64_t{});
    case kUint8:
    case kBool:
      return take(uint8_t{});
    case kUint16:
      return take(uint16_t{});
    case kUint32:
      return take(uint32_t{});
    case kUint64:
      return take(uint64_t{});
    case kHalf:
    case kBfloat16: {
      if (content.size != 2) return false;
      const uint16_t bits = load<uint16_t>(p);
      number = type == kHalf ? half_to_float(bits) : bfloat16_to_float(bits);
      return true;
    }
    default:
      return false;
  }
}

// Which of TensorProto's typed lists holds elements of a type.
uint32_t list_field(uint64_t type) {
  switch (type) {
    case kFloat:
      return 5;
    case kDouble:
      return 6;
    case kInt8:
    case kInt16:
    case kInt32:
    case kUint8:
    case kUint16:
      return 7;
    case kInt64:
      return 10;
    case kBool:
      return 11;
    case kHalf:
    case kBfloat16:
      return 13;
    case kUint32:
      return 16;
    case kUint64:
      return 17;
    default:
      return 0;
  }
}

double number_from_varint(uint64_t type, uint64_t raw) {
  switch (type) {
    case kInt8:
    case kInt16:
    case kInt32:
    case kUint8:
    case kUint16:
      return static_cast<int32_t>(raw);
    case kInt64:
      return static_cast<double>(static_cast<int64_t>(raw));
    case kUint32:
      return static_cast<uint32_t>(raw);
    case kHalf:
      return half_to_float(static_cast<uint16_t>(raw));
    case kBfloat16:
      return bfloat16_to_float(static_cast<uint16_t>(raw));
    case kBool:
      return raw ? 1 : 0;
    default:
      return static_cast<double>(raw);
  }
}

bool parse_shape(Bytes bytes, uint32_t& rank) {
  WireReader shape(bytes);
  while (shape.next()) {
    if (shape.is(2, Wire::kBytes)) {
      WireReader dim(shape.bytes());
      while (dim.next()) dim.skip();
      if (!dim.ok()) return false;
      ++rank;
    } else {
      shape.skip();
    }
  }
  return shape.ok();
}

// Walks a tensor; leaves its number in `value` when it holds exactly one.
bool parse_tensor(Bytes bytes, ParsedValue& value) {
  uint64_t type = 0;
  Bytes content;
  WireReader first(bytes);  // the type may stand behind the data
  while (first.next()) {
    if (first.is(1, Wire::kVarint)) {
      type = first.varint();
    } else if (first.is(2, Wire::kBytes)) {
      if (!parse_shape(first.bytes(), value.rank)) return false;
    } else if (first.is(4, Wire::kBytes)) {
      content = first.bytes();
    } else {
      first.skip();
    }
  }
  if (!first.ok()) return false;

  const uint32_t list = list_field(type);
  if (list == 0) return true;
  value.is_double = !fits_float(type);
  if (content.size > 0) {
    value.has_number = number_from_content(type, content, value.number);
    if (value.has_number && (type == kFloat || type == kDouble))
      value.set_number(content.data, content.size);
    return true;
  }
  size_t count = 0;
  WireReader second(bytes);
  while (second.next() && count < 2) {
    if (second.field() != list) {
      second.skip();
    } else if (second.wire() == Wire::kBytes) {  // packed
      const Bytes packed = second.bytes();
      WireReader items(packed);
      if (type == kFloat) {
        if (packed.size % 4 != 0) return false;
        count += packed.size / 4;
        if (packed.size == 4) value.set_number(packed.data, 4);
      } else if (type == kDouble) {
        if (packed.size % 8 != 0) return false;
        count += packed.size / 8;
        if (packed.size == 8) value.set_number(packed.data, 8);
      } else {
        for (size_t left = packed.size; left > 0 && count < 2; ++count) {
          value.number = number_from_varint(type, items.varint());
          if (!items.ok()) return false;
          left = items.left();
        }
      }
    } else {
      ++count;
      if (second.wire() == Wire::kFixed32 && type == kFloat)
        value.number = second.float32();
      else if (second.wire() == Wire::kFixed64 && type == kDouble)
        value.number = second.float64();
      else if (second.wire() == Wire::kVarint)
        value.number = number_from_varint(type, second.varint());
      else
        return false;
    }
  }
  if (!second.ok()) return false;
  value.has_number = count == 1;
  return true;
}

bool parse_metadata(Bytes bytes, ParsedValue& value) {
  value.has_metadata = true;
  value.metadata = bytes;
  WireReader metadata(bytes);
  while (metadata.next()) {
    if (metadata.is(1, Wire::kBytes)) {
      WireReader plugin(metadata.bytes());
      while (plugin.next()) {
        if (plugin.is(1, Wire::kBytes))
          value.plugin = plugin.bytes();
        else
          plugin.skip();
      }
      if (!plugin.ok()) return false;
    } else {
      metadata.skip();
    }
  }
  return metadata.ok();
}

bool skim(Bytes bytes) {
  WireReader message(bytes);
  while (message.next()) message.skip();
  return message.ok();
}

bool parse_value(Bytes bytes, ParsedValue& value) {
  value.message = bytes;
  auto take_blob = [&](WireReader& reader, BlobKind kind) {
    value.blob = kind;
    value.has_number = value.is_simple = false;
    return skim(reader.bytes());
  };
  WireReader reader(bytes);
  while (reader.next()) {
    bool good = true;
    if (reader.is(1, Wire::kBytes)) {
      value.tag = reader.bytes();
    } else if (reader.is(2, Wire::kFixed32)) {
      reader.float32();
      if (reader.ok()) value.set_number(reader.position() - 4, 4);
      value.has_number = value.is_simple = true;
      value.is_double = false;
    } else if (reader.is(3, Wire::kBytes)) {
      value.blob = BlobKind::kOldHistogram;
      reader.bytes();
    } else if (reader.is(4, Wire::kBytes)) {
      good = take_blob(reader, BlobKind::kImage);
    } else if (reader.is(5, Wire::kBytes)) {
      good = take_blob(reader, BlobKind::kHistogram);
    } else if (reader.is(6, Wire::kBytes)) {
      good = take_blob(reader, BlobKind::kAudio);
    } else if (reader.is(8, Wire::kBytes)) {
      value.blob = BlobKind::kTensor;
      value.has_number = value.is_simple = false;
      value.rank = 0;
      value.number_at = nullptr;
      good = parse_tensor(reader.bytes(), value);
    } else if (reader.is(9, Wire::kBytes)) {
      good = parse_metadata(reader.bytes(), value);
    } else {
      reader.skip();
    }
    if (!good) return false;
  }
  return reader.ok() && is_utf8(value.tag);
}

bool parse_summary(Bytes bytes, ParsedEvent& event) {
  WireReader summary(bytes);
  while (summary.next()) {
    if (summary.is(1, Wire::kBytes)) {
      if (event.values.size() == kMaxValues) return false;
      if (!parse_value(summary.bytes(), event.values.emplace_back())) return false;
    } else {
      summary.skip();
    }
  }
  return summary.ok();
}

bool parse_session_log(Bytes bytes, ParsedEvent& event) {
  WireReader log(bytes);
  while (log.next()) {
    if (log.is(1, Wire::kVarint))
      event.session_start = log.varint() == 1;
    else
      log.skip();
  }
  return log.ok();
}

bool parse_run_metadata(Bytes bytes, ParsedEvent& event) {
  event.payload.size = 0;  // until found
  WireReader tagged(bytes);
  while (tagged.next()) {
    if (tagged.is(1, Wire::kBytes))
      event.payload_tag = tagged.bytes();
    else if (tagged.is(2, Wire::kBytes))
      event.payload = tagged.bytes();
    else
      tagged.skip();
  }
  return tagged.ok() && is_utf8(event.payload_tag);
}

void parse_version(Bytes bytes, ParsedEvent& event) {
  constexpr std::string_view prefix = "brain.Event:";
  const std::string_view text = bytes.text();
  event.has_version = true;
  event.file_version = 2;
  if (text.substr(0, prefix.size()) != prefix || text.size() > prefix.size() + 6) return;
  int number = 0;
  for (const char digit : text.substr(prefix.size())) {
    if (digit < '0' || digit > '9') return;
    number = number * 10 + (digit - '0');
  }
  event.file_version = number;
}

}  // namespace

void ParsedEvent::clear() {
  wall_time = 0;
  step = 0;
  has_version = session_start = has_payload = false;
  file_version = 0;
  values.clear();
  payload = payload_tag = {};
}

bool parse_event(const uint8_t* data, size_t size, ParsedEvent& event) {
  event.clear();
  WireReader reader(data, size);
  auto take_payload = [&](BlobKind kind) {
    event.has_payload = true;
    event.payload_kind = kind;
    event.payload_tag = {};
    event.payload = reader.bytes();
  };
  while (reader.next()) {
    bool good = true;
    if (reader.is(1, Wire::kFixed64)) {
      event.wall_time = reader.float64();
    } else if (reader.is(2, Wire::kVarint)) {
      event.step = static_cast<int64_t>(reader.varint());
    } else if (reader.is(3, Wire::kBytes)) {
      const Bytes version = reader.bytes();
      good = is_utf8(version);
      parse_version(version, event);
    } else if (reader.is(5, Wire::kBytes)) {
      good = parse_summary(reader.bytes(), event);
    } else if (reader.is(7, Wire::kBytes)) {
      good = parse_session_log(reader.bytes(), event);
    } else if (reader.is(4, Wire::kBytes)) {
      take_payload(BlobKind::kGraph);
    } else if (reader.is(9, Wire::kBytes)) {
      take_payload(BlobKind::kMetaGraph);
    } else if (reader.is(6, Wire::kBytes)) {
      take_payload(BlobKind::kLogMessage);
    } else if (reader.is(8, Wire::kBytes)) {
      take_payload(BlobKind::kRunMetadata);
      good = reader.ok() && parse_run_metadata(event.payload, event);
    } else {
      reader.skip();
    }
    if (!good) return false;
  }
  return reader.ok();
}

bool is_utf8(Bytes bytes) {
  const uint8_t* p = bytes.data;
  const uint8_t* end = p + bytes.size;
  while (p < end) {
    if (*p < 0x80) {
      ++p;
      continue;
    }
    const uint8_t lead = *p++;
    const int tail = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || end - p < tail) return false;
    // The second byte's range keeps out overlong forms, surrogates and what lies past U+10FFFF.
    const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (*p < low || *p > high) return false;
    for (int i = 1; i < tail; ++i)
      if ((p[i] & 0xc0) != 0x80) return false;
    p += tail;
  }
  return true;
}

}  // namespace tbhub
