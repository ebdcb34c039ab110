#include "counters.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "check.h"

namespace tbhub::testing {
namespace {

TEST(counters_count_each_name_from_zero) {
  SharedCounters counters;
  for (int64_t i = 0; i < 10; ++i) {
    CHECK_EQ(counters.next("a"), i);
    CHECK_EQ(counters.next("b"), i);
  }
  CHECK_EQ(counters.next(""), int64_t{0});
  CHECK_EQ(counters.next(""), int64_t{1});
  CHECK_EQ(counters.next(std::string_view("a\0", 2)), int64_t{0});
}

TEST(counters_are_shared_by_forked_processes_and_threads) {
  constexpr int kProcesses = 4, kThreads = 2, kEach = 500;
  constexpr int kAll = kProcesses * kThreads * kEach;
  SharedCounters counters;
  // How often each number was handed out, seen by all processes.
  const size_t size = kAll * sizeof(std::atomic<int>);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  auto* const handed_out = static_cast<std::atomic<int>*>(memory);
  for (int process = 0; process < kProcesses; ++process) {
    if (::fork() != 0) continue;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) ++handed_out[counters.next("shared")];
      });
    for (std::thread& thread : threads) thread.join();
    ::_exit(0);
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = -1;
    ::wait(&status);
    CHECK_EQ(status, 0);
  }
  CHECK_EQ(counters.next("shared"), int64_t{kAll});
  for (int i = 0; i < kAll; ++i) CHECK_EQ(handed_out[i].load(), 1);
  ::munmap(memory, size);
}

#if !defined(__SANITIZE_THREAD__)  // slow there, and one thread only
TEST(counters_say_when_they_are_full) {
  SharedCounters counters;
  for (size_t i = 0; i < SharedCounters::kSlots; ++i)
    CHECK_EQ(counters.next("tag " + std::to_string(i)), int64_t{0});
  CHECK_THROWS(std::length_error, counters.next("one too many"));
  CHECK_EQ(counters.next("tag 0"), int64_t{1});
}
#endif

}  // namespace
}  // namespace tbhub::testing
