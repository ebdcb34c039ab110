// CRC-32C (Castagnoli), the checksum of TFRecord files.
//
// The processor's own instruction (SSE4.2, ARMv8 CRC) is used where it is found at run time;
// elsewhere eight tables do the work. All agree bit for bit. The instruction is written as
// assembly so that it can be inlined into loops of a kernel built for any processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tbhub {

// Whether this processor has the instruction.
extern const bool kHasCrcInstruction;

// The implementation that runs anywhere. Crcs here are in their inverted, running form.
uint32_t crc32c_update_portable(uint32_t running, const uint8_t* data, size_t size);

#if defined(__x86_64__)
#define TBHUB_CRC_INSTRUCTION "sse4.2"
inline void crc32c_step8(uint64_t& running, uint64_t word) {
  asm("crc32q %1, %0" : "+r"(running) : "rm"(word));
}
inline void crc32c_step1(uint64_t& running, uint8_t byte) {
  asm("crc32b %1, %k0" : "+r"(running) : "rm"(byte));
}
#elif defined(__aarch64__)
#define TBHUB_CRC_INSTRUCTION "armv8"
inline void crc32c_step8(uint64_t& running, uint64_t word) {
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(running) : "r"(word));
}
inline void crc32c_step1(uint64_t& running, uint8_t byte) {
  asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(running) : "r"(uint32_t{byte}));
}
#endif

inline uint32_t crc32c_update(uint32_t running, const uint8_t* data, size_t size) {
#if defined(TBHUB_CRC_INSTRUCTION)
  if (kHasCrcInstruction) [[likely]] {
    uint64_t state = running;
    for (; size >= 8; data += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, data, 8);
      crc32c_step8(state, word);
    }
    for (; size; ++data, --size) crc32c_step1(state, *data);
    return static_cast<uint32_t>(state);
  }
#endif
  return crc32c_update_portable(running, data, size);
}

inline uint32_t crc32c(const uint8_t* data, size_t size, uint32_t crc = 0) {
  return ~crc32c_update(~crc, data, size);
}

// TFRecord stores a rotated crc, so that a crc of bytes that hold a crc stays strong.
inline uint32_t mask_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

inline uint32_t masked_crc32c(const uint8_t* data, size_t size) {
  return mask_crc(crc32c(data, size));
}

// "sse4.2", "armv8" or "portable".
const char* crc32c_implementation();

}  // namespace tbhub
