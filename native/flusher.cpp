#include "flusher.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "sink.h"

namespace tbhub::flusher {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGHUP, SIGXCPU};

// Waiting by a clock that nobody sets needs glibc 2.30; elsewhere a clock set back makes one flush
// late.
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 30)
#define TBHUB_HAS_CLOCKWAIT
#endif
#endif
#if defined(TBHUB_HAS_CLOCKWAIT)
constexpr clockid_t kSleepClock = CLOCK_MONOTONIC;
int sleep_on(sem_t& semaphore, const timespec& until) {
  return ::sem_clockwait(&semaphore, kSleepClock, &until);
}
#else
constexpr clockid_t kSleepClock = CLOCK_REALTIME;
int sleep_on(sem_t& semaphore, const timespec& until) {
  return ::sem_timedwait(&semaphore, &until);
}
#endif

// Never destroyed: the thread and signal handlers may outlive static destruction.
struct State {
  std::mutex lock;
  std::vector<std::shared_ptr<Sink>> sinks;
};
State& state() {
  static State* const instance = new State;
  return *instance;
}

// What wakes the thread: a semaphore, as signal handlers may post it, and unlike a pipe it has no
// descriptor that a program which closes all of them could close or take for its own.
sem_t wake_up;
// Signal handlers read these, so they are lock-free. The process whose thread runs: a child just
// forked has its parent's number here, and no thread.
std::atomic<pid_t> runner{0};
std::atomic<int> ending_signal{0};

std::vector<std::shared_ptr<Sink>> all_sinks() {
  std::lock_guard lock(state().lock);
  return state().sinks;
}

void poke() { ::sem_post(&wake_up); }

// Does what the system would have done with the signal.
void deliver(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::kill(::getpid(), signal);
}

void on_signal(int signal) {
  const int saved = errno;
  int none = 0;
  // The second signal, or one in a process without the thread, does not wait for anything.
  if (runner == ::getpid() && ending_signal.compare_exchange_strong(none, signal))
    poke();
  else
    deliver(signal);
  errno = saved;
}

// Again and again: a program may put a handler in and take it out, which leaves the default.
void watch_signals() {
  for (const int signal : kSignals) {
    struct sigaction current = {};
    if (::sigaction(signal, nullptr, &current) != 0) continue;
    if ((current.sa_flags & SA_SIGINFO) || current.sa_handler != SIG_DFL) continue;
    struct sigaction ours = {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_RESTART;
    ::sigemptyset(&ours.sa_mask);
    // A handler the program has put in since we looked goes back.
    if (::sigaction(signal, &ours, &current) == 0 && current.sa_handler != SIG_DFL &&
        current.sa_handler != on_signal)
      ::sigaction(signal, &current, nullptr);
  }
}

void sleep_until(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) {
    ::sem_wait(&wake_up);
  } else {
    const std::chrono::nanoseconds wait = deadline - Clock::now();
    const auto left = std::max<int64_t>(0, wait.count());
    timespec until;
    ::clock_gettime(kSleepClock, &until);
    until.tv_sec += left / 1'000'000'000;
    until.tv_nsec += left % 1'000'000'000;
    if (until.tv_nsec >= 1'000'000'000) {
      ++until.tv_sec;
      until.tv_nsec -= 1'000'000'000;
    }
    sleep_on(wake_up, until);
  }
  while (::sem_trywait(&wake_up) == 0) {  // several calls are one
  }
}

void run() {
  for (;;) {
    watch_signals();
    const auto sinks = all_sinks();
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    for (const auto& sink : sinks) {
      if (ending_signal == 0 && sink->deadline() <= now) sink->flush();
      next = std::min(next, sink->deadline());
    }
    if (const int signal = ending_signal) {
      flush_all();
      deliver(signal);
      // Still here: the first process of a container is not ended by default actions, and a
      // signal may be blocked. Go on writing, once the signal cannot be the one just sent.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      ending_signal = 0;
      continue;
    }
    sleep_until(next);
  }
}

// Holds state().lock.
void start() {
  // The thread takes no signals, so that a handler never interrupts it while it holds a lock.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(run).detach();
    runner = ::getpid();
  } catch (const std::system_error&) {  // no thread to be had: flush() and exit still write
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (runner != 0) watch_signals();  // not only once the thread runs
}

void before_fork() {
  state().lock.lock();
  for (const auto& sink : state().sinks) sink->before_fork();
}

void after_fork_in_parent() {
  for (const auto& sink : state().sinks) sink->after_fork_in_parent();
  state().lock.unlock();
}

void after_fork_in_child() {
  for (const auto& sink : state().sinks) sink->after_fork_in_child();
  runner = 0;
  write_through = false;
  ending_signal = 0;
  ::sem_init(&wake_up, 0, 0);
  state().lock.unlock();
}

void flush_at_exit() { flush_all(); }

void prepare_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::sem_init(&wake_up, 0, 0);
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    std::atexit(flush_at_exit);  // after Python's own end: daemon threads may have added more
  });
}

}  // namespace

void add(const std::shared_ptr<Sink>& sink) {
  prepare_process();
  std::lock_guard lock(state().lock);
  auto& sinks = state().sinks;
  if (std::find(sinks.begin(), sinks.end(), sink) == sinks.end()) sinks.push_back(sink);
  if (runner == 0) start();
}

void remove(const Sink* sink) {
  std::lock_guard lock(state().lock);
  std::erase_if(state().sinks, [&](const auto& each) { return each.get() == sink; });
}

void wake() {
  if (runner == 0) [[unlikely]] {
    std::lock_guard lock(state().lock);
    if (runner == 0) start();
  }
  poke();
}

size_t flush_all() {
  size_t stuck = 0;
  for (const auto& sink : all_sinks()) stuck += !sink->flush();
  return stuck;
}

}  // namespace tbhub::flusher
