#include "histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tbhub {
namespace {

// Positive edges grow by 1.1 each, so a 32nd of an octave (a factor of at most 1.032) holds at
// most one of them. The table maps the exponent and the five highest mantissa bits of a magnitude
// to the number of edges at or below the lower end of that slice; one comparison does the rest.
constexpr int kSliceBits = 5;
constexpr int kShift = 52 - kSliceBits;
constexpr int kMinExponent = 1023 - 40;  // 2^-40 is just below 1e-12
constexpr int kMaxExponent = 1023 + 67;  // 2^67 is just above 1e20
constexpr size_t kFirstSlice = size_t{kMinExponent} << kSliceBits;
constexpr size_t kSlices = size_t{kMaxExponent - kMinExponent} << kSliceBits;

struct Buckets {
  std::vector<double> magnitudes;  // the positive edges
  std::vector<double> edges;
  std::vector<uint16_t> below;     // per slice: edges at or below its lower end

  Buckets() {
    for (double edge = 1e-12; edge < 1e20; edge *= 1.1) magnitudes.push_back(edge);
    for (auto edge = magnitudes.rbegin(); edge != magnitudes.rend(); ++edge) edges.push_back(-*edge);
    edges.push_back(0);
    edges.insert(edges.end(), magnitudes.begin(), magnitudes.end());
    below.resize(kSlices);
    for (size_t slice = 0; slice < kSlices; ++slice) {
      const double low = std::bit_cast<double>(uint64_t(kFirstSlice + slice) << kShift);
      below[slice] = static_cast<uint16_t>(
          std::upper_bound(magnitudes.begin(), magnitudes.end(), low) - magnitudes.begin());
    }
    magnitudes.push_back(std::numeric_limits<double>::infinity());  // ends every comparison
  }
};

const Buckets& buckets() {
  static const Buckets instance;
  return instance;
}

// How many positive edges are <= magnitude.
inline size_t edges_at_or_below(const Buckets& all, double magnitude) {
  const uint64_t slice = std::bit_cast<uint64_t>(magnitude) >> kShift;
  if (slice < kFirstSlice) return 0;
  if (slice >= kFirstSlice + kSlices) return all.magnitudes.size() - 1;
  const size_t count = all.below[slice - kFirstSlice];
  return count + (magnitude >= all.magnitudes[count]);
}

template <class T>
Histogram count_values(const T* values, size_t size) {
  const Buckets& all = buckets();
  const size_t positive = all.magnitudes.size() - 1;  // number of positive edges
  const size_t last = all.edges.size() - 1;           // number of buckets

  // Bucket i is [edge i, edge i+1), the last one closed. A value's bucket is the number of edges at
  // or below it, less one. `counts` is shifted by one and has a place for what is outside.
  // Two sets of counts keep runs of equal values from waiting for each other.
  std::vector<uint32_t> counts[2] = {std::vector<uint32_t>(last + 2), std::vector<uint32_t>(last + 2)};
  Histogram result;
  result.buckets.assign(last, 0);
  result.count = size;

  constexpr size_t kBlock = 4096;
  double sum[4] = {}, squares[4] = {};
  T low = std::numeric_limits<T>::infinity(), high = -low;
  bool has_nan = false;
  uint64_t at_top = 0;
  const double top = all.edges.back();
  size_t since_fold = 0;
  auto fold = [&] {
    for (auto& part : counts) {
      for (size_t i = 0; i < last; ++i) result.buckets[i] += part[i + 1];
      std::fill(part.begin(), part.end(), 0);
    }
    since_fold = 0;
  };
  for (size_t start = 0; start < size; start += kBlock) {
    const size_t end = std::min(size, start + kBlock);
    // Sums and extremes first: simple loops the compiler makes wide.
    double block_sum[4] = {}, block_squares[4] = {};
    size_t i = start;
    for (; i + 4 <= end; i += 4) {
      for (size_t lane = 0; lane < 4; ++lane) {
        const double value = values[i + lane];
        block_sum[lane] += value;
        block_squares[lane] += value * value;
      }
    }
    for (; i < end; ++i) {
      const double value = values[i];
      block_sum[0] += value;
      block_squares[0] += value * value;
    }
    for (size_t lane = 0; lane < 4; ++lane) {
      sum[lane] += block_sum[lane];
      squares[lane] += block_squares[lane];
    }
    T block_low = low, block_high = high;
    bool block_nan = false;
    for (i = start; i < end; ++i) {
      const T value = values[i];
      block_low = value < block_low ? value : block_low;
      block_high = value > block_high ? value : block_high;
      block_nan |= value != value;
    }
    low = block_low;
    high = block_high;
    has_nan |= block_nan;

    for (i = start; i < end; ++i) {
      const double value = values[i];
      const double magnitude = std::fabs(value);
      size_t place;
      if (value >= 0) {
        place = positive + 1 + edges_at_or_below(all, magnitude);
        at_top += value == top;
      } else if (value < 0) {
        // Edges at or below -m are those with a magnitude >= m.
        const size_t at_or_below = edges_at_or_below(all, magnitude);
        const bool on_edge = at_or_below > 0 && all.magnitudes[at_or_below - 1] == magnitude;
        place = positive - at_or_below + (on_edge ? 1 : 0);
      } else {
        continue;  // NaN
      }
      ++counts[i & 1][place];
    }
    since_fold += end - start;
    if (since_fold > (uint64_t{1} << 31)) fold();
  }
  fold();
  result.buckets[last - 1] += at_top;  // the last bucket is closed

  const double nan = std::numeric_limits<double>::quiet_NaN();
  result.min = has_nan ? nan : low;
  result.max = has_nan ? nan : high;
  result.sum = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  result.sum_squares = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  return result;
}

}  // namespace

const std::vector<double>& histogram_edges() { return buckets().edges; }

Histogram make_histogram(const float* values, size_t size) { return count_values(values, size); }
Histogram make_histogram(const double* values, size_t size) { return count_values(values, size); }

}  // namespace tbhub
