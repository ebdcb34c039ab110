// What the fuzzers share: how they fail, and a mutator that knows records.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "message.h"
#include "record.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tbhub::fuzz {

#define REQUIRE(condition)                                                         \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

using Random = std::minstd_rand;

// A record that some writer might well put next.
inline std::string likely_record(Random& random) {
  using namespace testing;
  static const char* const tags[] = {"a", "b", "loss", ""};
  const char* const tag = tags[random() % 4];
  const int64_t step = static_cast<int64_t>(random() % 20) - 2;
  const double wall_time = static_cast<double>(random() % 5);
  switch (random() % 8) {
    case 0:
      return record_of(version_event(random() % 2 ? "brain.Event:1" : "brain.Event:2"));
    case 1:
      return record_of(session_start_event(step));
    case 2:
      return header_for(random() % 300);
    case 3:
      return record_of(value_event(wall_time, step, Message().bytes(1, tag).bytes(4, "")));
    case 4:
    case 5:
      return record_of(double_event(wall_time, step, tag, 0.1));
    default:
      return record_of(scalar_event(wall_time, step, tag, 0.5f));
  }
}

// Mutates bytes that are records. Bytes changed blindly fail their crc and tell little, so most of
// the time one record's data is changed and framed anew, or whole records come, go and move.
inline size_t mutate_records(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> pieces;  // records, and what stands between them
  for (size_t at = 0; at < size;) {
    const size_t piece = scan_record(data + at, size - at, true).size;
    pieces.emplace_back(reinterpret_cast<const char*>(data + at), piece);
    at += piece;
  }
  const size_t place = pieces.empty() ? 0 : random() % pieces.size();
  const auto here = pieces.begin() + static_cast<ptrdiff_t>(place);
  const unsigned choice = pieces.empty() ? 0 : random() % 8;
  if (choice < 2) {
    pieces.insert(here, likely_record(random));
  } else if (choice == 2) {
    pieces.erase(here);
  } else if (choice == 3) {
    const std::string copy = pieces[random() % pieces.size()];
    pieces.insert(here, copy);
  } else if (here->size() >= kFrameSize) {
    std::string content = here->substr(kHeaderSize, here->size() - kFrameSize);
    const size_t before = content.size();
    content.resize(before + 64);
    content.resize(
        LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(content.data()), before, content.size()));
    *here = testing::record_of(content);
  }
  std::string whole;
  for (const std::string& piece : pieces) whole += piece;
  if (whole.empty() || whole.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, whole.data(), whole.size());
  return whole.size();
}

}  // namespace tbhub::fuzz
