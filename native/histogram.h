// Histograms over TensorBoard's exponential buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbhub {

// The 1549 bucket edges: 0, and ±1e-12 growing by a tenth up to 1e20.
const std::vector<double>& histogram_edges();

struct Histogram {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  uint64_t count = 0;
  std::vector<uint64_t> buckets;  // as numpy.histogram(values, histogram_edges()) counts them
};

// NaN makes min, max and the sums NaN, as in numpy, and falls into no bucket.
Histogram make_histogram(const float* values, size_t size);
Histogram make_histogram(const double* values, size_t size);

}  // namespace tbhub
