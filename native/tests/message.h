// Protobuf messages and records put together by hand, right or wrong, for tests and fuzzers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "crc32c.h"
#include "encode.h"

namespace tbhub::testing {

inline const uint8_t* data_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

class Message {
 public:
  Message& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  Message& key(uint32_t field, int wire) { return number(uint64_t{field} << 3 | unsigned(wire)); }
  Message& varint(uint32_t field, uint64_t value) { return key(field, 0).number(value); }
  Message& float64(uint32_t field, double value) { return key(field, 1).plain(value); }
  Message& float32(uint32_t field, float value) { return key(field, 5).plain(value); }
  Message& bytes(uint32_t field, std::string_view value) {
    return key(field, 2).number(value.size()).raw(value);
  }
  Message& message(uint32_t field, const Message& value) { return bytes(field, value.text()); }

  // Without a key: for packed lists and tensor_content.
  Message& number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
    return *this;
  }
  template <class T>
  Message& plain(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    return raw({bytes, sizeof value});
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Event {wall_time, step, summary {value}}.
inline Message value_event(double wall_time, int64_t step, const Message& value) {
  Message event;
  event.float64(1, wall_time);
  if (step != 0) event.varint(2, static_cast<uint64_t>(step));
  return event.message(5, Message().message(1, value));
}

inline Message scalar_event(double wall_time, int64_t step, std::string_view tag, float value) {
  return value_event(wall_time, step, Message().bytes(1, tag).float32(2, value));
}

// A tag's value as a float64 scalar tensor, the way TensorFlow 2 writes them.
inline Message double_event(double wall_time, int64_t step, std::string_view tag, double value) {
  const Message tensor =
      Message().varint(1, 2).message(2, Message()).bytes(4, Message().plain(value).text());
  return value_event(wall_time, step, Message().bytes(1, tag).message(8, tensor));
}

inline Message version_event(std::string_view version) {
  return Message().float64(1, 1.0).bytes(3, version);
}

inline Message session_start_event(int64_t step) {
  Message event;
  event.float64(1, 1.0);
  if (step != 0) event.varint(2, static_cast<uint64_t>(step));
  return event.message(7, Message().varint(1, 1));
}

inline std::string header_for(uint64_t length) {
  Message header;
  header.plain(length);
  const uint32_t crc = masked_crc32c(data_of(header.text()), 8);
  return header.plain(crc).text();
}

inline std::string record_of(std::string_view data) {
  std::string record = header_for(data.size());
  record += data;
  return record + Message().plain(masked_crc32c(data_of(data), data.size())).text();
}
inline std::string record_of(const Message& message) { return record_of(message.text()); }

inline std::string text_of(const ByteBuffer& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tbhub::testing
