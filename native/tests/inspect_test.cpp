#include "inspect.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include "check.h"
#include "message.h"

namespace tbhub::testing {
namespace {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes = "") : fd_(::memfd_create("test", MFD_CLOEXEC)) {
    CHECK_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { ::close(fd_); }
  int fd() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

Inspection inspect(const std::string& file, int out = -1) {
  return inspect_file(MemoryFile(file).path().c_str(), out);
}

uint64_t count(const Inspection& found, Damage kind) {
  return found.damages.counts[static_cast<int>(kind)];
}

TEST(inspect_finds_and_repairs) {
  const std::string good = record_of(scalar_event(1, 1, "a", 1));
  std::string bad_header = good, bad_data = good;
  bad_header[9] ^= 1;
  bad_data[20] ^= 1;
  const std::string file = good + bad_header + good + bad_data + good + record_of("\xff") + good +
                           "noise" + good + good.substr(0, 20);
  const MemoryFile out;
  const Inspection found = inspect(file, out.fd());
  CHECK_EQ(found.size, uint64_t{file.size()});
  CHECK_EQ(found.good_events, uint64_t{5});
  CHECK_EQ(found.saved_events, uint64_t{1});
  CHECK_EQ(count(found, Damage::kBadLengthCrc), uint64_t{1});
  CHECK_EQ(count(found, Damage::kBadDataCrc), uint64_t{1});
  CHECK_EQ(count(found, Damage::kNotAnEvent), uint64_t{1});
  CHECK_EQ(count(found, Damage::kGarbage), uint64_t{1});
  CHECK_EQ(count(found, Damage::kTruncated), uint64_t{1});
  const Inspection again = inspect_file(out.path().c_str(), -1);
  CHECK_EQ(again.good_events, uint64_t{6});
  CHECK_EQ(again.size, uint64_t{good.size() * 6});
  CHECK(again.damages.spans.empty());
}

TEST(inspect_of_small_and_strange_files) {
  CHECK_EQ(inspect("").size, uint64_t{0});
  CHECK_EQ(count(inspect("x"), Damage::kTruncated), uint64_t{1});
  CHECK_EQ(count(inspect(std::string(500, '\0')), Damage::kGarbage), uint64_t{1});
  // Garbage longer than any search, which comes in pieces, is one damage.
  const Inspection zeros = inspect(std::string(size_t{9} << 20, '\0') + record_of(""));
  CHECK_EQ(zeros.damages.spans.size(), size_t{1});
  CHECK_EQ(zeros.good_events, uint64_t{1});
}

TEST(inspect_records_across_its_buffer) {
  Random random(1);
  std::string file;
  uint64_t events = 0;
  while (file.size() < (size_t{3} << 20)) {
    const size_t size = random.one_in(50) ? random.below(size_t{2} << 20) : random.below(3000);
    file += record_of(Message().bytes(4, std::string(size, 'g')));
    ++events;
  }
  const Inspection found = inspect(file);
  CHECK_EQ(found.good_events, events);
  CHECK(found.damages.spans.empty());
}

TEST(inspect_says_what_it_cannot_do) {
  CHECK_THROWS(std::system_error, inspect_file("/nowhere", -1));
  CHECK_THROWS(std::system_error, inspect_file("/tmp", -1));
  CHECK_THROWS(std::system_error, inspect(record_of(""), 99999));
}

}  // namespace
}  // namespace tbhub::testing
