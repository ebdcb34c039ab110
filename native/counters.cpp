#include "counters.h"

#include <sys/mman.h>

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

SharedCounters::SharedCounters() {
  void* memory = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "shared memory");
  slots_ = static_cast<Slot*>(memory);  // zero bytes are empty slots
}

SharedCounters::~SharedCounters() { ::munmap(slots_, kSlots * sizeof(Slot)); }

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
