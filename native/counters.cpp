#include "counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace tbhub {
namespace {

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  hash ^= hash >> 32;
  hash *= 0x9e3779b97f4a7c15u;
  hash ^= hash >> 29;
  return hash ? hash : 1;  // 0 marks an empty slot
}

}  // namespace

SharedCounters::SharedCounters(const std::string& path) {
  constexpr size_t kSize = kSlots * sizeof(Slot);
  const auto fail = [&](const char* what) {
    const int code = errno;
    if (fd_ >= 0) ::close(fd_);
    throw std::system_error(code, std::generic_category(), what);
  };
  fd_ = path.empty() ? ::memfd_create("tbhub-counters", MFD_CLOEXEC)
                     : ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) fail("shared counters");
  struct stat status;
  if (path.empty() && ::ftruncate(fd_, kSize) != 0) fail("shared counters");
  if (::fstat(fd_, &status) != 0) fail("shared counters");
  if (status.st_size != static_cast<off_t>(kSize)) {
    errno = EINVAL;
    fail("not counters of ours");
  }
  void* memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) fail("shared counters");
  slots_ = static_cast<Slot*>(memory);  // zero bytes are empty slots
  inode_ = status.st_ino;
}

SharedCounters::~SharedCounters() {
  ::munmap(slots_, kSlots * sizeof(Slot));
  struct stat status;  // the program may have closed our descriptor and opened its own
  if (::fstat(fd_, &status) == 0 && status.st_ino == inode_) ::close(fd_);
}

std::string SharedCounters::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_);
}

int64_t SharedCounters::next(std::string_view name) {
  const uint64_t hash = hash_name(name);
  for (size_t probe = 0; probe < kSlots; ++probe) {
    Slot& slot = slots_[(hash + probe) % kSlots];
    uint64_t seen = 0;
    if (slot.hash.compare_exchange_strong(seen, hash) || seen == hash) return slot.count++;
  }
  throw std::length_error("a GlobalSummaryWriter counts at most 65536 tags");
}

}  // namespace tbhub
