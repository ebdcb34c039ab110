#include "mapping.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "check.h"

namespace tbhub::testing {
namespace {

// A file of a test's own, gone when the test is over.
class ScratchFile {
 public:
  explicit ScratchFile(std::string_view content) {
    const int fd = ::mkstemp(path_);
    CHECK(fd >= 0);
    CHECK_EQ(::write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::close(fd);
  }
  ~ScratchFile() { ::unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/tbhub-mapping-XXXXXX";
};

std::string_view text_of(const Mapping& mapping) {
  return {reinterpret_cast<const char*>(mapping.data()), mapping.size()};
}

TEST(mapping_of_any_part) {
  Random random(1);
  const std::string content = random.bytes(20000);
  const ScratchFile file(content);
  for (const size_t offset : {0, 1, 7, 4095, 4096, 4097, 8192, 12289, 19999})
    for (const size_t size : {0, 1, 8, 4096, 5000})
      if (offset + size <= content.size())
        CHECK(text_of(Mapping(file.path(), offset, size)) == content.substr(offset, size));
  for (int round = 0; round < 500; ++round) {
    const size_t offset = random.below(content.size() + 1);
    const size_t size = random.below(content.size() - offset + 1);
    CHECK(text_of(Mapping(file.path(), offset, size)) == content.substr(offset, size));
  }
}

TEST(mapping_beyond_the_end_is_an_error) {
  const ScratchFile file(std::string(5000, 'x'));
  CHECK_EQ(Mapping(file.path(), 5000, 0).size(), size_t{0});
  CHECK_THROWS(std::system_error, Mapping(file.path(), 0, 5001));
  CHECK_THROWS(std::system_error, Mapping(file.path(), 4999, 2));
  CHECK_THROWS(std::system_error, Mapping(file.path(), 5001, 0));
  CHECK_THROWS(std::system_error, Mapping(file.path(), 1, SIZE_MAX));
  CHECK_THROWS(std::system_error, Mapping(file.path(), UINT64_MAX, 1));
  CHECK_THROWS(std::system_error, Mapping(file.path(), UINT64_MAX, 2));
}

TEST(mapping_of_nothing) {
  const ScratchFile file("");
  CHECK_EQ(Mapping(file.path(), 0, 0).size(), size_t{0});
  CHECK_THROWS(std::system_error, Mapping(file.path(), 0, 1));
}

TEST(mapping_of_what_is_no_file) {
  CHECK_THROWS(std::system_error, Mapping("/tmp/tbhub-mapping-nowhere", 0, 0));
  CHECK_THROWS(std::system_error, Mapping("/tmp", 0, 1));
  CHECK_THROWS(std::system_error, Mapping("/dev/zero", 0, 1));
}

TEST(mapping_outlives_its_file_and_holds_no_descriptor) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  const auto before = descriptors();
  const auto file = std::make_unique<ScratchFile>(std::string(10000, 'y'));
  const Mapping mapping(file->path(), 5000, 5000);
  CHECK_EQ(descriptors(), before);
  ::unlink(file->path());
  CHECK(text_of(mapping) == std::string(5000, 'y'));
}

}  // namespace
}  // namespace tbhub::testing
