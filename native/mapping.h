// A part of a file as memory, read when touched.
//
// Only for files that nobody shortens: a map of a file that shrinks kills the process. No descriptor
// stays open.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "file.h"

namespace tbhub {

class Mapping {
 public:
  Mapping(const char* path, uint64_t offset, size_t size) : size_(size) {
    File file(path);
    // Touching what lies behind the end would kill the process.
    if (offset > file.size() || size > file.size() - offset)
      throw std::system_error(EINVAL, std::generic_category(), path);
    if (size == 0) return;
    const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    before_ = offset % page;
    void* const at = ::mmap(nullptr, before_ + size, PROT_READ, MAP_SHARED, file.descriptor(),
                            static_cast<off_t>(offset - before_));
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
    start_ = static_cast<uint8_t*>(at);
  }
  ~Mapping() {
    if (start_ != nullptr) ::munmap(start_, before_ + size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const uint8_t* data() const { return start_ + before_; }
  size_t size() const { return size_; }

 private:
  uint8_t* start_ = nullptr;
  size_t before_ = 0;  // a map begins at a page
  size_t size_ = 0;
};

}  // namespace tbhub
