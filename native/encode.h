// Writing records and scalar events.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "array.h"

namespace tbhub {

// Bytes that grow at the end. Unlike std::vector it leaves new bytes unset.
class ByteBuffer {
 public:
  const uint8_t* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  // Room for `count` more bytes; they count only once committed.
  uint8_t* reserve(size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    return bytes_.get() + size_;
  }
  void commit(size_t count) { size_ += count; }

  void release();
  void swap(ByteBuffer& other) noexcept;

 private:
  void grow(size_t least);

  Array<uint8_t> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// Appends one framed record.
void append_record(ByteBuffer& to, const uint8_t* data, size_t size);

// Appends the event {wall_time, step, summary} around a serialized Summary.
void append_summary(ByteBuffer& to, double wall_time, int64_t step, std::string_view summary);

// Appends the event {wall_time, step, summary {value {tag, simple_value}}}.
void append_scalar(ByteBuffer& to, double wall_time, int64_t step, std::string_view tag,
                   float value);

// Appends the event that opens every file.
void append_version(ByteBuffer& to, double wall_time);

// Appends the event that tells readers to forget everything from `step` on.
void append_session_start(ByteBuffer& to, double wall_time, int64_t step);

}  // namespace tbhub
