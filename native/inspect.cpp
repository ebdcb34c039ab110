#include "inspect.h"

#include <string>

#include "encode.h"
#include "file.h"

namespace tbhub {
namespace {

constexpr size_t kReadSize = size_t{1} << 20;

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  void record(const uint8_t* data, size_t size) {
    if (fd_ < 0) return;
    append_record(buffer_, data, size);
    if (buffer_.size() >= kReadSize) flush();
  }

  void flush() {
    size_t done = 0;
    while (fd_ >= 0 && done < buffer_.size()) {
      const ssize_t wrote = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
      if (wrote >= 0)
        done += static_cast<size_t>(wrote);
      else if (errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "write");
    }
    buffer_.clear();
  }

 private:
  int fd_;
  ByteBuffer buffer_;
};

}  // namespace

Inspection inspect_file(const char* path, int out) {
  Inspection found;
  File file(path);
  Output output(out);
  ParsedEvent event;
  std::vector<uint8_t> buffer(kReadSize);
  size_t held = 0;
  bool final = false;
  for (uint64_t at = 0; !(final && held == 0);) {
    const size_t got =
        final ? 0 : file.read(buffer.data() + held, buffer.size() - held, found.size);
    final = final || got == 0;
    found.size += got;
    held += got;
    size_t used = 0;
    while (used < held) {
      const Scan scan = scan_record(buffer.data() + used, held - used, final);
      if (scan.kind == Scan::kNeedMore) break;
      if (scan.kind == Scan::kDamaged) found.damages.add(at + used, scan.size, scan.damage);
      if (scan.data != nullptr) {
        if (!parse_event(scan.data, scan.data_size, event)) {
          found.damages.add(at + used, scan.size, Damage::kNotAnEvent);
        } else {
          ++(scan.kind == Scan::kRecord ? found.good_events : found.saved_events);
          output.record(scan.data, scan.data_size);
        }
      }
      used += scan.size;
    }
    at += used;
    held -= used;
    std::memmove(buffer.data(), buffer.data() + used, held);
    if (held == buffer.size()) buffer.resize(buffer.size() * 2);
  }
  output.flush();
  return found;
}

}  // namespace tbhub
