#include "histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace tbhub {
namespace {

// Positive edges grow by 1.1 each, so a 32nd of an octave (a factor of at most 1.032) holds at
// most one of them. A table maps the exponent and the five highest mantissa bits of a magnitude to the
// number of edges at or below the lower end of that slice; one comparison does the rest. Positive
// doubles are ordered like their bits, so all of it is integer arithmetic without a branch.
constexpr int kSliceBits = 5;
constexpr int kShift = 52 - kSliceBits;
constexpr int64_t kFirstSlice = int64_t{1023 - 40} << kSliceBits;  // 2^-40 is just below 1e-12
constexpr int64_t kEndSlice = int64_t{1023 + 67} << kSliceBits;    // 2^67 is just above 1e20
constexpr int64_t kSlices = kEndSlice - kFirstSlice;
constexpr uint64_t kSignBit = uint64_t{1} << 63;

struct Buckets {
  std::vector<double> edges;
  std::vector<uint64_t> magnitudes;           // the bits of the positive edges, then infinity
  std::array<uint16_t, kSlices + 2> below{};  // with a slice on either side for what is outside

  Buckets() {
    std::vector<double> positive;
    for (double edge = 1e-12; edge < 1e20; edge *= 1.1) positive.push_back(edge);
    for (auto edge = positive.rbegin(); edge != positive.rend(); ++edge) edges.push_back(-*edge);
    edges.push_back(0);
    edges.insert(edges.end(), positive.begin(), positive.end());
    for (const double edge : positive) magnitudes.push_back(std::bit_cast<uint64_t>(edge));
    for (int64_t slice = 0; slice < kSlices; ++slice) {
      const uint64_t low = static_cast<uint64_t>(kFirstSlice + slice) << kShift;
      below[static_cast<size_t>(slice) + 1] = static_cast<uint16_t>(
          std::upper_bound(magnitudes.begin(), magnitudes.end(), low) - magnitudes.begin());
    }
    below.back() = static_cast<uint16_t>(magnitudes.size());
    magnitudes.push_back(std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity()));
  }
};

const Buckets& buckets() {
  static const Buckets instance;
  return instance;
}

template <class T>
std::vector<uint64_t> count(const T* values, size_t size) {
  const Buckets& all = buckets();
  const uint64_t* const magnitudes = all.magnitudes.data();
  const auto positive = static_cast<int64_t>(all.magnitudes.size() - 1);
  const double top = all.edges.back();

  // A value's place is the number of edges at or below it: 0 is below all of them, place i + 1 is
  // bucket i. Two sets of counts keep a run of equal values from waiting for itself.
  constexpr size_t kPlaces = 2048;
  std::array<std::array<uint32_t, kPlaces>, 2> counts{};
  std::vector<uint64_t> result(all.edges.size() - 1);
  uint64_t at_top = 0;

  constexpr size_t kBlock = size_t{1} << 30;  // counts of 32 bits cannot overflow
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t end = std::min(size, start + kBlock);
    for (size_t i = start; i < end; ++i) {
      const double value = values[i];
      const uint64_t negative = value < 0;
      // Edges at or below -m are those of a magnitude >= m: all but those at or below the number
      // just before m.
      const uint64_t bits = (std::bit_cast<uint64_t>(value) & ~kSignBit) - negative;
      const int64_t slice = static_cast<int64_t>(bits >> kShift) - kFirstSlice + 1;
      const int64_t known = all.below[static_cast<size_t>(
          std::clamp<int64_t>(slice, 0, kSlices + 1))];
      const int64_t edges_below = known + (bits >= magnitudes[known]);
      const int64_t place = negative ? positive - edges_below : positive + 1 + edges_below;
      ++counts[i & 1][static_cast<size_t>(place)];
      at_top += value == top;
    }
    for (auto& part : counts) {
      for (size_t bucket = 0; bucket < result.size(); ++bucket) result[bucket] += part[bucket + 1];
      part.fill(0);
    }
  }
  result.back() += at_top;
  return result;
}

}  // namespace

const std::vector<double>& histogram_edges() { return buckets().edges; }

std::vector<uint64_t> count_buckets(const float* values, size_t size) { return count(values, size); }
std::vector<uint64_t> count_buckets(const double* values, size_t size) { return count(values, size); }

}  // namespace tbhub
