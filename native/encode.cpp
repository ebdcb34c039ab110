#include "encode.h"

#include <algorithm>
#include <utility>

#include "record.h"

namespace tbhub {
namespace {

inline uint8_t* put_varint(uint8_t* p, uint64_t value) {
  while (value >= 0x80) {
    *p++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *p++ = static_cast<uint8_t>(value);
  return p;
}

inline size_t varint_size(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

template <class T>
inline uint8_t* put(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof value);
  return p + sizeof value;
}

inline uint8_t* put_bytes(uint8_t* p, std::string_view bytes) {
  std::memcpy(p, bytes.data(), bytes.size());
  return p + bytes.size();
}

// Wall time and step; a step of 0 is left out, as protobuf does.
inline uint8_t* put_front(uint8_t* p, double wall_time, int64_t step) {
  *p++ = 0x09;
  p = put(p, wall_time);
  if (step != 0) {
    *p++ = 0x10;
    p = put_varint(p, static_cast<uint64_t>(step));
  }
  return p;
}

constexpr size_t kMaxFront = 9 + 11;
constexpr size_t kMaxVarint = 10;

// Puts the frame around `size` bytes of data that already stand behind room for the header.
inline void close_record(ByteBuffer& to, uint8_t* record, size_t size) {
  put(record, static_cast<uint64_t>(size));
  put(record + 8, masked_crc32c(record, 8));
  put(record + kHeaderSize + size, masked_crc32c(record + kHeaderSize, size));
  to.commit(size + kFrameSize);
}

}  // namespace

void ByteBuffer::grow(size_t least) {
  const size_t capacity = std::max<size_t>({least, capacity_ * 2, 4096});
  resize_array(bytes_, capacity);
  capacity_ = capacity;
}

void ByteBuffer::release() {
  bytes_.reset();
  size_ = capacity_ = 0;
}

void ByteBuffer::swap(ByteBuffer& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
}

void append_record(ByteBuffer& to, const uint8_t* data, size_t size) {
  uint8_t* const record = to.reserve(size + kFrameSize);
  std::memcpy(record + kHeaderSize, data, size);
  close_record(to, record, size);
}

void append_summary(ByteBuffer& to, double wall_time, int64_t step, std::string_view summary) {
  uint8_t* const record = to.reserve(kFrameSize + kMaxFront + 1 + kMaxVarint + summary.size());
  uint8_t* p = put_front(record + kHeaderSize, wall_time, step);
  *p++ = 0x2a;
  p = put_varint(p, summary.size());
  p = put_bytes(p, summary);
  close_record(to, record, static_cast<size_t>(p - record) - kHeaderSize);
}

void append_scalar(ByteBuffer& to, double wall_time, int64_t step, std::string_view tag,
                   float value) {
  const size_t value_size = 1 + varint_size(tag.size()) + tag.size() + 5;
  const size_t summary_size = 1 + varint_size(value_size) + value_size;
  uint8_t* const record = to.reserve(kFrameSize + kMaxFront + 1 + kMaxVarint + summary_size);
  uint8_t* p = put_front(record + kHeaderSize, wall_time, step);
  *p++ = 0x2a;
  p = put_varint(p, summary_size);
  *p++ = 0x0a;
  p = put_varint(p, value_size);
  *p++ = 0x0a;
  p = put_varint(p, tag.size());
  p = put_bytes(p, tag);
  *p++ = 0x15;
  p = put(p, value);
  close_record(to, record, static_cast<size_t>(p - record) - kHeaderSize);
}

void append_version(ByteBuffer& to, double wall_time) {
  constexpr std::string_view kVersion = "brain.Event:2";
  uint8_t* const record = to.reserve(kFrameSize + kMaxFront + 2 + kVersion.size());
  uint8_t* p = put_front(record + kHeaderSize, wall_time, 0);
  *p++ = 0x1a;
  p = put_varint(p, kVersion.size());
  p = put_bytes(p, kVersion);
  close_record(to, record, static_cast<size_t>(p - record) - kHeaderSize);
}

void append_session_start(ByteBuffer& to, double wall_time, int64_t step) {
  constexpr std::string_view kStart("\x3a\x02\x08\x01", 4);  // session_log { status: START }
  uint8_t* const record = to.reserve(kFrameSize + kMaxFront + kStart.size());
  uint8_t* p = put_front(record + kHeaderSize, wall_time, step);
  p = put_bytes(p, kStart);
  close_record(to, record, static_cast<size_t>(p - record) - kHeaderSize);
}

}  // namespace tbhub
