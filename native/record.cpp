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

struct Search {
  enum : uint8_t { kFound, kNone, kWait } outcome;
  size_t at;  // where the header stands, or where the search ended
};

// Looks for the first offset >= 1 at which a proven header stands: its own crc is right, and so
// is that of its data. Where only bytes yet to come can tell, it says so: what is decided must
// not depend on how much of a file has been read. At the end of a file a header whose data is cut
// off does not count, since noise may hold one and records behind it would be lost.
Search find_header(const uint8_t* p, size_t size, bool final) {
  const size_t limit = final ? size : std::min(size, kMaxSearch);
  uint64_t spent = 0;  // headers may be made to claim the same bytes over and over
  for (size_t at = 1; at + kHeaderSize <= limit; ++at) {
    if (!header_is_good(p + at) || spent > kMaxSearch) continue;
    const uint64_t length = load<uint64_t>(p + at);
    if (length + kFrameSize <= size - at) {
      if (data_is_good(p + at, length)) return {Search::kFound, at};
      spent += length;
    } else if (!final) {
      return {Search::kWait, at};
    }
  }
  if (!final && size < kMaxSearch) return {Search::kWait, size};
  return {Search::kNone, limit};
}

Scan damaged(Damage kind, size_t size, const uint8_t* data = nullptr, size_t data_size = 0) {
  return {Scan::kDamaged, size, data, data_size, kind};
}

// A bad header at the front. Its record can be saved when its data proves itself, either by
// reaching exactly to the next header or by the length that stands there.
Scan scan_bad_header(const uint8_t* p, size_t size, bool final) {
  const Search next = find_header(p, size, final);
  // Network file systems show zeros where bytes are on their way, and a record behind the damage
  // proves where it ends: wait, within reason.
  if (next.outcome == Search::kWait) return {Scan::kNeedMore, 0};
  const bool ends = next.outcome == Search::kFound || final;
  if (ends && next.at >= kFrameSize && data_is_good(p, next.at - kFrameSize))
    return damaged(Damage::kBadLengthCrc, next.at, p + kHeaderSize, next.at - kFrameSize);
  const uint64_t claimed = load<uint64_t>(p);
  if (next.at >= kFrameSize && claimed <= next.at - kFrameSize && data_is_good(p, claimed))
    return damaged(Damage::kBadLengthCrc, claimed + kFrameSize, p + kHeaderSize, claimed);
  return damaged(Damage::kGarbage, ends ? next.at : next.at - (kHeaderSize - 1));
}

}  // namespace

const char* damage_name(Damage kind) {
  switch (kind) {
    case Damage::kBadLengthCrc:
      return "bad length crc";
    case Damage::kBadDataCrc:
      return "bad data crc";
    case Damage::kTruncated:
      return "truncated";
    case Damage::kGarbage:
      return "garbage";
    case Damage::kNotAnEvent:
      return "not an event";
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
    return damaged(Damage::kTruncated, find_header(p, size, final).at);
  }
  if (data_is_good(p, length)) return {Scan::kRecord, length + kFrameSize, p + kHeaderSize, length};

  // Bad data. When the next header stands where it should, exactly one record is lost; when it
  // does not, bytes are missing or were added, and the next record may begin inside this one.
  const size_t end = length + kFrameSize;
  const bool has_next = size - end >= kHeaderSize;
  if (!has_next && !final) return {Scan::kNeedMore, 0};
  if (has_next && header_is_good(p + end)) return damaged(Damage::kBadDataCrc, end);
  const Search next = find_header(p, size, final);
  if (next.outcome == Search::kWait) return {Scan::kNeedMore, 0};
  return damaged(Damage::kBadDataCrc, next.outcome == Search::kFound ? next.at : end);
}

}  // namespace tbhub
