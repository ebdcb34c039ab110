// A file opened for reading, closed when done with. Errors are std::system_error.
//
// Reads are by pread and never by memory map: a map of a file that shrinks kills the process.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace tbhub {

class File {
 public:
  // Only regular files have an end. Opening a named pipe must not wait for a writer.
  explicit File(const char* path) : fd_(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path);
    struct stat status;
    if (::fstat(fd_, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
      size_ = static_cast<uint64_t>(status.st_size);
      return;
    }
    ::close(fd_);
    throw std::system_error(EINVAL, std::generic_category(), path);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return fd_; }
  uint64_t size() const { return size_; }  // when it was opened

  size_t read(uint8_t* to, size_t size, uint64_t offset) {
    for (;;) {
      const ssize_t got = ::pread(fd_, to, size, static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "read");
    }
  }

 private:
  int fd_;
  uint64_t size_ = 0;
};

}  // namespace tbhub
