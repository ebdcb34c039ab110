#include "column.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tbhub {
namespace {

constexpr size_t kPointBytes = 24;  // room for a value of either width
constexpr uint32_t kFirstChunk = 16;
constexpr uint32_t kLargeChunk = 4096;
constexpr size_t kPooledChunks = 64;  // 6 MiB

// Large chunks a thread has used before. One pool per thread: no lock, which a fork could leave
// taken. A chunk may be given back to another thread's pool than it came from.
class Pool {
 public:
  ~Pool() {
    ended = true;
    for (uint8_t* memory : free_) std::free(memory);
  }

  uint8_t* take() {
    if (!free_.empty()) {
      uint8_t* memory = free_.back();
      free_.pop_back();
      return memory;
    }
    Array<uint8_t> fresh;
    resize_array(fresh, kLargeChunk * kPointBytes);
    return fresh.release();
  }

  static void give(uint8_t* memory);

 private:
  static thread_local bool ended;  // columns may outlive their thread's pool
  std::vector<uint8_t*> free_;
};

thread_local bool Pool::ended = false;
thread_local Pool pool;

void Pool::give(uint8_t* memory) {
  if (ended || pool.free_.size() >= kPooledChunks)
    std::free(memory);
  else
    pool.free_.push_back(memory);
}

}  // namespace

void Column::seal() {
  if (!chunks_.empty()) chunks_.back().size = used_;
}

void Column::add_chunk() {
  seal();
  // 16, 128, 1024, then 4096: a file of a million tags stays small, a long series is quick.
  const uint32_t capacity = chunks_.empty() ? kFirstChunk : std::min(kLargeChunk, capacity_ * 8);
  uint8_t* memory;
  if (capacity == kLargeChunk) {
    memory = pool.take();
  } else {
    Array<uint8_t> small;
    resize_array(small, capacity * kPointBytes);
    memory = small.release();
  }
  chunks_.push_back({memory, capacity, 0, is_double_});
  steps_ = chunks_.back().steps();
  wall_times_ = chunks_.back().wall_times();
  values_ = chunks_.back().values();
  used_ = 0;
  capacity_ = capacity;
}

void Column::push_slow(int64_t step, double wall_time, double value, bool is_double) {
  const bool widens = is_double && !is_double_;
  if (widens) is_double_ = true;
  if (used_ == capacity_ || widens) add_chunk();
  steps_[used_] = step;
  wall_times_[used_] = wall_time;
  if (is_double_)
    values_[used_] = value;
  else
    reinterpret_cast<float*>(values_)[used_] = static_cast<float>(value);
  ++used_;
}

void Column::purge(int64_t step) {
  seal();
  for (Chunk& chunk : chunks_) {
    int64_t* const steps = chunk.steps();
    auto* const floats = reinterpret_cast<float*>(chunk.values());
    uint32_t kept = 0;
    for (uint32_t i = 0; i < chunk.size; ++i) {
      if (steps[i] >= step) continue;
      steps[kept] = steps[i];
      chunk.wall_times()[kept] = chunk.wall_times()[i];
      if (chunk.is_double)
        chunk.values()[kept] = chunk.values()[i];
      else
        floats[kept] = floats[i];
      ++kept;
    }
    chunk.size = kept;
  }
  if (!chunks_.empty()) used_ = chunks_.back().size;
}

// Whether steps are first, first + stride, first + 2 stride, …; the column is sealed.
bool Column::steps_are_even(int64_t& first, int64_t& stride) const {
  bool has_first = false, has_stride = false;
  uint64_t expected = 0;  // unsigned: may wrap around
  for (const Chunk& chunk : chunks_) {
    const int64_t* const steps = chunk.steps();
    uint32_t i = 0;
    for (; i < chunk.size && !has_stride; ++i) {
      if (has_first) {
        stride =
            static_cast<int64_t>(static_cast<uint64_t>(steps[i]) - static_cast<uint64_t>(first));
        has_stride = true;
      } else {
        first = steps[i];
        has_first = true;
      }
      expected = static_cast<uint64_t>(steps[i]) + static_cast<uint64_t>(stride);
    }
    bool even = true;
    const uint32_t from = i;
    for (; i < chunk.size; ++i)
      even &=
          static_cast<uint64_t>(steps[i]) == expected + (i - from) * static_cast<uint64_t>(stride);
    if (!even) return false;
    expected += (chunk.size - from) * static_cast<uint64_t>(stride);
  }
  return true;
}

// The least bits of each block of wall times; empty if one spans more than 32 bits can tell, or if
// there are so few points that it does not pay. The column is sealed.
std::vector<uint64_t> Column::block_bases(size_t size) const {
  std::vector<uint64_t> bases;
  if (size < Points::kBlock) return bases;
  bases.reserve((size + Points::kBlock - 1) / Points::kBlock);
  uint64_t least = std::numeric_limits<uint64_t>::max(), most = 0;
  size_t left = Points::kBlock;
  const auto close = [&] {
    bases.push_back(least);
    const bool fits = most - least <= std::numeric_limits<uint32_t>::max();
    least = std::numeric_limits<uint64_t>::max();
    most = 0;
    left = Points::kBlock;
    return fits;
  };
  for (const Chunk& chunk : chunks_) {
    const double* wall_times = chunk.wall_times();
    for (uint32_t i = 0; i < chunk.size;) {
      const auto end = static_cast<uint32_t>(std::min<size_t>(chunk.size, i + left));
      left -= end - i;
      for (; i < end; ++i) {
        const auto bits = std::bit_cast<uint64_t>(wall_times[i]);
        least = std::min(least, bits);
        most = std::max(most, bits);
      }
      if (left == 0 && !close()) return {};
    }
  }
  if (left < Points::kBlock && !close()) return {};
  return bases;
}

size_t Points::bytes() const {
  const size_t wall_times_bytes =
      wall_times != nullptr ? size * sizeof(double)
                            : size * sizeof(uint32_t) + (size + kBlock - 1) / kBlock * 8;
  return size * ((steps != nullptr ? 8 : 0) + (doubles != nullptr ? 8 : 4)) + wall_times_bytes;
}

Column::Packing Column::plan() {
  seal();
  Packing packing;
  for (const Chunk& chunk : chunks_) packing.size += chunk.size;
  packing.is_even = steps_are_even(packing.first_step, packing.stride);
  packing.bases = block_bases(packing.size);
  const size_t point_bytes = (packing.is_even ? 0 : sizeof(int64_t)) +
                             (packing.bases.empty() ? sizeof(double) : sizeof(uint32_t)) +
                             (is_double_ ? sizeof(double) : sizeof(float));
  packing.bytes =
      (packing.size * point_bytes + packing.bases.size() * sizeof(uint64_t) + 7) / 8 * 8;
  return packing;
}

Points Column::collect() {
  const Packing packing = plan();
  return collect(packing, allocate_piece(std::max<size_t>(1, packing.bytes)));
}

Points Column::collect(const Packing& packing, std::shared_ptr<uint8_t> memory) {
  const bool even = packing.is_even;
  Points points;
  points.size = packing.size;
  points.first_step = packing.first_step;
  points.stride = packing.stride;
  points.max_step = std::numeric_limits<int64_t>::min();
  points.max_wall_time = -std::numeric_limits<double>::infinity();
  points.memory = std::move(memory);
  // What has to lie at multiples of eight comes first.
  const bool in_blocks = !packing.bases.empty();
  auto* bases = reinterpret_cast<uint64_t*>(points.memory.get());
  auto* wall_times = reinterpret_cast<double*>(bases);
  auto* steps = reinterpret_cast<int64_t*>(bases + (in_blocks ? packing.bases.size() : points.size));
  auto* doubles = reinterpret_cast<double*>(steps + (even ? 0 : points.size));
  auto* offsets = reinterpret_cast<uint32_t*>(doubles + (is_double_ ? points.size : 0));
  auto* floats = reinterpret_cast<float*>(offsets + (in_blocks ? points.size : 0));
  if (in_blocks) {
    std::copy(packing.bases.begin(), packing.bases.end(), bases);
    points.bases = bases;
    points.offsets = offsets;
  } else {
    points.wall_times = wall_times;
  }
  if (!even) points.steps = steps;
  if (is_double_)
    points.doubles = doubles;
  else
    points.floats = floats;
  size_t done = 0;
  for (const Chunk& chunk : chunks_) {
    if (!even) steps = std::copy_n(chunk.steps(), chunk.size, steps);
    if (in_blocks)
      for (uint32_t i = 0; i < chunk.size; ++i, ++done)
        offsets[done] = static_cast<uint32_t>(std::bit_cast<uint64_t>(chunk.wall_times()[i]) -
                                              bases[done / Points::kBlock]);
    else
      wall_times = std::copy_n(chunk.wall_times(), chunk.size, wall_times);
    for (uint32_t i = 0; i < chunk.size; ++i) {
      points.max_step = std::max(points.max_step, chunk.steps()[i]);
      points.max_wall_time = std::max(points.max_wall_time, chunk.wall_times()[i]);
    }
    const auto* narrow = reinterpret_cast<const float*>(chunk.values());
    if (chunk.is_double)
      doubles = std::copy_n(chunk.values(), chunk.size, doubles);
    else if (is_double_)
      doubles = std::copy_n(narrow, chunk.size, doubles);
    else
      floats = std::copy_n(narrow, chunk.size, floats);
  }
  clear();
  return points;
}

void Column::clear() {
  for (const Chunk& chunk : chunks_) {
    if (chunk.capacity == kLargeChunk)
      Pool::give(chunk.memory);
    else
      std::free(chunk.memory);
  }
  chunks_.clear();
  used_ = capacity_ = 0;
}

}  // namespace tbhub
