#include "array.h"

#include <sys/mman.h>

namespace tbhub {
namespace {

constexpr size_t kSmallPiece = size_t{32} << 10;
constexpr size_t kBlockSize = size_t{8} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

// One mapping, aligned to huge pages.
class Block {
 public:
  explicit Block(size_t size) : mapped_(size + kHugePage) {
    base_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(base_);
    start_ = reinterpret_cast<uint8_t*>((address + kHugePage - 1) & ~(kHugePage - 1));
#if defined(MADV_HUGEPAGE)
    ::madvise(start_, size, MADV_HUGEPAGE);
#endif
  }
  ~Block() { ::munmap(base_, mapped_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* start() const { return start_; }

 private:
  void* base_;
  size_t mapped_;
  uint8_t* start_;
};

// Each thread fills a block of its own: no lock, which a fork could leave taken.
thread_local std::weak_ptr<Block> current;  // weak: the last piece to go takes the block with it
thread_local size_t used = 0;

}  // namespace

std::shared_ptr<uint8_t> allocate_piece(size_t size) {
  if (size < kSmallPiece) {
    Array<uint8_t> small;
    resize_array(small, size);
    return {small.release(), FreeDeleter{}};
  }
  size = (size + kAlignment - 1) & ~(kAlignment - 1);
  if (size > kBlockSize / 2) {
    auto own = std::make_shared<Block>(size);
    return {own, own->start()};
  }
  std::shared_ptr<Block> block = current.lock();
  if (!block || used + size > kBlockSize) {
    block = std::make_shared<Block>(kBlockSize);
    current = block;
    used = 0;
  }
  uint8_t* const piece = block->start() + used;
  used += size;
  return {block, piece};
}

}  // namespace tbhub
