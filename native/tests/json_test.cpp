#include "json.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "check.h"

namespace tbhub::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <class Value>
std::string json(const std::vector<double>& wall_times, const std::vector<int64_t>& steps,
                 const std::vector<Value>& values, JsonStyle style) {
  return points_to_json(wall_times.data(), steps.data(), values.data(), values.size(), style);
}

// The text of one value, which stands last.
template <class Value>
std::string value_text(Value value) {
  const std::string text = json<Value>({0}, {0}, {value}, JsonStyle::kTuples);
  return text.substr(6, text.size() - 8);
}

TEST(json_of_nothing) {
  CHECK_EQ(json<float>({}, {}, {}, JsonStyle::kObjects), "[]");
  CHECK_EQ(json<double>({}, {}, {}, JsonStyle::kTuples), "[]");
}

TEST(json_styles) {
  const std::vector<double> wall_times = {1.5, 2};
  const std::vector<int64_t> steps = {0, -7};
  CHECK_EQ(json<float>(wall_times, steps, {2.5f, 3}, JsonStyle::kObjects),
           R"([{"wallTime":1.5,"step":0,"value":2.5},{"wallTime":2,"step":-7,"value":3}])");
  CHECK_EQ(json<double>(wall_times, steps, {2.5, 3}, JsonStyle::kTuples), "[[1.5,0,2.5],[2,-7,3]]");
}

TEST(json_has_no_numbers_for_these) {
  CHECK_EQ(json<float>({kNaN, kInfinity, -kInfinity}, {1, 2, 3},
                       {NAN, static_cast<float>(kInfinity), static_cast<float>(-kInfinity)},
                       JsonStyle::kTuples),
           R"([["NaN",1,"NaN"],["Infinity",2,"Infinity"],["-Infinity",3,"-Infinity"]])");
  CHECK_EQ(value_text(-kNaN), "\"NaN\"");
}

TEST(json_longest_numbers_fit) {
  const double longest = -2.2250738585072014e-308;
  const std::vector<double> doubles(1000, longest);
  const std::vector<int64_t> steps(1000, INT64_MIN);
  const std::string text = json<double>(doubles, steps, doubles, JsonStyle::kObjects);
  const std::string one =
      R"({"wallTime":-2.2250738585072014e-308,"step":-9223372036854775808,)"
      R"("value":-2.2250738585072014e-308})";
  CHECK_EQ(text.size(), 1000 * (one.size() + 1) + 1);
  CHECK_EQ(text.substr(1, one.size()), one);
}

TEST(json_extremes) {
  CHECK_EQ(value_text(0.0), "0");
  CHECK_EQ(value_text(-0.0), "-0");
  CHECK_EQ(value_text(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  CHECK_EQ(value_text(std::numeric_limits<double>::denorm_min()), "5e-324");
  CHECK_EQ(value_text(0.1), "0.1");
  CHECK_EQ(value_text(0.1f), "0.10000000149011612");  // the double it is
  CHECK_EQ(json<double>({0}, {INT64_MAX}, {0}, JsonStyle::kTuples), "[[0,9223372036854775807,0]]");
}

TEST(json_numbers_read_back_as_themselves) {
  Random random(1);
  for (int round = 0; round < 20000; ++round) {
    const double value = std::bit_cast<double>(random.bits());
    if (!std::isfinite(value)) continue;
    const std::string text = value_text(value);
    CHECK(std::bit_cast<uint64_t>(std::strtod(text.c_str(), nullptr)) ==
          std::bit_cast<uint64_t>(value));
    CHECK(text.size() <= 24);
  }
}

}  // namespace
}  // namespace tbhub::testing
