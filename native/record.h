// TFRecord framing: where records start and end, and what to do where they do not.
//
//   record = length: u64 · masked crc of length: u32 · data: length bytes · masked crc of data: u32
//
// A scanner is handed bytes and names what stands at their front. It never trusts a length
// whose crc is wrong, and after damage it finds the next header that proves itself, so one bad
// byte costs one record. The chance that noise passes as a header is 2^-32 per offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "crc32c.h"

namespace tbhub {

constexpr size_t kHeaderSize = 12;
constexpr size_t kFooterSize = 4;
constexpr size_t kFrameSize = kHeaderSize + kFooterSize;

// No event comes near this; a longer length is damage even when its crc is right.
constexpr uint64_t kMaxRecordSize = uint64_t{1} << 30;

template <class T>
inline T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

enum class Damage : uint8_t {
  kBadLengthCrc,  // the header is wrong, the data behind it is proven good by its own crc
  kBadDataCrc,    // the header is right, the data is not
  kTruncated,     // the file ends inside a record
  kGarbage,       // bytes that belong to no record
  kNotAnEvent,    // a sound record whose data is not an Event message
};
constexpr int kDamageKinds = 5;
const char* damage_name(Damage kind);

struct Scan {
  enum Kind : uint8_t {
    kRecord,    // a good record: data, data_size
    kDamaged,   // damage of `size` bytes; where data is set, it is good and worth keeping
    kNeedMore,  // wait for further bytes
  } kind;
  size_t size;  // how many bytes this takes from the front (0 for kNeedMore)
  const uint8_t* data = nullptr;
  size_t data_size = 0;
  Damage damage = Damage::kGarbage;
};

// Names what stands at the front of [p, p + size). With `final` no more bytes will ever come:
// a record cut short is damage then, and never kNeedMore unless size is 0.
// A decision never changes when more bytes come: a damaged record is named once the one behind
// it has shown where it ends. Garbage may come in several pieces, one right behind the other,
// which callers join to one.
Scan scan_record(const uint8_t* p, size_t size, bool final);

inline bool header_is_good(const uint8_t* p) {
  return masked_crc32c(p, 8) == load<uint32_t>(p + 8) && load<uint64_t>(p) <= kMaxRecordSize;
}

}  // namespace tbhub
