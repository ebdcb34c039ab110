#include "encode.h"

#include <cmath>
#include <limits>

#include "check.h"
#include "snapshot.h"

namespace tbhub::testing {
namespace {

Snapshot decode(const ByteBuffer& bytes) {
  Decoder decoder;
  decoder.feed(bytes.data(), bytes.size());
  CHECK_EQ(decoder.pending(), uint64_t{0});
  CHECK(decoder.damages().spans.empty());
  return drain(decoder, text_of(bytes));
}

TEST(encode_scalars_come_back) {
  const std::string tags[] = {"",
                              "loss",
                              "größe/\xf0\x9f\x93\x89",
                              std::string(127, 'a'),
                              std::string(128, 'b'),
                              std::string(16384, 'c'),
                              std::string(size_t{1} << 20, 'd')};
  for (const std::string& tag : tags) {
    ByteBuffer bytes;
    Series expected;
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{127}, int64_t{128}, int64_t{-1},
                               int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
      for (const float value : {0.0f, -0.0f, 1e-45f, 3.4e38f, INFINITY, -INFINITY, NAN}) {
        append_scalar(bytes, 1.7e9 + 0.25, step, tag, value);
        expected.points.push_back(
            {step, std::bit_cast<uint64_t>(1.7e9 + 0.25), std::bit_cast<uint64_t>(double{value})});
      }
    }
    const Snapshot found = decode(bytes);
    CHECK_EQ(found.events, uint64_t{56});
    CHECK(found.series.at(tag) == expected);
  }
}

TEST(encode_scalar_is_what_protobuf_writes) {
  for (const int64_t step : {int64_t{0}, int64_t{5}, int64_t{-5}}) {
    ByteBuffer bytes;
    append_scalar(bytes, 2.5, step, "loss", 0.5f);
    CHECK(text_of(bytes) == record_of(scalar_event(2.5, step, "loss", 0.5f)));
  }
}

TEST(encode_summary_comes_back) {
  const Message value = Message().bytes(1, "image").bytes(4, "");
  const Message summary = Message().message(1, value);
  ByteBuffer bytes;
  append_summary(bytes, 1, -2, summary.text());
  append_summary(bytes, 1, 0, "");
  const Snapshot found = decode(bytes);
  CHECK_EQ(found.events, uint64_t{2});
  CHECK(found.blobs == std::vector<Blob>({{"image", static_cast<int>(BlobKind::kImage), -2,
                                           std::bit_cast<uint64_t>(1.0), value.text()}}));
}

TEST(encode_version_and_session_start) {
  ByteBuffer bytes;
  append_version(bytes, 1.0);
  CHECK(text_of(bytes) == record_of(version_event("brain.Event:2")));
  append_session_start(bytes, 1.0, 3);
  append_session_start(bytes, 1.0, 0);
  const Snapshot found = decode(bytes);
  CHECK_EQ(found.events, uint64_t{3});
  CHECK((found.purges == std::vector<std::pair<int64_t, std::string>>{{3, ""}, {0, ""}}));
}

TEST(encode_record_frames_any_bytes) {
  Random random(1);
  for (const size_t size : {0, 1, 7, 8, 9, 4095, 4096, 100000}) {
    const std::string data = random.bytes(size);
    ByteBuffer bytes;
    append_record(bytes, data_of(data), size);
    CHECK(text_of(bytes) == record_of(data));
  }
}

TEST(encode_buffer_grows_swaps_and_lets_go) {
  ByteBuffer bytes, other;
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    const std::string data(static_cast<size_t>(i), 'x');
    append_record(bytes, data_of(data), data.size());
    expected += record_of(data);
  }
  CHECK(text_of(bytes) == expected);
  CHECK(bytes.capacity() >= bytes.size());
  bytes.swap(other);
  CHECK(bytes.empty() && text_of(other) == expected);
  other.clear();
  CHECK(other.empty() && other.capacity() > 0);
  other.release();
  CHECK_EQ(other.capacity(), size_t{0});
}

}  // namespace
}  // namespace tbhub::testing
