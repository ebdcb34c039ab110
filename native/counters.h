// Counters by name that processes share.
//
// A fixed table in shared memory, filled by compare-and-swap: no lock that a killed process could
// leave taken. Names are told apart by a 64-bit hash. Forked processes share it by themselves; any
// other process of the same user can open it by path() while one that has it lives, and nothing
// is left behind when the last one ends.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace tbhub {

class SharedCounters {
 public:
  static constexpr size_t kSlots = 1 << 16;

  // New counters, or with a path those of another process. Throws std::system_error.
  explicit SharedCounters(const std::string& path = "");
  ~SharedCounters();
  SharedCounters(const SharedCounters&) = delete;
  SharedCounters& operator=(const SharedCounters&) = delete;

  // 0 for the first call with a name in any of the processes, then 1, 2, …; throws
  // std::length_error when there are more names than slots.
  int64_t next(std::string_view name);

  std::string path() const;

 private:
  struct Slot {
    std::atomic<uint64_t> hash;
    std::atomic<int64_t> count;
  };
  int fd_;
  ino_t inode_;
  Slot* slots_;
};

}  // namespace tbhub
