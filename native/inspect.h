// What is wrong with an event file, and its good records written out anew.
#pragma once

#include <cstdint>

#include "decoder.h"

namespace tbhub {

struct Inspection {
  uint64_t size = 0;         // bytes read
  uint64_t good_events = 0;  // records that are whole, sound, and events
  uint64_t saved_events =
      0;  // events behind a bad length whose own crc proves them; not in good_events
  DamageList damages;
};

// Reads the file at `path` once, to its end. Where `out` is a file descriptor (not -1), every good
// and saved record is written to it with fresh framing. Throws std::system_error.
Inspection inspect_file(const char* path, int out);

}  // namespace tbhub
