#include "flusher.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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

// Never destroyed: the thread and signal handlers may outlive static destruction.
struct State {
  std::mutex lock;
  std::vector<std::shared_ptr<Sink>> sinks;
};
State& state() {
  static State* const instance = new State;
  return *instance;
}

// Signal handlers read these, so they are plain and lock-free.
std::atomic<int> wake_fd{-1};
std::atomic<int> sleep_fd{-1};
std::atomic<bool> running{false};
std::atomic<int> ending_signal{0};

std::vector<std::shared_ptr<Sink>> all_sinks() {
  std::lock_guard lock(state().lock);
  return state().sinks;
}

void poke() {
  const char byte = 0;
  const int fd = wake_fd.load(std::memory_order_relaxed);
  // A full pipe means that the thread has been woken already.
  if (fd >= 0) (void)!::write(fd, &byte, 1);
}

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
  if (running && ending_signal.compare_exchange_strong(none, signal)) poke();
  else deliver(signal);
  errno = saved;
}

void watch_signals() {
  for (const int signal : kSignals) {
    struct sigaction current = {};
    if (::sigaction(signal, nullptr, &current) != 0) continue;
    if ((current.sa_flags & SA_SIGINFO) || current.sa_handler != SIG_DFL) continue;
    struct sigaction ours = {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_RESTART;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(signal, &ours, nullptr);
  }
}

void sleep_until(Clock::time_point deadline) {
  int timeout = -1;
  if (deadline != Clock::time_point::max()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
  }
  pollfd waiting = {sleep_fd, POLLIN, 0};
  if (::poll(&waiting, 1, timeout) > 0) {
    char bytes[64];
    while (::read(sleep_fd, bytes, sizeof bytes) == sizeof bytes) {
    }
  }
}

void run() {
  for (;;) {
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
      return;
    }
    sleep_until(next);
  }
}

// Holds state().lock.
void start() {
  int ends[2];
  if (::pipe(ends) != 0) return;  // flush() and exit still write everything
  for (const int end : ends) {
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  sleep_fd = ends[0];
  wake_fd = ends[1];
  // The thread takes no signals, so that a handler never interrupts it while it holds a lock.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(run).detach();
    running = true;
  } catch (const std::system_error&) {  // no thread to be had: as above
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (running) watch_signals();
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
  running = false;
  ending_signal = 0;
  if (const int fd = wake_fd.exchange(-1); fd >= 0) ::close(fd);
  if (const int fd = sleep_fd.exchange(-1); fd >= 0) ::close(fd);
  state().lock.unlock();
}

void flush_at_exit() { flush_all(); }

void prepare_process() {
  static std::once_flag once;
  std::call_once(once, [] {
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
  if (!running) start();
}

void remove(const Sink* sink) {
  std::lock_guard lock(state().lock);
  std::erase_if(state().sinks, [&](const auto& each) { return each.get() == sink; });
}

void wake() {
  if (!running) [[unlikely]] {
    std::lock_guard lock(state().lock);
    if (!running) start();
  }
  poke();
}

size_t flush_all() {
  size_t stuck = 0;
  for (const auto& sink : all_sinks()) stuck += !sink->flush();
  return stuck;
}

}  // namespace tbhub::flusher
