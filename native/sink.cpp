#include "sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "flusher.h"
#include "record.h"

namespace tbhub {
namespace {

// Buffers that grew beyond this are given back once they are empty.
constexpr size_t kKeptBuffer = size_t{4} << 20;
// How much of a batch is added between two looks at how full the buffer is.
constexpr size_t kBatchBytes = size_t{1} << 20;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "localhost";
  std::string host(name);
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

// events.out.tfevents.<seconds>.<host>.<pid>.<number><suffix>: sorted by name is sorted by time
// of opening, within one process even inside one second.
std::string file_name(const std::string& suffix, uint64_t number) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%05llu", static_cast<unsigned long long>(number));
  return "events.out.tfevents." + std::to_string(static_cast<long long>(wall_clock())) + "." +
         host_name() + "." + std::to_string(::getpid()) + "." + digits + suffix;
}

std::atomic<uint64_t> files_opened{0};

}  // namespace

double wall_clock() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Sink::Sink(std::string directory, std::string suffix, double flush_seconds, uint64_t max_queue)
    : directory_(std::move(directory)),
      suffix_(std::move(suffix)),
      flush_after_(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(flush_seconds > 0 ? std::min(flush_seconds, 1e9) : 0))),
      max_queue_(max_queue) {}

std::shared_ptr<Sink> Sink::create(std::string directory, std::string suffix, double flush_seconds,
                                   uint64_t max_queue) {
  std::shared_ptr<Sink> sink(
      new Sink(std::move(directory), std::move(suffix), flush_seconds, max_queue));
  return sink;
}

Sink::~Sink() { close_file(); }

void Sink::open() {
  if (directory_.empty()) return;
  {
    std::lock_guard io(io_);
    open_file();
  }
  flusher::add(shared_from_this());
}

void Sink::open_file() {
  std::filesystem::create_directories(directory_);  // throws filesystem_error, a system_error
  for (;;) {
    std::string path = directory_;
    if (path.back() != '/') path += '/';
    path += file_name(suffix_, files_opened++);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
      fd_ = fd;
      struct stat status = {};
      ::fstat(fd, &status);
      device_ = status.st_dev;
      inode_ = status.st_ino;
      path_ = std::move(path);
      closed_ = false;
      break;
    }
    if (errno != EEXIST) throw std::system_error(errno, std::generic_category(), path);
  }
  // The version comes before whatever waits.
  ByteBuffer with_version;
  append_version(with_version, wall_clock());
  const size_t version_size = with_version.size();
  const size_t left = outgoing_.size() - version_size_;
  if (left > 0) {
    std::memcpy(with_version.reserve(left), outgoing_.data() + version_size_, left);
    with_version.commit(left);
  }
  outgoing_.swap(with_version);
  version_size_ = version_size;
  written_ = 0;
  if (!write_outgoing() && error_code_ != ENOSPC && error_code_ != EDQUOT)
    throw std::system_error(error_code_, std::generic_category(), path_);
}

template <class Append>
void Sink::add(uint64_t events, Append append) {
  bool wake = false, full = false;
  {
    std::lock_guard lock(data_);
    if (incoming_.size() >= kMaxPending && (troubled() || directory_.empty())) {
      dropped_ += events;
      return;
    }
    wake = incoming_.empty();
    if (wake) deadline_ = Clock::now() + flush_after_;
    append(incoming_);
    incoming_events_ += events;
    full = incoming_.size() >= kMaxPending;
    const bool eager =
        incoming_.size() >= kEagerSize || (max_queue_ > 0 && incoming_events_ >= max_queue_);
    if (eager && !woken_ && !troubled()) {
      wake = woken_ = true;
      deadline_ = Clock::now();
    }
  }
  if (directory_.empty()) return;
  if (wake) flusher::wake();
  // The disk is well but slower than the program: let the program wait for it, lose nothing.
  if ((full && !troubled()) || flusher::write_through.load(std::memory_order_relaxed)) flush();
}

void Sink::add_scalar(double wall_time, int64_t step, std::string_view tag, float value) {
  add(1, [&](ByteBuffer& to) { append_scalar(to, wall_time, step, tag, value); });
}

void Sink::add_summary(double wall_time, int64_t step, std::string_view summary) {
  add(1, [&](ByteBuffer& to) { append_summary(to, wall_time, step, summary); });
}

void Sink::add_record(std::string_view event) {
  add(1, [&](ByteBuffer& to) {
    append_record(to, reinterpret_cast<const uint8_t*>(event.data()), event.size());
  });
}

void Sink::add_session_start(int64_t step) {
  add(1, [&](ByteBuffer& to) { append_session_start(to, wall_clock(), step); });
}

void Sink::add_scalars(std::string_view tag, const double* values, const int64_t* steps,
                       const double* wall_times, size_t count) {
  const double now = wall_clock();
  const size_t batch = std::clamp<size_t>(kBatchBytes / (tag.size() + 64), 1, count + 1);
  for (size_t start = 0; start < count; start += batch) {
    const size_t end = std::min(count, start + batch);
    add(end - start, [&](ByteBuffer& to) {
      for (size_t i = start; i < end; ++i)
        append_scalar(to, wall_times ? wall_times[i] : now,
                      steps ? steps[i] : static_cast<int64_t>(i), tag,
                      static_cast<float>(values[i]));
    });
  }
}

bool Sink::flush() {
  std::lock_guard io(io_);
  return drain();
}

// Moves incoming bytes to the file: those that were under way, and those added since. What comes
// in meanwhile has a deadline of its own. Holds io_.
bool Sink::drain() {
  for (int round = 0;; ++round) {
    if (!write_outgoing()) return false;
    if (round == 2) return true;
    std::lock_guard data(data_);
    woken_ = false;
    deadline_ = Clock::time_point::max();
    if (incoming_.empty()) return true;
    outgoing_.clear();
    written_ = 0;
    outgoing_.swap(incoming_);
    outgoing_events_ = std::exchange(incoming_events_, 0);
    if (incoming_.capacity() > kKeptBuffer) incoming_.release();
  }
}

// Writes outgoing_ from where it stopped. Holds io_.
bool Sink::write_outgoing() {
  if (written_ == outgoing_.size()) return true;
  if (fd_ < 0 || file_is_gone()) {
    if (fd_ >= 0) {
      // Deleted or closed under us: what is under way goes into a new file, from its beginning.
      close_file();
      written_ = 0;
    }
    try {
      open_file();  // comes back here with a file
    } catch (const std::system_error& error) {
      set_error(error.code().value(), directory_);
      return false;
    }
    return written_ == outgoing_.size();
  }
  while (written_ < outgoing_.size()) {
    const ssize_t wrote = ::write(fd_, outgoing_.data() + written_, outgoing_.size() - written_);
    if (wrote >= 0) {
      written_ += static_cast<size_t>(wrote);
    } else if (errno != EINTR) {
      set_error(errno, path_);
      return false;
    }
  }
  error_code_ = 0;
  troubled_ = false;
  outgoing_events_ = 0;
  version_size_ = 0;
  if (outgoing_.capacity() > kKeptBuffer)
    outgoing_.release();
  else
    outgoing_.clear();
  written_ = 0;
  return true;
}

// Whether the descriptor is still our file. Programs that turn into daemons close every descriptor,
// and the number may be somebody else's file by now.
bool Sink::owns_descriptor(struct stat& status) const {
  return ::fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

bool Sink::file_is_gone() const {
  struct stat status;
  return !owns_descriptor(status) || status.st_nlink == 0;
}

void Sink::close_file() {
  struct stat status;
  if (fd_ >= 0 && owns_descriptor(status)) ::close(fd_);
  fd_ = -1;
}

// Holds io_. The next attempt comes after the usual time, but not in a tight loop.
void Sink::set_error(int code, const std::string& path) {
  error_code_ = code;
  error_path_ = path;
  troubled_ = true;
  std::lock_guard data(data_);
  woken_ = false;
  deadline_ = Clock::now() + std::max<Clock::duration>(flush_after_, std::chrono::seconds(1));
}

bool Sink::close() {
  std::lock_guard io(io_);
  if (!drain()) return false;
  close_file();
  closed_ = true;
  return true;
}

ByteBuffer Sink::take() {
  ByteBuffer taken;
  std::lock_guard data(data_);
  taken.swap(incoming_);
  incoming_events_ = 0;
  return taken;
}

// Events that are not in the file as a whole. Holds both locks.
uint64_t Sink::waiting_events() const {
  uint64_t written = 0;
  for (size_t end = version_size_; end < written_;) {
    uint64_t size;
    std::memcpy(&size, outgoing_.data() + end, sizeof size);
    end += kFrameSize + size;
    if (end <= written_) ++written;
  }
  return incoming_events_ + outgoing_events_ - written;
}

SinkError Sink::error() {
  std::lock_guard io(io_);
  std::lock_guard data(data_);
  return {error_code_, waiting_events(), dropped_, error_path_};
}

bool Sink::is_closed() {
  std::lock_guard io(io_);
  return closed_;
}

std::string Sink::path() {
  std::lock_guard io(io_);
  return path_;
}

uint64_t Sink::pending_events() {
  std::lock_guard io(io_);
  std::lock_guard data(data_);
  return waiting_events();
}

size_t Sink::pending_bytes() {
  std::lock_guard data(data_);
  return incoming_.size();
}

Clock::time_point Sink::deadline() {
  std::lock_guard data(data_);
  return deadline_;
}

void Sink::before_fork() {
  io_.lock();
  data_.lock();
}

void Sink::after_fork_in_parent() {
  data_.unlock();
  io_.unlock();
}

void Sink::after_fork_in_child() {
  incoming_.release();
  outgoing_.release();
  incoming_events_ = outgoing_events_ = dropped_ = 0;
  written_ = version_size_ = 0;
  deadline_ = Clock::time_point::max();
  woken_ = false;
  close_file();
  path_.clear();
  error_code_ = 0;
  troubled_ = false;
  after_fork_in_parent();
}

}  // namespace tbhub
