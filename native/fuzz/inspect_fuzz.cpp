// Any file: what is repaired is sound, and holds every event that could be read.
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "inspect.h"

using namespace tbhub;

namespace {

// Made once: a file in memory for each run would be slow.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    REQUIRE(fd_ >= 0);
  }
  void fill(const uint8_t* data, size_t size) {
    REQUIRE(::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0);
    REQUIRE(::write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  int fd() const { return fd_; }
  const char* path() const { return path_.c_str(); }

 private:
  int fd_;
  std::string path_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return fuzz::mutate_records(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file, repaired;
  static const uint8_t nothing = 0;
  file.fill(size > 0 ? data : &nothing, size);
  repaired.fill(&nothing, 0);
  const Inspection found = inspect_file(file.path(), repaired.fd());
  REQUIRE(found.size == size);
  const uint64_t events = found.good_events + found.saved_events;

  // A decoder waits where an inspection, at the end, decides; before that they agree.
  Decoder decoder;
  decoder.feed(data, size);
  REQUIRE(decoder.events() <= events);
  const auto& spans = decoder.damages().spans;
  REQUIRE(spans.size() <= found.damages.spans.size());
  for (size_t i = 0; i + 1 < spans.size(); ++i)
    REQUIRE(spans[i].offset == found.damages.spans[i].offset &&
            spans[i].size == found.damages.spans[i].size &&
            spans[i].kind == found.damages.spans[i].kind);

  const Inspection again = inspect_file(repaired.path(), -1);
  REQUIRE(again.good_events == events);
  REQUIRE(again.saved_events == 0);
  REQUIRE(again.damages.spans.empty());
  return 0;
}
