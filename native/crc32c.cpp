#include "crc32c.h"

#include <array>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tbhub {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i)
      tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();

bool has_crc_instruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_CRC32;
#else
  return false;
#endif
}

}  // namespace

const bool kHasCrcInstruction = has_crc_instruction();

uint32_t crc32c_update_portable(uint32_t running, const uint8_t* data, size_t size) {
  uint32_t crc = running;
  for (; size >= 8; data += 8, size -= 8) {
    const uint32_t low = crc ^ (uint32_t(data[0]) | uint32_t(data[1]) << 8 |
                                uint32_t(data[2]) << 16 | uint32_t(data[3]) << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][data[4]] ^ kTables[2][data[5]] ^ kTables[1][data[6]] ^
          kTables[0][data[7]];
  }
  for (; size; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 0xff];
  return crc;
}

const char* crc32c_implementation() {
#if defined(TBHUB_CRC_INSTRUCTION)
  if (kHasCrcInstruction) return TBHUB_CRC_INSTRUCTION;
#endif
  return "portable";
}

}  // namespace tbhub
