// Reading protobuf's wire format without copying.
//
// Every read is checked against the end; a reader that ran into malformed bytes stays failed, so a
// caller may read on and look at ok() once.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "record.h"

namespace tbhub {

enum class Wire : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
};

class WireReader {
 public:
  WireReader(const uint8_t* data, size_t size) : p_(data), end_(data + size) {}
  explicit WireReader(Bytes bytes) : WireReader(bytes.data, bytes.size) {}

  bool ok() const { return ok_; }
  const uint8_t* position() const { return p_; }
  size_t left() const { return static_cast<size_t>(end_ - p_); }

  // Moves to the next field; false at the end or on malformed bytes (see ok()).
  bool next() {
    if (!ok_ || p_ == end_) return false;
    const uint64_t key = varint();
    field_ = static_cast<uint32_t>(key >> 3);
    wire_ = static_cast<Wire>(key & 7);
    if (key > UINT32_MAX || field_ == 0 || (key & 7) > 5 || wire_ == Wire::kEndGroup) ok_ = false;
    return ok_;
  }

  uint32_t field() const { return field_; }
  Wire wire() const { return wire_; }
  bool is(uint32_t field, Wire wire) const { return field_ == field && wire_ == wire; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (p_ == end_) return fail();
      const uint8_t byte = *p_++;
      value |= shift < 64 ? uint64_t(byte & 0x7f) << shift : 0;
      if (byte < 0x80) return value;
    }
    return fail();
  }

  uint64_t fixed64() { return fixed<uint64_t>(); }
  uint32_t fixed32() { return fixed<uint32_t>(); }
  double float64() { return fixed<double>(); }
  float float32() { return fixed<float>(); }

  Bytes bytes() {
    const uint64_t size = varint();
    if (size > static_cast<uint64_t>(end_ - p_)) {
      fail();
      return {};
    }
    const Bytes found{p_, static_cast<size_t>(size)};
    p_ += size;
    return found;
  }

  // Passes over the current field, whatever it holds.
  void skip() { skip(0); }

 private:
  static constexpr int kMaxGroupDepth = 32;

  uint64_t fail() {
    ok_ = false;
    p_ = end_;
    return 0;
  }

  template <class T>
  T fixed() {
    if (static_cast<size_t>(end_ - p_) < sizeof(T)) return static_cast<T>(fail());
    const T value = load<T>(p_);
    p_ += sizeof(T);
    return value;
  }

  void skip(int depth) {
    switch (wire_) {
      case Wire::kVarint:
        varint();
        break;
      case Wire::kFixed64:
        fixed64();
        break;
      case Wire::kFixed32:
        fixed32();
        break;
      case Wire::kBytes:
        bytes();
        break;
      case Wire::kGroup:
        skip_group(depth);
        break;
      default:
        fail();
    }
  }

  void skip_group(int depth) {
    const uint32_t group = field_;
    if (depth == kMaxGroupDepth) {
      fail();
      return;
    }
    while (ok_) {
      if (p_ == end_) {
        fail();
        return;
      }
      const uint64_t key = varint();
      field_ = static_cast<uint32_t>(key >> 3);
      wire_ = static_cast<Wire>(key & 7);
      if (wire_ == Wire::kEndGroup) {
        if (field_ != group) fail();
        return;
      }
      if ((key & 7) > 5)
        fail();
      else
        skip(depth + 1);
    }
  }

  const uint8_t* p_;
  const uint8_t* end_;
  uint32_t field_ = 0;
  Wire wire_ = Wire::kVarint;
  bool ok_ = true;
};

}  // namespace tbhub
