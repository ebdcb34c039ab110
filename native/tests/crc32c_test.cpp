#include "crc32c.h"

#include <string>

#include "check.h"
#include "message.h"

namespace tbhub::testing {
namespace {

uint32_t portable(const uint8_t* data, size_t size) {
  return ~crc32c_update_portable(~0u, data, size);
}

struct Vector {
  std::string data;
  uint32_t crc;
};

std::vector<Vector> known_vectors() {
  std::string up(32, '\0'), down(32, '\0');
  for (int i = 0; i < 32; ++i) {
    up[static_cast<size_t>(i)] = static_cast<char>(i);
    down[static_cast<size_t>(i)] = static_cast<char>(31 - i);
  }
  return {
      // RFC 3720, B.4, and the catalogue's check value
      {"", 0},
      {"123456789", 0xe3069283u},
      {"a", 0xc1d04330u},
      {std::string(32, '\0'), 0x8a9136aau},
      {std::string(32, '\xff'), 0x62a8ab43u},
      {up, 0x46dd794eu},
      {down, 0x113fdb5cu},
  };
}

TEST(crc_of_known_vectors) {
  for (const auto& [data, crc] : known_vectors()) {
    CHECK_EQ(crc32c(data_of(data), data.size()), crc);
    CHECK_EQ(portable(data_of(data), data.size()), crc);
  }
}

TEST(crc_mask_of_known_values) {
  CHECK_EQ(mask_crc(0), 0xa282ead8u);
  const std::string header("\x18\0\0\0\0\0\0\0", 8);  // of a file that TensorFlow wrote
  CHECK_EQ(masked_crc32c(data_of(header), 8), 0x224b7fa3u);
}

TEST(crc_is_the_same_portable_and_by_instruction) {
  Random random(1);
  const std::string bytes = random.bytes(4096 + 64);
  for (size_t length = 0; length < 200; ++length)
    for (size_t alignment = 0; alignment < 8; ++alignment)
      CHECK_EQ(crc32c(data_of(bytes) + alignment, length),
               portable(data_of(bytes) + alignment, length));
  for (int i = 0; i < 1000; ++i) {
    const size_t alignment = random.below(64), length = random.below(4096);
    CHECK_EQ(crc32c(data_of(bytes) + alignment, length),
             portable(data_of(bytes) + alignment, length));
  }
}

TEST(crc_goes_on_where_it_stopped) {
  Random random(2);
  const std::string bytes = random.bytes(300);
  const uint32_t whole = crc32c(data_of(bytes), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = crc32c(data_of(bytes), cut);
    CHECK_EQ(crc32c(data_of(bytes) + cut, bytes.size() - cut, first), whole);
  }
}

TEST(crc_implementation_has_a_name) {
  const std::string name = crc32c_implementation();
  CHECK(name == "sse4.2" || name == "armv8" || name == "portable");
  CHECK_EQ(name != "portable", kHasCrcInstruction);
}

}  // namespace
}  // namespace tbhub::testing
