#include "column.h"

#include <cmath>
#include <limits>
#include <thread>

#include "check.h"
#include "snapshot.h"

namespace tbhub::testing {
namespace {

Point point(int64_t step, double wall_time, double value) {
  return {step, std::bit_cast<uint64_t>(wall_time), std::bit_cast<uint64_t>(value)};
}

// Pushes steps and checks that they come back, and whether they took memory.
void check_steps(const std::vector<int64_t>& steps, bool even, int line) {
  Column column;
  Series expected;
  for (const int64_t step : steps) {
    column.push_float(step, 1.5, 2.5f);
    expected.points.push_back(point(step, 1.5, 2.5));
  }
  const Points points = column.collect();
  if ((points.steps == nullptr) != even) fail(__FILE__, line, "even or not");
  if (series_of(points) != expected) fail(__FILE__, line, "the steps differ");
}
#define CHECK_STEPS(even, ...) check_steps(std::vector<int64_t>{__VA_ARGS__}, even, __LINE__)

TEST(column_of_nothing) {
  Column column;
  CHECK(column.empty());
  const Points points = column.collect();
  CHECK_EQ(points.size, size_t{0});
  column.purge(0);
  CHECK(column.empty());
}

TEST(column_even_steps_take_no_memory) {
  CHECK_STEPS(true, 7);
  CHECK_STEPS(true, 0, 1);
  CHECK_STEPS(true, 0, 1, 2, 3);
  CHECK_STEPS(true, 5, 5, 5);
  CHECK_STEPS(true, 30, 20, 10, 0, -10);
  CHECK_STEPS(false, 0, 1, 3);
  CHECK_STEPS(false, 0, 1, 2, 2);
  CHECK_STEPS(false, 0, 1, 0, 1);
}

TEST(column_even_steps_across_chunks) {
  for (const size_t count : {15, 16, 17, 143, 144, 145, 1168, 1169, 5264, 5265, 20000}) {
    std::vector<int64_t> steps;
    for (size_t i = 0; i < count; ++i) steps.push_back(static_cast<int64_t>(i) * 100 - 7);
    check_steps(steps, true, __LINE__);
    ++steps.back();
    check_steps(steps, false, __LINE__);
    --steps.back();
    if (count > 20) {
      ++steps[16];
      check_steps(steps, false, __LINE__);
    }
  }
}

// Pushes wall times and checks that every bit comes back, and whether they are kept in blocks.
void check_wall_times(const std::vector<double>& wall_times, bool in_blocks, bool is_double,
                      int line) {
  Column column;
  Series expected{is_double, {}};
  for (size_t i = 0; i < wall_times.size(); ++i) {
    const auto step = static_cast<int64_t>(i * i);
    if (is_double)
      column.push_double(step, wall_times[i], 0.1);
    else
      column.push_float(step, wall_times[i], 2.5f);
    expected.points.push_back(point(step, wall_times[i], is_double ? 0.1 : 2.5));
  }
  const Points points = column.collect();
  if ((points.bases != nullptr) != in_blocks) fail(__FILE__, line, "in blocks or not");
  if (series_of(points) != expected) fail(__FILE__, line, "the wall times differ");
}

TEST(column_wall_times_near_one_another_are_kept_in_blocks) {
  for (const bool is_double : {false, true}) {
    for (const size_t count : {1, 1023, 1024, 1025, 2048, 5000}) {
      std::vector<double> near, far, odd;
      for (size_t i = 0; i < count; ++i) {
        near.push_back(1.7e9 + static_cast<double>(i % 700) * 0.3);  // there and back
        far.push_back(1.7e9 + static_cast<double>(i) * 1e6);
        odd.push_back(i % 2 ? -0.0 : std::numeric_limits<double>::quiet_NaN());
      }
      check_wall_times(near, count >= 1024, is_double, __LINE__);
      check_wall_times(far, false, is_double, __LINE__);
      check_wall_times(odd, false, is_double, __LINE__);
      near.back() = 0;  // one is enough
      check_wall_times(near, count % 1024 == 1 && count > 1024, is_double, __LINE__);
    }
  }
}

TEST(column_extreme_steps_wrap) {
  const int64_t low = INT64_MIN, high = INT64_MAX;
  CHECK_STEPS(true, low, high);
  CHECK_STEPS(true, low, high, high - 1);  // one less each time
  CHECK_STEPS(true, high, low);
  CHECK_STEPS(true, high, low, low + 1);
  CHECK_STEPS(true, high - 1, high, low);
  CHECK_STEPS(false, low, high, low);
  CHECK_STEPS(true, 0, low, 0, low);  // twice 2^63 is nothing
  CHECK_STEPS(false, low, 0, high);
}

TEST(column_widens_when_a_double_comes) {
  Column column;
  Series expected{true, {}};
  for (int i = 0; i < 40; ++i) {
    column.push_float(i, i, 0.1f);
    expected.points.push_back(point(i, i, 0.1f));
  }
  column.push_double(40, 40, 0.1);
  expected.points.push_back(point(40, 40, 0.1));
  for (int i = 41; i < 80; ++i) {
    if (i % 3)
      column.push_float(i, i, 0.2f);
    else
      column.push_double(i, i, 0.2);
    expected.points.push_back(point(i, i, i % 3 ? double{0.2f} : 0.2));
  }
  CHECK(series_of(column.collect()) == expected);
}

TEST(column_keeps_every_bit) {
  Column column;
  Series expected;
  for (const float value : {-0.0f, INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::denorm_min()}) {
    column.push_float(0, -0.0, value);
    expected.points.push_back(point(0, -0.0, value));
  }
  CHECK(series_of(column.collect()) == expected);
}

TEST(column_purge_leaves_room_to_go_on) {
  Column column;
  Series expected;
  for (int i = 0; i < 1000; ++i) column.push_float(i, i, 1);
  column.purge(0);
  CHECK(!column.empty());  // a decoder counts on it: the tag is already known to have points
  CHECK_EQ(column.collect().size, size_t{0});
  for (int i = 0; i < 1000; ++i) column.push_float(i, i, 1);
  column.purge(500);
  for (int i = 400; i < 700; ++i) column.push_double(i, i, 2);
  for (int i = 0; i < 500; ++i) expected.points.push_back(point(i, i, 1));
  for (int i = 400; i < 700; ++i) expected.points.push_back(point(i, i, 2));
  expected.is_double = true;
  CHECK(series_of(column.collect()) == expected);
}

TEST(column_agrees_with_a_plain_vector) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    Column column;
    Series expected;
    const bool with_doubles = random.one_in(2);
    for (size_t operations = random.below(60); operations > 0; --operations) {
      if (random.one_in(6)) {
        const auto from = static_cast<int64_t>(random.below(3000));
        column.purge(from);
        std::erase_if(expected.points, [&](const Point& each) { return each.step >= from; });
      }
      for (size_t count = random.below(300); count > 0; --count) {
        const auto step = static_cast<int64_t>(random.below(3000));
        const double wall_time = static_cast<double>(random.below(1000));
        const bool is_double = with_doubles && random.one_in(100);
        const double value = static_cast<double>(random.bits()) / 3;
        if (is_double)
          column.push_double(step, wall_time, value);
        else
          column.push_float(step, wall_time, static_cast<float>(value));
        expected.is_double |= is_double;
        expected.points.push_back(
            point(step, wall_time, is_double ? value : double{static_cast<float>(value)}));
      }
    }
    CHECK(series_of(column.collect()) == expected);
    CHECK(column.empty());
  }
}

TEST(column_threads_share_memory) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([number] {
      for (int round = 0; round < 10; ++round) {
        Column column;
        for (int i = 0; i < 12000; ++i) column.push_float(i * i, i, static_cast<float>(number));
        const Points points = column.collect();
        for (size_t i = 0; i < points.size; i += 1000)
          CHECK_EQ(points.floats[i], static_cast<float>(number));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(column_points_outlive_the_column) {
  std::vector<Points> kept;
  for (int round = 0; round < 5; ++round) {
    Column column;
    for (int i = 0; i < 30000; ++i) column.push_double(i * i, i, round);  // pieces of large blocks
    kept.push_back(column.collect());
  }
  for (size_t round = 0; round < kept.size(); ++round) {
    CHECK_EQ(kept[round].size, size_t{30000});
    CHECK_EQ(kept[round].doubles[29999], static_cast<double>(round));
    CHECK_EQ(kept[round].steps[29999], int64_t{29999} * 29999);
    CHECK_EQ(kept[round].wall_time(29999), 29999.0);
  }
}

}  // namespace
}  // namespace tbhub::testing
