#include "record.h"

#include <algorithm>

namespace tbhub {
namespace {

// How far the next header is looked for before bytes are given up as garbage.
constexpr size_t kMaxSearch = size_t{4} << 20;

bool data_is_good(const uint8_t* record, uint64_t length) {
  return masked_crc32c(record + kHeaderSize, length) ==
         load<uint32_t>(record + kHeaderSize + length);
}

// The first offset >= from at which a proven header stands, or size where there is none. A header
// whose data is cut off by the end counts while more bytes may come; at the end of a file it
// does not, since noise may hold one and records behind it would be lost.
size_t find_header(const uint8_t* p, size_t from, size_t size, bool final) {
  for (size_t at = from; at + kHeaderSize <= size; ++at) {
    if (!header_is_good(p + at)) continue;
    const uint64_t length = load<uint64_t>(p + at);
    const bool whole = length + kFrameSize <= size - at;
    if (whole ? data_is_good(p + at, length) : !final) return at;
  }
  return size;
}

Scan damaged(Damage kind, size_t size, const uint8_t* data = nullptr, size_t data_size = 0) {
  return {Scan::kDamaged, size, data, data_size, kind};
}

// A bad header at the front. Its record can be saved when its data proves itself, either by
// the length that stands there or by reaching exactly to the next header.
Scan scan_bad_header(const uint8_t* p, size_t size, bool final) {
  const uint64_t claimed = load<uint64_t>(p);
  if (claimed <= kMaxRecordSize && claimed + kFrameSize <= size && data_is_good(p, claimed))
    return damaged(Damage::kBadLengthCrc, claimed + kFrameSize, p + kHeaderSize, claimed);
  const size_t next = find_header(p, 1, size, final);
  if (next >= kFrameSize && (next < size || final) && data_is_good(p, next - kFrameSize))
    return damaged(Damage::kBadLengthCrc, next, p + kHeaderSize, next - kFrameSize);
  if (next < size || final) return damaged(Damage::kGarbage, next);
  // No header in sight yet. Network file systems show zeros where bytes are on their way, and a
  // record behind the damage proves where it ends: wait, within reason.
  if (size < kMaxSearch) return {Scan::kNeedMore, 0};
  return damaged(Damage::kGarbage, size - (kHeaderSize - 1));
}

}  // namespace

const char* damage_name(Damage kind) {
  switch (kind) {
    case Damage::kBadLengthCrc: return "bad length crc";
    case Damage::kBadDataCrc: return "bad data crc";
    case Damage::kTruncated: return "truncated";
    case Damage::kGarbage: return "garbage";
    case Damage::kNotAnEvent: return "not an event";
  }
  return "unknown";
}

Scan scan_record(const uint8_t* p, size_t size, bool final) {
  if (size < kHeaderSize) {
    if (final && size > 0) return damaged(Damage::kTruncated, size);
    return {Scan::kNeedMore, 0};
  }
  if (!header_is_good(p)) return scan_bad_header(p, size, final);

  const uint64_t length = load<uint64_t>(p);
  if (length + kFrameSize > size) {
    if (!final) return {Scan::kNeedMore, 0};
    return damaged(Damage::kTruncated, find_header(p, 1, size, final));
  }
  if (data_is_good(p, length)) return {Scan::kRecord, length + kFrameSize, p + kHeaderSize, length};

  // Bad data. When the next header stands where it should, exactly one record is lost; when it
  // does not, bytes are missing or were added, and the next record may begin inside this one.
  const size_t end = length + kFrameSize;
  const bool next_fits = size - end < kHeaderSize || header_is_good(p + end);
  if (next_fits) return damaged(Damage::kBadDataCrc, end);
  const size_t next = find_header(p, 1, size, final);
  return damaged(Damage::kBadDataCrc, next < size ? next : end);
}

}  // namespace tbhub
