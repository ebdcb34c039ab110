// Where a writer's records go: a buffer in memory that a background thread empties into a file.
//
// Adding a record is a copy under a lock nobody holds for long. The flusher (flusher.h) writes
// what has gathered every `flush_seconds`, or sooner when much has. What the operating system
// refuses (a full disk, a vanished directory) stays in memory up to kMaxPending bytes and is tried
// again; the record that was cut in two goes on where it stopped, so the file stays whole.
//
// Invariants
//   - Bytes reach a file in the order they were added, each once.
//   - io_ guards file and outgoing bytes, data_ guards incoming bytes; io_ is taken before data_.
//   - After fork the child owns no bytes and no file: what was buffered is the parent's. The
//     child opens a file of its own when it first has something to write.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "encode.h"

namespace tbhub {

using Clock = std::chrono::steady_clock;

// What may wait in memory while the disk refuses, beside as much again that is under way; further
// events are counted and dropped.
constexpr size_t kMaxPending = size_t{64} << 20;
// So much waiting data is written without waiting for the next flush.
constexpr size_t kEagerSize = size_t{256} << 10;

struct SinkError {
  int code = 0;          // errno of the last failed attempt, 0 when all is well
  uint64_t pending = 0;  // events that wait
  uint64_t dropped = 0;  // events given up
  std::string path;      // what could not be opened or written
};

double wall_clock();

class Sink : public std::enable_shared_from_this<Sink> {
 public:
  // A sink into new event files in `directory`, whose names end in `suffix`. With an empty
  // directory the sink only gathers, and take() hands out the bytes.
  static std::shared_ptr<Sink> create(std::string directory, std::string suffix,
                                      double flush_seconds, uint64_t max_queue);
  ~Sink();

  // Opens the first file; throws std::system_error when that cannot be done.
  void open();

  // Each adds one event. They fail only when memory does; trouble with the file shows in error().
  void add_scalar(double wall_time, int64_t step, std::string_view tag, float value);
  void add_summary(double wall_time, int64_t step, std::string_view summary);
  void add_record(std::string_view event);
  void add_session_start(int64_t step);

  // A whole series at once; null steps count up from zero, null wall times mean now.
  void add_scalars(std::string_view tag, const double* values, const int64_t* steps,
                   const double* wall_times, size_t count);

  // Writes everything added so far. True when nothing is left; see error() otherwise.
  bool flush();

  // Flushes and closes the file. A later event opens a new one. Where the flush fails the sink
  // stays open and goes on trying.
  bool close();

  // For a gathering sink: the bytes since the last call.
  ByteBuffer take();

  SinkError error();
  bool troubled() const { return troubled_.load(std::memory_order_relaxed); }
  bool is_closed();
  std::string path();
  uint64_t pending_events();
  size_t pending_bytes();  // not yet on their way

  // For the flusher: when to flush next; max() when there is nothing to do.
  Clock::time_point deadline();

  // For fork(): the parent takes both locks before and gives them back after.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  Sink(std::string directory, std::string suffix, double flush_seconds, uint64_t max_queue);

  template <class Append>
  void add(uint64_t events, Append append);
  bool drain();
  bool write_outgoing();
  void open_file();
  bool owns_descriptor(struct stat& status) const;
  bool file_is_gone() const;
  void close_file();
  uint64_t waiting_events() const;
  void set_error(int code, const std::string& path);

  const std::string directory_;
  const std::string suffix_;
  const Clock::duration flush_after_;
  const uint64_t max_queue_;  // 0: no bound by number

  std::mutex data_;
  ByteBuffer incoming_;
  uint64_t incoming_events_ = 0;
  uint64_t dropped_ = 0;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool woken_ = false;

  std::mutex io_;
  ByteBuffer outgoing_;
  uint64_t outgoing_events_ = 0;
  size_t version_size_ = 0;  // of the version record that outgoing_ begins with, if it does
  size_t written_ = 0;       // of outgoing_
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string path_;
  int error_code_ = 0;
  std::string error_path_;
  std::atomic<bool> troubled_{false};
  bool closed_ = false;
};

}  // namespace tbhub
