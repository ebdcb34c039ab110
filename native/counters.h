// Counters by name that a process shares with the processes forked from it.
//
// A fixed table in shared memory, filled by compare-and-swap: no lock that a killed process could
// leave taken. Names are told apart by a 64-bit hash.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tbhub {

class SharedCounters {
 public:
  static constexpr size_t kSlots = 1 << 16;

  SharedCounters();   // throws std::system_error
  ~SharedCounters();
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  // 0 for the first call with a name in any of the processes, then 1, 2, …; throws
  // std::length_error when there are more names than slots.
  int64_t next(std::string_view name);

 private:
  struct Slot {
    std::atomic<uint64_t> hash;
    std::atomic<int64_t> count;
  };
  Slot* slots_;
};

}  // namespace tbhub
