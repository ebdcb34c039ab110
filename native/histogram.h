// Histograms over TensorBoard's exponential buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbhub {

// The 1549 bucket edges: 0, and ±1e-12 growing by a tenth up to 1e20.
const std::vector<double>& histogram_edges();

struct Histogram {
  double sum = 0;  // as numpy's float64 sum adds up, to the last bit
  double sum_squares = 0;
  // As numpy.histogram(values, histogram_edges()) counts: bucket i is [edge i, edge i+1), the
  // last one closed; NaN and values beyond the edges lie in none.
  std::vector<uint64_t> buckets;
};

Histogram make_histogram(const float* values, size_t size);
Histogram make_histogram(const double* values, size_t size);

}  // namespace tbhub
