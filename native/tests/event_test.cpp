#include "event.h"

#include <cmath>
#include <limits>
#include <string>

#include "check.h"
#include "message.h"

namespace tbhub::testing {
namespace {

constexpr uint64_t kFloat = 1, kDouble = 2, kInt32 = 3, kUint8 = 4, kInt16 = 5, kInt8 = 6,
                   kString = 7, kInt64 = 9, kBool = 10, kBfloat16 = 14, kUint16 = 17, kHalf = 19,
                   kUint32 = 22, kUint64 = 23;

// The bytes must outlive what is parsed from them, so they are kept here.
struct Parsed {
  explicit Parsed(const Message& message) : bytes(message.text()) {
    good = parse_event(data_of(bytes), bytes.size(), event);
  }
  std::string bytes;
  ParsedEvent event;
  bool good;
};

bool is_event(const Message& message) { return Parsed(message).good; }

struct Number {
  bool good = false, has = false, is_double = false;
  double value = 0;
  uint32_t rank = 0;
};

Number number_of_value(const Message& value) {
  const Parsed parsed(value_event(1, 2, value));
  if (!parsed.good || parsed.event.values.size() != 1) return {};
  const ParsedValue& found = parsed.event.values[0];
  if (found.number_at != nullptr && found.has_number) {
    // Where the number is said to stand, it stands.
    const double there =
        found.number_width == 4 ? load<float>(found.number_at) : load<double>(found.number_at);
    CHECK(there == found.number || std::isnan(there));
  }
  return {true, found.has_number, found.is_double, found.number, found.rank};
}

Number number_of_tensor(const Message& tensor) {
  return number_of_value(Message().bytes(1, "t").message(8, tensor));
}

void check_number(const Message& tensor, double expected, bool is_double, int line) {
  const Number found = number_of_tensor(tensor);
  if (!found.good || !found.has || found.is_double != is_double ||
      !(found.value == expected || (std::isnan(found.value) && std::isnan(expected))))
    fail(__FILE__, line, "tensor holds " + show(found.value) + ", not " + show(expected));
}
#define CHECK_NUMBER(tensor, expected, is_double) \
  check_number(tensor, expected, is_double, __LINE__)

Message typed(uint64_t type) { return Message().varint(1, type).message(2, Message()); }

template <class T>
Message content(uint64_t type, T value) {
  return typed(type).bytes(4, Message().plain(value).text());
}

// Both ways of writing a list of one varint.
void check_varint(uint64_t type, uint32_t field, uint64_t raw, double expected, bool is_double) {
  CHECK_NUMBER(typed(type).varint(field, raw), expected, is_double);
  CHECK_NUMBER(typed(type).bytes(field, Message().number(raw).text()), expected, is_double);
}

TEST(event_simple_value) {
  for (const float value :
       {0.0f, -0.0f, 1.5f, -3e38f, std::numeric_limits<float>::denorm_min(), INFINITY, -INFINITY}) {
    const Parsed parsed(scalar_event(12.5, -7, "loss", value));
    CHECK(parsed.good);
    CHECK_EQ(parsed.event.wall_time, 12.5);
    CHECK_EQ(parsed.event.step, int64_t{-7});
    const ParsedValue& found = parsed.event.values.at(0);
    CHECK_EQ(found.tag.text(), "loss");
    CHECK(found.has_number && found.is_simple && !found.is_double && !found.has_metadata);
    CHECK_EQ(found.number, double{value});
    CHECK_EQ(int{found.number_width}, 4);
  }
  CHECK(std::isnan(number_of_value(Message().bytes(1, "t").float32(2, NAN)).value));
}

TEST(event_tensor_lists) {
  CHECK_NUMBER(typed(kFloat).float32(5, 0.1f), double{0.1f}, false);
  CHECK_NUMBER(typed(kFloat).bytes(5, Message().plain(0.1f).text()), double{0.1f}, false);
  CHECK_NUMBER(typed(kDouble).float64(6, 0.1), 0.1, true);
  CHECK_NUMBER(typed(kDouble).bytes(6, Message().plain(0.1).text()), 0.1, true);
  for (const int64_t value : {0, 1, -1, 127, -128}) {
    const auto raw = static_cast<uint64_t>(value);
    for (const uint64_t type : {kInt8, kInt16, kInt32})
      check_varint(type, 7, raw, static_cast<double>(value), true);
    check_varint(kInt64, 10, raw, static_cast<double>(value), true);
  }
  check_varint(kInt32, 7, static_cast<uint64_t>(int64_t{INT32_MIN}), INT32_MIN, true);
  check_varint(kUint8, 7, 255, 255, true);
  check_varint(kUint16, 7, 65535, 65535, true);
  check_varint(kInt64, 10, static_cast<uint64_t>(INT64_MIN), -0x1p63, true);
  check_varint(kInt64, 10, INT64_MAX, 0x1p63, true);
  check_varint(kBool, 11, 0, 0, true);
  check_varint(kBool, 11, 1, 1, true);
  check_varint(kUint32, 16, UINT32_MAX, UINT32_MAX, true);
  check_varint(kUint64, 17, UINT64_MAX, 0x1p64, true);
  check_varint(kHalf, 13, 0x3c00, 1, false);
  check_varint(kBfloat16, 13, 0x3f80, 1, false);
}

TEST(event_int32_list_keeps_the_low_bits_as_protobuf_does) {
  check_varint(kInt32, 7, 0xffffffffu, -1, true);
  check_varint(kUint32, 16, 0x100000005u, 5, true);
}

TEST(event_tensor_content) {
  CHECK_NUMBER(content(kFloat, 0.1f), double{0.1f}, false);
  CHECK_NUMBER(content(kDouble, 0.1), 0.1, true);
  CHECK_NUMBER(content(kInt8, int8_t{-128}), -128, true);
  CHECK_NUMBER(content(kInt16, int16_t{-32768}), -32768, true);
  CHECK_NUMBER(content(kInt32, INT32_MIN), INT32_MIN, true);
  CHECK_NUMBER(content(kInt64, INT64_MIN), -0x1p63, true);
  CHECK_NUMBER(content(kUint8, uint8_t{255}), 255, true);
  CHECK_NUMBER(content(kUint16, uint16_t{65535}), 65535, true);
  CHECK_NUMBER(content(kUint32, UINT32_MAX), UINT32_MAX, true);
  CHECK_NUMBER(content(kUint64, UINT64_MAX), 0x1p64, true);
  CHECK_NUMBER(content(kBool, uint8_t{1}), 1, true);
  CHECK_NUMBER(content(kHalf, uint16_t{0xc000}), -2, false);
  CHECK_NUMBER(content(kBfloat16, uint16_t{0xc000}), -2, false);
  // The wrong size for one element is some other tensor, not a number.
  for (const uint64_t type : {kFloat, kDouble, kInt32, kInt64, kHalf, kBool, kUint64})
    for (const size_t size : {3, 9, 16})
      CHECK(!number_of_tensor(typed(type).bytes(4, std::string(size, 'x'))).has);
  CHECK(!number_of_tensor(typed(kString).bytes(4, "1234")).has);
  CHECK(!number_of_tensor(typed(kString).bytes(8, "1234")).has);
  CHECK(!number_of_tensor(typed(99).bytes(4, "1234")).has);
}

TEST(event_half_of_every_kind) {
  const double inf = INFINITY;
  const struct {
    uint16_t bits;
    double value;
  } halves[] = {{0x0000, 0},        {0x8000, -0.0},    {0x0001, 0x1p-24}, {0x03ff, 1023 * 0x1p-24},
                {0x8001, -0x1p-24}, {0x0400, 0x1p-14}, {0x3c00, 1},       {0x3555, 0.333251953125},
                {0x7bff, 65504},    {0xfbff, -65504},  {0x7c00, inf},     {0xfc00, -inf}};
  for (const auto& [bits, value] : halves) {
    const Number found = number_of_tensor(content(kHalf, bits));
    CHECK_EQ(found.value, value);
    CHECK_EQ(std::signbit(found.value), std::signbit(value));
    check_varint(kHalf, 13, bits, value, false);
  }
  for (const uint16_t bits : {0x7e00, 0x7c01, 0xfe00})
    CHECK(std::isnan(number_of_tensor(content(kHalf, bits)).value));
}

TEST(event_bfloat16_of_every_kind) {
  const struct {
    uint16_t bits;
    double value;
  } numbers[] = {{0x0000, 0},        {0x8000, -0.0},       {0x0001, 0x1p-133}, {0x3f80, 1},
                 {0x4049, 3.140625}, {0x7f7f, 0x1.fep127}, {0x7f80, INFINITY}, {0xff80, -INFINITY}};
  for (const auto& [bits, value] : numbers) {
    CHECK_NUMBER(content(kBfloat16, bits), value, false);
    check_varint(kBfloat16, 13, bits, value, false);
  }
  CHECK(std::isnan(number_of_tensor(content(kBfloat16, uint16_t{0x7fc0})).value));
}

TEST(event_tensor_with_several_elements_is_no_number) {
  CHECK(!number_of_tensor(typed(kFloat).float32(5, 1).float32(5, 2)).has);
  CHECK(!number_of_tensor(typed(kFloat).bytes(5, Message().plain(1.f).plain(2.f).text())).has);
  CHECK(!number_of_tensor(typed(kInt64).bytes(10, Message().number(1).number(2).text())).has);
  CHECK(!number_of_tensor(typed(kInt64).varint(10, 1).bytes(10, "\x01")).has);
  CHECK(!number_of_tensor(typed(kFloat)).has);
  // Elements of another type than the tensor's do not count.
  CHECK(!number_of_tensor(typed(kFloat).float64(6, 1)).has);
}

TEST(event_tensor_rank_and_order) {
  const Message dim = Message().varint(1, 1);
  const Message shape = Message().message(2, dim).message(2, dim);
  CHECK_EQ(number_of_tensor(Message().varint(1, kFloat).message(2, shape).float32(5, 1)).rank, 2u);
  // The type may stand behind the data it describes.
  CHECK_NUMBER(Message().float32(5, 4).varint(1, kFloat), 4, false);
  CHECK_NUMBER(Message().bytes(4, Message().plain(4.0).text()).varint(1, kDouble), 4, true);
}

TEST(event_malformed_tensors_are_no_events) {
  auto bad = [](const Message& tensor) { return !number_of_tensor(tensor).good; };
  CHECK(bad(typed(kFloat).bytes(5, "123")));
  CHECK(bad(typed(kFloat).bytes(5, "12345")));
  CHECK(bad(typed(kDouble).bytes(6, "123456789")));
  CHECK(bad(typed(kInt32).bytes(7, "\xff")));
  CHECK(bad(typed(kInt32).bytes(7, std::string(11, '\xff'))));
  CHECK(bad(Message().varint(1, kFloat).bytes(2, "\x12")));
  CHECK(bad(Message().varint(1, kFloat).bytes(2, "\x12\x01\x08")));
  CHECK(bad(Message().raw("\x08")));
}

TEST(event_last_of_a_repeated_field_wins) {
  Message value = Message().bytes(1, "first").float32(2, 1).float32(2, 2).bytes(1, "last");
  const Parsed parsed(value_event(1, 1, value));
  CHECK_EQ(parsed.event.values.at(0).tag.text(), "last");
  CHECK_EQ(parsed.event.values.at(0).number, 2.0);
  // The kinds of value exclude each other.
  const Message tensor = typed(kDouble).float64(6, 8);
  CHECK_EQ(number_of_value(Message().float32(2, 1).message(8, tensor)).value, 8.0);
  CHECK(number_of_value(Message().float32(2, 1).message(8, tensor)).is_double);
  CHECK_EQ(number_of_value(Message().message(8, tensor).float32(2, 1)).value, 1.0);
  CHECK(!number_of_value(Message().message(8, tensor).float32(2, 1)).is_double);
  CHECK(!number_of_value(Message().float32(2, 1).message(4, Message())).has);
}

TEST(event_fields_in_any_order_among_unknown_ones) {
  const Message group =
      Message().key(50, 3).varint(1, 5).key(2, 3).bytes(9, "in").key(2, 4).key(50, 4);
  Message value;
  value.float32(2, 2.5f).raw(group.text()).varint(77, 1).bytes(1, "tag").float64(78, 1);
  Message event;
  event.bytes(99, "unknown").message(5, Message().varint(9, 9).message(1, value));
  event.varint(2, 3).raw(group.text()).float64(1, 4).float32((1 << 29) - 1, 0);
  const Parsed parsed(event);
  CHECK(parsed.good);
  CHECK_EQ(parsed.event.step, int64_t{3});
  CHECK_EQ(parsed.event.wall_time, 4.0);
  CHECK_EQ(parsed.event.values.size(), size_t{1});
  CHECK_EQ(parsed.event.values.at(0).tag.text(), "tag");
  CHECK_EQ(parsed.event.values.at(0).number, 2.5);
  // A known field of a wire type it cannot have is an unknown field.
  CHECK(is_event(Message().bytes(1, "x").float32(2, 1).varint(5, 1)));
}

TEST(event_summaries_add_up) {
  auto summary = [](std::string_view tag) {
    return Message().message(1, Message().bytes(1, tag).float32(2, 1));
  };
  const Parsed parsed(Message().message(5, summary("a")).message(5, summary("b")));
  CHECK_EQ(parsed.event.values.size(), size_t{2});
  CHECK_EQ(parsed.event.values.at(1).tag.text(), "b");
}

TEST(event_malformed_bytes_are_no_events) {
  CHECK(is_event(Message()));
  CHECK(!is_event(Message().raw(std::string(1, '\0'))));  // field 0
  CHECK(!is_event(Message().key(1, 6)));                  // no such wire type
  CHECK(!is_event(Message().key(1, 7)));
  CHECK(!is_event(Message().key(50, 4)));                           // an end without a start
  CHECK(!is_event(Message().key(50, 3)));                           // a start without an end
  CHECK(!is_event(Message().key(50, 3).key(51, 4)));                // the wrong end
  CHECK(!is_event(Message().number(uint64_t{1} << 35).number(0)));  // no such field number
  CHECK(!is_event(Message().raw("\x09\x01")));                      // wall time cut short
  CHECK(!is_event(Message().raw("\x10")));                          // a step without a number
  CHECK(!is_event(Message().raw("\x10\xff")));
  CHECK(!is_event(Message().raw("\x10").raw(std::string(10, '\xff'))));
  CHECK(is_event(Message().raw("\x10").raw(std::string(9, '\xff')).raw("\x01")));
  CHECK(!is_event(Message().raw("\x2a\x05")));  // longer than there are bytes
  CHECK(!is_event(Message().key(5, 2).number(UINT64_MAX).raw("xx")));
  CHECK(!is_event(Message().bytes(5, "\x0a\x7f")));
  CHECK(!is_event(Message().bytes(7, "\x08")));
  CHECK(!is_event(Message().bytes(8, "\x0a\x05")));
}

TEST(event_groups_are_bounded_in_depth) {
  auto nested = [](int depth) {
    Message message;
    for (int i = 0; i < depth; ++i) message.key(50, 3);
    for (int i = 0; i < depth; ++i) message.key(50, 4);
    return message;
  };
  CHECK(is_event(nested(30)));
  CHECK(!is_event(nested(100'000)));
}

TEST(event_varints_may_be_longer_than_needed) {
  const Parsed parsed(Message().raw(std::string("\x10\x85\x80\x80\x00", 5)));
  CHECK(parsed.good);
  CHECK_EQ(parsed.event.step, int64_t{5});
}

TEST(event_metadata) {
  const Message plugin = Message().bytes(1, "scalars").bytes(2, "content");
  const Message metadata = Message().message(1, plugin).bytes(2, "name");
  const Parsed parsed(value_event(1, 1, Message().bytes(1, "t").message(9, metadata)));
  const ParsedValue& value = parsed.event.values.at(0);
  CHECK(value.has_metadata && !value.has_number);
  CHECK_EQ(value.plugin.text(), "scalars");
  CHECK_EQ(value.metadata.text(), metadata.text());
  CHECK(value.blob == BlobKind::kBare);
  CHECK(!is_event(value_event(1, 1, Message().bytes(9, "\x0a\x09"))));
}

TEST(event_kinds_of_values) {
  const struct {
    uint32_t field;
    BlobKind kind;
  } kinds[] = {{3, BlobKind::kOldHistogram},
               {4, BlobKind::kImage},
               {5, BlobKind::kHistogram},
               {6, BlobKind::kAudio},
               {8, BlobKind::kTensor}};
  for (const auto& [field, kind] : kinds) {
    const Parsed parsed(value_event(1, 1, Message().bytes(1, "t").message(field, Message())));
    CHECK(parsed.good);
    CHECK(parsed.event.values.at(0).blob == kind);
    CHECK(!parsed.event.values.at(0).has_number);
  }
}

TEST(event_payloads) {
  const struct {
    uint32_t field;
    BlobKind kind;
  } kinds[] = {{4, BlobKind::kGraph}, {9, BlobKind::kMetaGraph}, {6, BlobKind::kLogMessage}};
  for (const auto& [field, kind] : kinds) {
    const Parsed parsed(Message().varint(2, 1).bytes(field, "payload"));
    CHECK(parsed.good && parsed.event.has_payload);
    CHECK(parsed.event.payload_kind == kind);
    CHECK_EQ(parsed.event.payload.text(), "payload");
  }
  const Parsed parsed(Message().message(8, Message().bytes(1, "step 1").bytes(2, "stats")));
  CHECK(parsed.good && parsed.event.payload_kind == BlobKind::kRunMetadata);
  CHECK_EQ(parsed.event.payload.text(), "stats");
  CHECK_EQ(parsed.event.payload_tag.text(), "step 1");
  const Parsed without(Message().message(8, Message().bytes(1, "step 1")));
  CHECK(without.good);
  CHECK_EQ(without.event.payload.size, size_t{0});
}

TEST(event_versions) {
  auto version = [](std::string_view text) {
    const Parsed parsed(Message().bytes(3, text));
    return parsed.good && parsed.event.has_version ? parsed.event.file_version : -1;
  };
  CHECK_EQ(version("brain.Event:2"), 2);
  CHECK_EQ(version("brain.Event:1"), 1);
  CHECK_EQ(version("brain.Event:37"), 37);
  CHECK_EQ(version("brain.Event:x"), 2);
  CHECK_EQ(version("brain.Event:99999999999999"), 2);
  CHECK_EQ(version("something else"), 2);
  CHECK_EQ(version("\xff"), -1);
}

TEST(event_session_logs) {
  CHECK(Parsed(session_start_event(5)).event.session_start);
  CHECK(!Parsed(Message().message(7, Message().varint(1, 2))).event.session_start);
  CHECK(!Parsed(Message().message(7, Message())).event.session_start);
}

TEST(event_is_reused_without_traces) {
  ParsedEvent event;
  const std::string full = Message()
                               .float64(1, 1)
                               .varint(2, 2)
                               .bytes(3, "brain.Event:1")
                               .bytes(4, "g")
                               .message(7, Message().varint(1, 1))
                               .text();
  CHECK(parse_event(data_of(full), full.size(), event));
  CHECK(parse_event(nullptr, 0, event));
  CHECK(event.wall_time == 0 && event.step == 0 && !event.has_version && !event.session_start);
  CHECK(!event.has_payload && event.values.empty() && event.payload.size == 0);
}

TEST(event_utf8_table) {
  auto good = [](std::string_view text) { return is_utf8({data_of(text), text.size()}); };
  for (const std::string_view text :
       {"", "ascii", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xec\xbf\xbf", "\xed\x80\x80",
        "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf3\xbf\xbf\xbf",
        "\xf4\x80\x80\x80", "\xf4\x8f\xbf\xbf", "Verlust/größe \xf0\x9f\x93\x89"})
    CHECK(good(text));
  CHECK(good(std::string_view("a\0b", 3)));
  for (const std::string_view text : {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x7f",
                                      "\xc2\xc0",
                                      "\xe0\x9f\xbf",
                                      "\xe0\xa0",
                                      "\xe1\x80",
                                      "\xe1\x80\x7f",
                                      "\xe1\x80\xc0",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf0\x90\x80",
                                      "\xf1\x80\x80\x7f",
                                      "\xf1\x80\x7f\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe",
                                      "ascii\x80",
                                      "ascii\xe2\x82"})
    CHECK(!good(text));
  CHECK(!is_event(scalar_event(1, 1, "bad \xff tag", 1)));
}

}  // namespace
}  // namespace tbhub::testing
