// The points of one tag while they are being decoded: step, wall time and value.
//
// Points are pushed into chunks that never move; large chunks come from a pool, so that decoding
// one file after the other touches the same warm memory. collect() packs them into arrays of
// exactly the right size. Values are float32 until one arrives that needs float64.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "array.h"

namespace tbhub {

// Finished points: arrays of `size` in one piece of memory.
//
// Most steps count up evenly. Those take no memory: first_step and stride say it all, and steps is
// null. Wall times near one another differ in the lower half of their bits only: a block of them is
// kept as the least and what each adds to it. Both save memory, of 20 bytes twelve, and with it the
// time that first touching it takes, which is most of the time.
struct Points {
  static constexpr size_t kBlock = 1024;

  size_t size = 0;
  const int64_t* steps = nullptr;
  int64_t first_step = 0;
  int64_t stride = 0;
  const double* wall_times = nullptr;  // as they are, or in blocks of kBlock
  const uint64_t* bases = nullptr;     // the least bits of each block
  const uint32_t* offsets = nullptr;   // what is to be added to them
  const float* floats = nullptr;  // one of the two holds the values
  const double* doubles = nullptr;
  int64_t max_step = 0;
  double max_wall_time = 0;
  std::shared_ptr<uint8_t> memory;

  double wall_time(size_t i) const {
    return wall_times != nullptr ? wall_times[i]
                                 : std::bit_cast<double>(bases[i / kBlock] + offsets[i]);
  }
  size_t bytes() const;
};

class Column {
 public:
  Column() = default;
  ~Column() { clear(); }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  bool empty() const { return chunks_.empty(); }

  void push_float(int64_t step, double wall_time, float value) {
    if (used_ == capacity_ || is_double_) [[unlikely]] {
      push_slow(step, wall_time, value, false);
      return;
    }
    steps_[used_] = step;
    wall_times_[used_] = wall_time;
    reinterpret_cast<float*>(values_)[used_] = value;
    ++used_;
  }

  void push_double(int64_t step, double wall_time, double value) {
    if (used_ == capacity_ || !is_double_) [[unlikely]] {
      push_slow(step, wall_time, value, true);
      return;
    }
    steps_[used_] = step;
    wall_times_[used_] = wall_time;
    values_[used_] = value;
    ++used_;
  }

  // Drops every point whose step is at least `step`.
  void purge(int64_t step);

  // How the points pushed so far will be packed.
  struct Packing {
    size_t size = 0;
    bool is_even = false;
    int64_t first_step = 0;
    int64_t stride = 0;
    std::vector<uint64_t> bases;  // of blocks of wall times; none where these lie too far apart
    size_t bytes = 0;
  };
  Packing plan();

  // All points pushed so far, in order, packed as planned into `memory`; the column is empty then.
  // Columns that are collected together share one piece of memory: many small ones would otherwise
  // each touch pages of their own.
  Points collect(const Packing& packing, std::shared_ptr<uint8_t> memory);
  Points collect();

  void clear();

 private:
  struct Chunk {
    uint8_t* memory;
    uint32_t capacity;
    uint32_t size;  // of the last chunk only once sealed; see used_
    bool is_double;

    int64_t* steps() const { return reinterpret_cast<int64_t*>(memory); }
    double* wall_times() const { return reinterpret_cast<double*>(memory) + capacity; }
    double* values() const { return reinterpret_cast<double*>(memory) + 2 * size_t{capacity}; }
  };

  void push_slow(int64_t step, double wall_time, double value, bool is_double);
  void add_chunk();
  void seal();
  bool steps_are_even(int64_t& first, int64_t& stride) const;
  std::vector<uint64_t> block_bases(size_t size) const;

  std::vector<Chunk> chunks_;
  // The last chunk, spread out for speed.
  int64_t* steps_ = nullptr;
  double* wall_times_ = nullptr;
  double* values_ = nullptr;
  uint32_t used_ = 0;
  uint32_t capacity_ = 0;
  bool is_double_ = false;
};

}  // namespace tbhub
