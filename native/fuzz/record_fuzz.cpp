// Any bytes: a scan covers all of them, always moves on, and stands by what it said.
#include "fuzz.h"
#include "record.h"

using namespace tbhub;

namespace {

bool same(const Scan& a, const Scan& b) {
  return a.kind == b.kind && a.size == b.size && a.data == b.data && a.data_size == b.data_size &&
         a.damage == b.damage;
}

void check_scan(const Scan& scan, const uint8_t* p, size_t left) {
  REQUIRE(scan.size > 0 && scan.size <= left);
  REQUIRE(scan.kind != Scan::kRecord || scan.data != nullptr);
  if (scan.data == nullptr) return;
  REQUIRE(scan.data == p + kHeaderSize);
  REQUIRE(scan.data_size + kFrameSize == scan.size);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return fuzz::mutate_records(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (size_t at = 0; at < size;) {
    const Scan scan = scan_record(data + at, size - at, true);
    REQUIRE(scan.kind != Scan::kNeedMore);
    check_scan(scan, data + at, size - at);
    at += scan.size;
  }
  for (size_t at = 0; at <= size;) {
    const size_t left = size - at;
    const Scan scan = scan_record(data + at, left, false);
    // What is said with fewer bytes is said for good. A few prefixes do: the inputs are many.
    for (size_t part = left; part > 0; part = part * 3 / 4) {
      const Scan early = scan_record(data + at, part, false);
      REQUIRE(early.kind == Scan::kNeedMore || same(early, scan));
    }
    if (scan.kind == Scan::kNeedMore) {
      REQUIRE(scan.size == 0 && scan.data == nullptr);
      break;
    }
    check_scan(scan, data + at, left);
    REQUIRE(same(scan, scan_record(data + at, left, true)));
    at += scan.size;
  }
  return 0;
}
