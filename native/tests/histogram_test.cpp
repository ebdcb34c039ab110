#include "histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check.h"

namespace tbhub::testing {
namespace {

// What the kernel's table does, said simply: numpy.histogram's rule on every value.
template <class T>
std::vector<uint64_t> reference(const std::vector<T>& values) {
  const std::vector<double>& edges = histogram_edges();
  std::vector<uint64_t> buckets(edges.size() - 1);
  for (const double value : values) {
    if (!(value >= edges.front() && value <= edges.back())) continue;
    const auto above = std::upper_bound(edges.begin(), edges.end(), value);
    const size_t bucket = static_cast<size_t>(above - edges.begin()) - 1;
    ++buckets[std::min(bucket, buckets.size() - 1)];
  }
  return buckets;
}

template <class T>
void check(const std::vector<T>& values) {
  CHECK(make_histogram(values.data(), values.size()).buckets == reference(values));
}

// Every edge and its neighbours, in the type's own precision.
template <class T>
std::vector<T> around_edges() {
  const T inf = std::numeric_limits<T>::infinity();
  std::vector<T> values = {T(0),
                           T(-0.0),
                           std::numeric_limits<T>::denorm_min(),
                           -std::numeric_limits<T>::denorm_min(),
                           inf,
                           -inf,
                           std::numeric_limits<T>::quiet_NaN(),
                           std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::lowest()};
  for (const double edge : histogram_edges())
    for (const T value : {T(edge), std::nextafter(T(edge), inf), std::nextafter(T(edge), -inf)})
      values.push_back(value);
  return values;
}

template <class T>
std::vector<T> of_all_magnitudes(Random& random, size_t count) {
  std::vector<T> values(count);
  for (T& value : values) {
    const double exponent = static_cast<double>(random.below(4000)) / 100 - 15;
    value = static_cast<T>((random.one_in(2) ? 1 : -1) * std::pow(10, exponent) *
                           (1 + static_cast<double>(random.below(1000)) / 1000));
  }
  return values;
}

TEST(histogram_edges_are_tensorboards) {
  const std::vector<double>& edges = histogram_edges();
  CHECK_EQ(edges.size(), size_t{1549});
  CHECK_EQ(edges[774], 0.0);
  CHECK_EQ(edges[775], 1e-12);
  CHECK_EQ(edges[776], 1e-12 * 1.1);
  CHECK(edges.back() < 1e20 && edges.back() * 1.1 >= 1e20);
  CHECK(std::is_sorted(edges.begin(), edges.end()));
  for (size_t i = 0; i < edges.size(); ++i) CHECK_EQ(edges[i], -edges[edges.size() - 1 - i]);
}

TEST(histogram_agrees_at_and_around_every_edge) {
  check(around_edges<double>());
  check(around_edges<float>());
  for (const double value : around_edges<double>()) check(std::vector<double>{value});
}

TEST(histogram_agrees_on_random_values) {
  Random random(1);
  for (const size_t count : {0, 1, 2, 3, 4, 5, 4095, 4096, 4097, 50000}) {
    check(of_all_magnitudes<double>(random, count));
    check(of_all_magnitudes<float>(random, count));
  }
  std::vector<double> any(20000);
  for (double& value : any) value = std::bit_cast<double>(random.bits());
  check(any);
}

TEST(histogram_leaves_out_nan_and_what_is_beyond_the_edges) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {1, nan, 2, INFINITY, -INFINITY, 1e21, -1e21, -nan};
  uint64_t counted = 0;
  for (const uint64_t bucket : make_histogram(values.data(), values.size()).buckets)
    counted += bucket;
  CHECK_EQ(counted, uint64_t{2});
  check(values);
}

template <class T>
void check_sums(const std::vector<T>& values) {
  const Histogram found = make_histogram(values.data(), values.size());
  long double sum = 0, squares = 0, size = 0;
  for (const long double value : values) {
    sum += value;
    squares += value * value;
    size += std::fabs(value);
  }
  CHECK(std::fabs(found.sum - static_cast<double>(sum)) <= 1e-14 * static_cast<double>(size));
  CHECK(std::fabs(found.sum_squares - static_cast<double>(squares)) <=
        1e-14 * static_cast<double>(squares));
}

TEST(histogram_sums_and_extremes) {
  Random random(2);
  for (const size_t count : {1, 7, 8, 9, 15, 16, 17, 127, 128, 129, 136, 1000, 10001}) {
    check_sums(of_all_magnitudes<double>(random, count));
    check_sums(of_all_magnitudes<float>(random, count));
  }
}

TEST(histogram_extremes_of_nan_and_infinity) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const size_t size : {1, 2, 15, 16, 17, 40}) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<double> values(size, 1);
      values[place] = nan;
      const Histogram found = make_histogram(values.data(), size);
      CHECK(std::isnan(found.sum));
      values[place] = -INFINITY;
    }
  }
}

TEST(histogram_of_many_equal_values) {
  const std::vector<float> values(100001, 0.5f);
  check(values);
}

}  // namespace
}  // namespace tbhub::testing
