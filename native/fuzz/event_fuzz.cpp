// Any bytes as the data of records whose crcs are right, which is where parsing begins.
//
// An input is a list of such data with "|EV|" in between.
#include "decoder.h"
#include "event.h"
#include "fuzz.h"
#include "snapshot.h"

using namespace tbhub;

namespace {

constexpr std::string_view kBetween = "|EV|";

bool inside(Bytes part, const uint8_t* data, size_t size) {
  return part.size == 0 || (part.data >= data && part.data + part.size <= data + size);
}

bool parses(std::string_view text, ParsedEvent& event) {
  // A copy of exactly this size lets the sanitizer see any step beyond it.
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const uint8_t* const data = bytes.data();
  const size_t size = bytes.size();
  if (!parse_event(data, size, event)) return false;
  REQUIRE(inside(event.payload, data, size) && inside(event.payload_tag, data, size));
  REQUIRE(is_utf8(event.payload_tag));
  for (const ParsedValue& value : event.values) {
    REQUIRE(inside(value.message, data, size) && inside(value.tag, data, size));
    REQUIRE(inside(value.metadata, data, size) && inside(value.plugin, data, size));
    REQUIRE(is_utf8(value.tag));
    REQUIRE(!value.is_simple || value.has_number);
    if (!value.has_number || value.number_at == nullptr) continue;
    REQUIRE(value.number_width == (value.is_double ? 8 : 4));
    REQUIRE(inside({value.number_at, value.number_width}, value.message.data, value.message.size));
    const double there =
        value.number_width == 4 ? load<float>(value.number_at) : load<double>(value.number_at);
    REQUIRE(there == value.number || there != there);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string file, slow;
  uint64_t events = 0, others = 0;
  ParsedEvent event;  // one for all: nothing may stay behind in it
  for (;;) {
    const size_t end = rest.find(kBetween);
    const std::string_view text = rest.substr(0, end);
    ParsedEvent fresh;
    const bool good = parses(text, event);
    REQUIRE(parses(text, fresh) == good);
    if (good) REQUIRE(event.values.size() == fresh.values.size() && event.step == fresh.step);
    ++(good ? events : others);
    file += testing::record_of(text);
    // The same event in a layout that the decoder's fast path never takes.
    testing::Message unexpected;
    unexpected.raw(text);
    if (good) unexpected.varint(1000, 0);
    slow += testing::record_of(unexpected);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + kBetween.size());
  }

  Decoder decoder, general;
  decoder.feed(testing::data_of(file), file.size());
  general.feed(testing::data_of(slow), slow.size());
  REQUIRE(decoder.pending() == 0);
  REQUIRE(decoder.events() == events);
  for (int kind = 0; kind < kDamageKinds; ++kind)
    REQUIRE(decoder.damages().counts[kind] ==
            (kind == static_cast<int>(Damage::kNotAnEvent) ? others : 0));
  REQUIRE(testing::drain(decoder, file) == testing::drain(general, slow));
  return 0;
}
