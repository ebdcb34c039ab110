// Any bytes in any pieces, drained at any time: what comes out depends on the bytes alone.
//
// An input is a seed of four bytes, which decides on the pieces, and a file.
#include <algorithm>

#include "decoder.h"
#include "fuzz.h"
#include "snapshot.h"

using namespace tbhub;

namespace {

constexpr size_t kSeedSize = 4;
constexpr size_t kMaxPieces = 200;  // each piece may scan again what waits: bounds the time

// Feeds the file piece by piece; `after` is called behind each.
template <class After>
void feed_pieces(Decoder& decoder, std::string_view file, fuzz::Random& random, After after) {
  const size_t bound = std::max<size_t>(1 + random() % 256, 2 * file.size() / kMaxPieces + 1);
  for (size_t at = 0; at < file.size();) {
    const size_t size = std::min<size_t>(1 + random() % bound, file.size() - at);
    // A copy of exactly this size lets the sanitizer see any step beyond it.
    const std::vector<uint8_t> piece(file.begin() + at, file.begin() + at + size);
    decoder.feed(piece.data(), size);
    at += size;
    REQUIRE(decoder.offset() == at);
    REQUIRE(decoder.pending() <= at);
    after();
  }
}

// What a reader has gathered that drains now and then, and purges what it drained before.
class Reader {
 public:
  void take(testing::Snapshot&& drained) {
    for (const auto& [step, tag] : drained.purges) purge(step, tag);
    for (auto& [tag, series] : drained.series) {
      auto& points = series_[tag];
      points.insert(points.end(), series.points.begin(), series.points.end());
    }
    blobs_.insert(blobs_.end(), drained.blobs.begin(), drained.blobs.end());
  }

  void check(const testing::Snapshot& whole) {
    std::erase_if(series_, [](const auto& each) { return each.second.empty(); });
    REQUIRE(series_.size() == whole.series.size());
    for (const auto& [tag, series] : whole.series) REQUIRE(series_[tag] == series.points);
    REQUIRE(blobs_ == whole.blobs);
  }

 private:
  void purge(int64_t step, const std::string& purged) {
    for (auto& [tag, points] : series_)
      if (purged.empty() || purged == "tag " + tag)
        std::erase_if(points, [&](const auto& point) { return point.step >= step; });
    std::erase_if(blobs_, [&](const auto& blob) {
      return blob.step >= step && (purged.empty() || purged == "tag " + blob.tag);
    });
  }

  std::map<std::string, std::vector<testing::Point>> series_;
  std::vector<testing::Blob> blobs_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (size < kSeedSize || max_size <= kSeedSize || seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  return kSeedSize +
         fuzz::mutate_records(data + kSeedSize, size - kSeedSize, max_size - kSeedSize, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kSeedSize) return 0;
  fuzz::Random random(load<uint32_t>(data));
  const std::string_view file(reinterpret_cast<const char*>(data) + kSeedSize, size - kSeedSize);

  Decoder whole;
  whole.feed(data + kSeedSize, file.size());
  uint64_t last = 0;
  for (const DamageSpan& span : whole.damages().spans) {
    // A saved record that is no event is both; all other damage lies apart, in order.
    REQUIRE(span.offset >= last || span.kind == Damage::kNotAnEvent);
    last = span.offset + span.size;
    REQUIRE(last <= file.size() - whole.pending());
  }
  const testing::Snapshot expected = testing::drain(whole, file);
  REQUIRE(expected.events * kFrameSize <= file.size());

  Decoder pieces;
  feed_pieces(pieces, file, random, [] {});
  REQUIRE(testing::drain(pieces, file) == expected);
  REQUIRE(testing::same_damages(pieces.damages(), whole.damages()));
  REQUIRE(pieces.pending() == whole.pending());

  Decoder drained;
  Reader reader;
  feed_pieces(drained, file, random, [&] {
    if (random() % 3 == 0) reader.take(testing::drain(drained, file));
  });
  reader.take(testing::drain(drained, file));
  reader.check(expected);
  return 0;
}
