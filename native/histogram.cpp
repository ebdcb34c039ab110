#include "histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace tbhub {
namespace {

// Positive edges grow by 1.1 each, so a 32nd of an octave (a factor of at most 1.032) holds at
// most one of them. A table maps the exponent and the five highest mantissa bits of a magnitude to
// the number of edges at or below the lower end of that slice; one comparison does the rest.
// Positive doubles are ordered like their bits: it is all integer arithmetic without a branch.
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

// A value's place is the number of edges at or below it: place 0 is below all of them, place i + 1
// is bucket i. Two sets of counts keep a run of equal values from waiting for itself.
constexpr size_t kPlaces = 2048;
using Counts = std::array<std::array<uint32_t, kPlaces>, 2>;
constexpr size_t kBlock = size_t{1} << 30;  // counts of 32 bits cannot overflow

struct Sums {
  double plain = 0;
  double squares = 0;
};

// Pairwise summation in exactly numpy's order: halves down to 128 values, eight running sums there.
// `visit` sees each of these pieces while it is in the cache.
template <class T, class Visit>
Sums add_up(const T* values, size_t size, Visit& visit) {
  Sums total;
  if (size <= 128) visit(values, size);
  if (size < 8) {
    for (size_t i = 0; i < size; ++i) {
      const double value = values[i];
      total.plain += value;
      total.squares += value * value;
    }
    return total;
  }
  if (size > 128) {
    const size_t half = size / 2 - size / 2 % 8;
    const Sums left = add_up(values, half, visit);
    const Sums right = add_up(values + half, size - half, visit);
    return {left.plain + right.plain, left.squares + right.squares};
  }
  double plain[8], squares[8];
  for (size_t lane = 0; lane < 8; ++lane) {
    const double value = values[lane];
    plain[lane] = value;
    squares[lane] = value * value;
  }
  size_t i = 8;
  for (; i < size - size % 8; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) {
      const double value = values[i + lane];
      plain[lane] += value;
      squares[lane] += value * value;
    }
  }
  const auto fold = [](const double* lanes) {
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  };
  total = {fold(plain), fold(squares)};
  for (; i < size; ++i) {
    const double value = values[i];
    total.plain += value;
    total.squares += value * value;
  }
  return total;
}

// Counts the place of every value, found by `place_of`, while adding them up: one pass over memory.
template <class T, class Place>
Histogram make(const T* values, size_t size, Place place_of) {
  Histogram result;
  result.buckets.resize(buckets().edges.size() - 1);
  Counts counts{};
  for (size_t start = 0; start < size || start == 0; start += kBlock) {
    const size_t end = std::min(size, start + kBlock);
    const auto count = [&](const T* from, size_t number) {
      for (size_t i = 0; i < number; ++i) ++counts[i & 1][place_of(from[i])];
    };
    const Sums sums = add_up(values + start, end - start, count);
    result.sum += sums.plain;
    result.sum_squares += sums.squares;
    for (auto& part : counts) {
      for (size_t bucket = 0; bucket < result.buckets.size(); ++bucket)
        result.buckets[bucket] += part[bucket + 1];
      part.fill(0);
    }
  }
  const double top = buckets().edges.back();  // the last bucket is closed
  if (const T on_top = static_cast<T>(top); on_top == top)
    result.buckets.back() += static_cast<uint64_t>(std::count(values, values + size, on_top));
  return result;
}

Histogram make(const double* values, size_t size) {
  const Buckets& all = buckets();
  const auto positive = static_cast<int64_t>(all.magnitudes.size() - 1);
  return make(values, size, [&all, positive](double value) {
    const uint64_t negative = value < 0;
    // Edges at or below -m are those of a magnitude >= m: all but those at or below the number
    // just before m.
    const uint64_t bits = (std::bit_cast<uint64_t>(value) & ~kSignBit) - negative;
    const int64_t slice = static_cast<int64_t>(bits >> kShift) - kFirstSlice + 1;
    const int64_t known =
        all.below[static_cast<size_t>(std::clamp<int64_t>(slice, 0, kSlices + 1))];
    const int64_t below = known + (bits >= all.magnitudes[static_cast<size_t>(known)]);
    return static_cast<size_t>(negative ? positive - below : positive + 1 + below);
  });
}

// For float32 the table covers every sign and exponent, and holds the edge itself, rounded up to
// the next float32: the values at or above both are the same.
struct FloatSlices {
  struct Slice {
    float edge;      // the only edge inside, or infinity
    uint32_t place;  // of values below that edge
  };
  static constexpr int kFloatShift = 23 - kSliceBits;
  std::array<Slice, size_t{1} << (32 - kFloatShift)> slices;

  FloatSlices() {
    const std::vector<double>& edges = buckets().edges;
    const float infinity = std::numeric_limits<float>::infinity();
    for (uint32_t number = 0; number < slices.size(); ++number) {
      const uint32_t low_bits = number << kFloatShift;
      const uint32_t high_bits = low_bits | ((1u << kFloatShift) - 1);
      float first = std::bit_cast<float>(low_bits), last = std::bit_cast<float>(high_bits);
      if (low_bits >> 31) std::swap(first, last);  // negative numbers run the other way
      if (first != first || last != last) {        // infinity and NaN lie outside
        slices[number] = {infinity, low_bits >> 31 ? 0 : static_cast<uint32_t>(edges.size())};
        continue;
      }
      const auto next = std::upper_bound(edges.begin(), edges.end(), static_cast<double>(first));
      float edge = infinity;
      if (next != edges.end() && *next <= last) {
        edge = static_cast<float>(*next);
        if (edge < *next) edge = std::nextafter(edge, infinity);
      }
      slices[number] = {edge, static_cast<uint32_t>(next - edges.begin())};
    }
  }
};

Histogram make(const float* values, size_t size) {
  static const FloatSlices table;
  const FloatSlices::Slice* const slices = table.slices.data();
  return make(values, size, [slices](float value) -> size_t {
    const auto& slice = slices[std::bit_cast<uint32_t>(value) >> FloatSlices::kFloatShift];
    return slice.place + (value >= slice.edge);
  });
}

}  // namespace

const std::vector<double>& histogram_edges() { return buckets().edges; }

Histogram make_histogram(const float* values, size_t size) { return make(values, size); }
Histogram make_histogram(const double* values, size_t size) { return make(values, size); }

}  // namespace tbhub
