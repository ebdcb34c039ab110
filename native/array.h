// Plain arrays: memory that grows by realloc, and finished arrays packed into large blocks.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace tbhub {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
using Array = std::unique_ptr<T[], FreeDeleter>;

template <class T>
void resize_array(Array<T>& array, size_t count) {
  void* moved = std::realloc(array.get(), count * sizeof(T));
  if (moved == nullptr && count > 0) throw std::bad_alloc();
  (void)array.release();
  array.reset(static_cast<T*>(moved));
}

// Memory for an array that keeps its size, shared with whoever holds the pointer.
//
// Decoding's cost is mostly the first touch of the memory it fills. Large pieces are therefore
// cut one after the other from blocks backed by huge pages, which fault 512 times less often. A
// block lives as long as any of its pieces; small pieces come from malloc, so that they pin
// nothing.
std::shared_ptr<uint8_t> allocate_piece(size_t size);

}  // namespace tbhub
