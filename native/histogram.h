// Counting values into TensorBoard's exponential buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tbhub {

// The 1549 bucket edges: 0, and ±1e-12 growing by a tenth up to 1e20.
const std::vector<double>& histogram_edges();

// How many values lie in each bucket, as numpy.histogram(values, histogram_edges()) counts them:
// bucket i is [edge i, edge i+1), the last one closed; NaN and values beyond the edges lie in none.
std::vector<uint64_t> count_buckets(const float* values, size_t size);
std::vector<uint64_t> count_buckets(const double* values, size_t size);

}  // namespace tbhub
