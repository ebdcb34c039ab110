#include "decoder.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <system_error>

#include "check.h"
#include "snapshot.h"

namespace tbhub::testing {
namespace {

struct Result {
  Snapshot snapshot;
  DamageList damages;
  uint64_t pending = 0;
  bool operator==(const Result& other) const {
    return snapshot == other.snapshot && same_damages(damages, other.damages) &&
           pending == other.pending;
  }
};

// Feeds the file in pieces whose sizes `next_size` gives.
template <class NextSize>
Result decode(const std::string& file, NextSize next_size) {
  Decoder decoder;
  for (size_t at = 0; at < file.size();) {
    const size_t size = std::min<size_t>(next_size(), file.size() - at);
    // A copy of exactly this size lets the sanitizer see any step beyond it.
    const std::vector<uint8_t> piece(data_of(file) + at, data_of(file) + at + size);
    decoder.feed(piece.data(), piece.size());
    at += size;
    CHECK_EQ(decoder.offset(), uint64_t{at});
  }
  return {drain(decoder, file), decoder.damages(), decoder.pending()};
}

Result decode(const std::string& file) {
  return decode(file, [&] { return file.size(); });
}

Snapshot snapshot(const std::string& file) { return decode(file).snapshot; }

uint64_t count(const Result& result, Damage kind) {
  return result.damages.counts[static_cast<int>(kind)];
}

std::vector<int64_t> steps(const Snapshot& found, const std::string& tag) {
  std::vector<int64_t> all;
  if (const auto series = found.series.find(tag); series != found.series.end())
    for (const Point& point : series->second.points) all.push_back(point.step);
  return all;
}

using Steps = std::vector<int64_t>;

// The same event in a layout the decoder has no expectation for: an unknown field behind it.
std::string unexpected(const Message& event) {
  return record_of(Message().raw(event.text()).varint(1000, 0));
}

Message scalars_metadata(std::string_view plugin) {
  return Message().message(1, Message().bytes(1, plugin));
}

// Events as writers make them and as they should not: few tags in changing order, in every layout.
Message random_event(Random& random) {
  static const std::string tags[] = {"loss", "lo", "loss/train", "x", ""};
  const std::string& tag = tags[random.one_in(4) ? random.below(5) : random.below(2)];
  const double wall_time = static_cast<double>(random.below(1000));
  int64_t step = static_cast<int64_t>(random.below(300));
  if (random.one_in(10)) step = -step;
  if (random.one_in(20)) step = static_cast<int64_t>(random.bits());
  switch (random.below(random.one_in(4) ? 10 : 3)) {
    case 0:
    case 1:
      return scalar_event(wall_time, step, tag, static_cast<float>(random.below(100)));
    case 2:
      return double_event(wall_time, step, tag, static_cast<double>(random.bits()));
    case 3:
      return value_event(wall_time, step, Message().bytes(1, tag).bytes(4, ""));
    case 4:
      return session_start_event(step);
    case 5: {
      const Message value = Message().bytes(1, tag).message(9, scalars_metadata("scalars"));
      return value_event(wall_time, step, Message().raw(value.text()).float32(2, 1));
    }
    case 6: {
      const Message tensor = Message().varint(1, 1).float32(5, 3);  // a float32, not packed
      return value_event(wall_time, step, Message().bytes(1, tag).message(8, tensor));
    }
    case 7: {
      const Message value = Message().bytes(1, tag).float32(2, 1);
      return Message().varint(2, 5).float64(1, 6).message(
          5, Message().message(1, value).message(1, value));
    }
    case 8:
      return Message().raw(scalar_event(wall_time, step, tag, 5).text()).varint(2, 9);
    default:
      return Message().float64(1, wall_time).bytes(4, "graph");
  }
}

std::string random_file(Random& random, size_t events) {
  std::string file = record_of(version_event("brain.Event:2"));
  for (; events > 0; --events) file += record_of(random_event(random));
  return file;
}

void damage(Random& random, std::string& file) {
  const size_t position = random.below(file.size());
  switch (random.below(6)) {
    case 0:
      file[position] = static_cast<char>(random.bits());
      break;
    case 1:
      file.erase(position, random.below(100));
      break;
    case 2:
      file.insert(position, random.bytes(random.below(100)));
      break;
    case 3:
      file.insert(position, std::string(random.below(100), '\0'));
      break;
    case 4:
      file.insert(position, header_for(random.below(500)));
      break;
    default:
      file.resize(position + 1);
  }
}

TEST(decoder_reads_every_kind_of_event) {
  const std::string image = Message().bytes(1, "image").bytes(4, "").text();
  std::string file = record_of(version_event("brain.Event:2"));
  for (int64_t step = 0; step < 5; ++step) {
    file += record_of(scalar_event(1, step, "float", 0.5f));
    file += record_of(double_event(1, step, "double", 0.1));
  }
  file += record_of(value_event(2, 3, Message().raw(image)));
  file += record_of(Message().varint(2, 4).bytes(4, "graph"));
  const Result found = decode(file);
  CHECK_EQ(found.snapshot.events, uint64_t{13});
  CHECK(found.damages.spans.empty());
  CHECK_EQ(found.pending, uint64_t{0});
  CHECK(!found.snapshot.series.at("float").is_double);
  CHECK(found.snapshot.series.at("double").is_double);
  CHECK(steps(found.snapshot, "float") == Steps({0, 1, 2, 3, 4}));
  CHECK(steps(found.snapshot, "double") == Steps({0, 1, 2, 3, 4}));
  CHECK(found.snapshot.blobs ==
        std::vector<Blob>({{"image", int(BlobKind::kImage), 3, std::bit_cast<uint64_t>(2.0), image},
                           {"", int(BlobKind::kGraph), 4, 0, "graph"}}));
}

TEST(decoder_pieces_of_every_size_are_as_good_as_the_whole) {
  Random random(1);
  const std::string file = random_file(random, 40);
  const Result whole = decode(file);
  CHECK(whole.damages.spans.empty());
  for (size_t size = 1; size < 200; ++size) CHECK(decode(file, [&] { return size; }) == whole);
  CHECK(decode(file, [&] { return random.below(3); }) == whole);  // also of none
}

TEST(decoder_pieces_of_a_damaged_file_are_as_good_as_the_whole) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    std::string file = random_file(random, 20);
    for (size_t damages = 1 + random.below(4); damages > 0; --damages) damage(random, file);
    const Result whole = decode(file);
    const size_t bound = 1 + random.below(100);
    const bool same = decode(file, [&] { return 1 + random.below(bound); }) == whole;
    CHECK(same);
    if (!same) break;
  }
}

TEST(decoder_drains_in_between) {
  Random random(3);
  std::string file;
  for (int64_t step = 0; step < 100; ++step) file += record_of(scalar_event(1, step, "a", 1));
  Decoder decoder;
  Steps all;
  for (size_t at = 0; at < file.size();) {
    const size_t size = std::min(random.below(300), file.size() - at);
    decoder.feed(data_of(file) + at, size);
    at += size;
    const Snapshot part = drain(decoder, file);
    for (const int64_t step : steps(part, "a")) all.push_back(step);
    CHECK(decoder.fresh().empty());
  }
  CHECK_EQ(all.size(), size_t{100});
  for (size_t i = 0; i < all.size(); ++i) CHECK_EQ(all[i], static_cast<int64_t>(i));
}

TEST(decoder_expectation_changes_nothing) {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    std::string file, slow;
    for (size_t events = random.below(80); events > 0; --events) {
      const Message event = random_event(random);
      file += record_of(event);
      slow += unexpected(event);
    }
    const bool same = snapshot(file) == snapshot(slow);
    CHECK(same);
    if (!same) break;
  }
}

TEST(decoder_metadata_that_comes_late_counts) {
  // The same bytes are a scalar before the tag is given to another plugin, and none after.
  const Message tensor = double_event(1, 1, "a", 2);
  const Message given =
      value_event(1, 2, Message().bytes(1, "a").message(9, scalars_metadata("text")).bytes(8, ""));
  const std::string file =
      record_of(tensor) + record_of(tensor) + record_of(given) + record_of(tensor);
  const Snapshot found = snapshot(file);
  CHECK(steps(found, "a") == Steps({1, 1}));
  CHECK_EQ(found.blobs.size(), size_t{2});
}

TEST(decoder_first_metadata_decides) {
  const auto value = [](std::string_view plugin, double number) {
    const Message tensor = Message().varint(1, 2).float64(6, number);
    return value_event(
        1, 1, Message().bytes(1, "a").message(8, tensor).message(9, scalars_metadata(plugin)));
  };
  CHECK_EQ(snapshot(record_of(value("text", 1)) + record_of(value("scalars", 2))).blobs.size(),
           size_t{2});
  const Snapshot found = snapshot(record_of(value("scalars", 1)) + record_of(value("text", 2)));
  CHECK_EQ(steps(found, "a").size(), size_t{2});
  CHECK(found.plugins.at("a").starts_with("scalars"));
}

TEST(decoder_session_start_purges) {
  std::string file;
  for (int64_t step = 0; step < 10; ++step) file += record_of(scalar_event(1, step, "a", 1));
  file += record_of(value_event(1, 3, Message().bytes(1, "b").bytes(4, "")));
  file += record_of(value_event(1, 8, Message().bytes(1, "b").bytes(4, "")));
  file += record_of(session_start_event(6));
  file += record_of(scalar_event(1, 6, "a", 1));
  const Snapshot found = snapshot(file);
  CHECK(steps(found, "a") == Steps({0, 1, 2, 3, 4, 5, 6}));
  CHECK_EQ(found.blobs.size(), size_t{1});
  CHECK((found.purges == std::vector<std::pair<int64_t, std::string>>{{6, ""}}));
}

TEST(decoder_old_files_purge_by_steps_that_go_back) {
  std::string file = record_of(version_event("brain.Event:1"));
  for (int64_t step = 0; step < 10; ++step) {
    file += record_of(scalar_event(1, step, "a", 1));
    file += record_of(scalar_event(1, step, "b", 1));
    file += record_of(value_event(1, step, Message().bytes(1, "a").bytes(4, "")));
  }
  Snapshot found = snapshot(file + record_of(scalar_event(1, 4, "a", 1)));
  CHECK(steps(found, "a") == Steps({0, 1, 2, 3, 4}));
  CHECK_EQ(steps(found, "b").size(), size_t{10});
  CHECK_EQ(found.blobs.size(), size_t{4});
  CHECK((found.purges == std::vector<std::pair<int64_t, std::string>>{{4, "tag a"}}));
  // The start of a session means nothing there, and a step that goes back means nothing today.
  CHECK(snapshot(file + record_of(session_start_event(2))).purges.empty());
  found = snapshot(record_of(version_event("brain.Event:2")) +
                   record_of(scalar_event(1, 9, "a", 1)) + record_of(scalar_event(1, 4, "a", 1)));
  CHECK(steps(found, "a") == Steps({9, 4}));
  CHECK(found.purges.empty());
}

// What two decoders have found, the second of which went on where the first had come to.
Snapshot joined(Snapshot first, const Snapshot& second) {
  for (const auto& [step, only] : second.purges) {
    for (auto& [tag, series] : first.series)
      if (only.empty() || only == "tag " + tag)
        std::erase_if(series.points, [&](const Point& point) { return point.step >= step; });
    std::erase_if(first.blobs, [&](const Blob& blob) {
      return blob.step >= step && (only.empty() || only == "tag " + blob.tag);
    });
    first.purges.emplace_back(step, only);
  }
  for (const auto& [tag, series] : second.series) {
    Series& into = first.series[tag];
    into.is_double |= series.is_double;
    into.points.insert(into.points.end(), series.points.begin(), series.points.end());
  }
  std::erase_if(first.series, [](const auto& item) { return item.second.points.empty(); });
  first.blobs.insert(first.blobs.end(), second.blobs.begin(), second.blobs.end());
  first.plugins = second.plugins;
  first.events += second.events;
  first.over_limit += second.over_limit;
  return first;
}

// Decodes a file up to `split` with one decoder and goes on with another.
Result decode_and_go_on(const std::string& file, size_t split) {
  Decoder first;
  first.feed(data_of(file), split);
  const uint64_t offset = first.offset() - first.pending();
  Decoder second(offset, first.file_version(), first.last_step());
  for (const auto& tag : first.tags())
    if (tag->has_metadata) second.know_tag(tag->name, tag->plugin, tag->metadata);
  const std::vector<uint8_t> rest(data_of(file) + offset, data_of(file) + file.size());
  second.feed(rest.data(), rest.size());
  CHECK_EQ(second.offset(), uint64_t{file.size()});
  DamageList damages = first.damages();
  for (const DamageSpan& span : second.damages().spans)
    damages.add(span.offset, span.size, span.kind);
  return {joined(drain(first, file), drain(second, file)), damages, second.pending()};
}

// A column that was double before all such points were taken back need not be one any more.
void forget_widths(Result& result) {
  for (auto& [tag, series] : result.snapshot.series) series.is_double = false;
}

void check_every_split(const std::string& file, int line) {
  Result whole = decode(file);
  forget_widths(whole);
  for (size_t split = 0; split <= file.size(); ++split) {
    Result again = decode_and_go_on(file, split);
    forget_widths(again);
    if (again == whole) continue;
    fail(__FILE__, line, "split at " + std::to_string(split));
    return;
  }
}

TEST(decoder_goes_on_where_another_has_come_to) {
  Random random(11);
  for (int round = 0; round < 6; ++round) check_every_split(random_file(random, 25), __LINE__);
}

TEST(decoder_goes_on_behind_damage) {
  Random random(12);
  for (int round = 0; round < 20; ++round) {
    std::string file = random_file(random, 8);
    for (size_t damages = 1 + random.below(3); damages > 0; --damages) damage(random, file);
    check_every_split(file, __LINE__);
  }
}

TEST(decoder_goes_on_in_old_files) {
  Random random(13);
  for (int round = 0; round < 10; ++round) {
    std::string file = record_of(version_event("brain.Event:1"));
    for (int i = 0; i < 15; ++i)
      file += record_of(scalar_event(1, static_cast<int64_t>(random.below(20)),
                                     random.one_in(2) ? "a" : "b", static_cast<float>(i)));
    check_every_split(file, __LINE__);
  }
}

TEST(decoder_knows_what_it_is_told_of_tags) {
  const Message tensor = double_event(1, 1, "a", 2);
  const std::string file = record_of(tensor);
  for (const std::string_view plugin : {"scalars", "text", ""}) {
    Decoder decoder(1000, 2, 0);
    decoder.know_tag("a", plugin, "metadata");
    decoder.know_tag("a", "too late", "");
    decoder.feed(data_of(file), file.size());
    CHECK_EQ(decoder.offset(), 1000 + uint64_t{file.size()});
    CHECK_EQ(decoder.blobs().size(), size_t{plugin == "text"});
    CHECK_EQ(decoder.fresh().size(), size_t{plugin != "text"});
    CHECK_EQ(decoder.tags()[0]->metadata, "metadata");
    CHECK_EQ(decoder.tags()[0]->plugin, plugin);
  }
}

TEST(decoder_counts_each_damage) {
  const std::string good = record_of(scalar_event(1, 1, "a", 1));
  std::string bad_header = good, bad_data = good;
  bad_header[9] ^= 1;
  bad_data[20] ^= 1;
  const std::string no_event = record_of("\xff\xff");
  const std::string file = good + bad_header + good + bad_data + good + no_event + good + "noise" +
                           good + good.substr(0, 20);
  const Result found = decode(file);
  CHECK_EQ(found.snapshot.events, uint64_t{6});
  CHECK_EQ(count(found, Damage::kBadLengthCrc), uint64_t{1});
  CHECK_EQ(count(found, Damage::kBadDataCrc), uint64_t{1});
  CHECK_EQ(count(found, Damage::kNotAnEvent), uint64_t{1});
  CHECK_EQ(count(found, Damage::kGarbage), uint64_t{1});
  CHECK_EQ(found.pending, uint64_t{20});
  uint64_t covered = 0, last = 0;
  for (const DamageSpan& span : found.damages.spans) {
    CHECK(span.offset >= last);
    last = span.offset + span.size;
    covered += span.size;
  }
  CHECK_EQ(covered, good.size() * 2 + no_event.size() + 5);
}

TEST(decoder_of_files_that_are_no_event_files) {
  Random random(5);
  for (const std::string& file :
       {std::string(), random.bytes(100000), std::string(100000, '\0'), std::string(100000, '\xff'),
        std::string("#!/bin/sh\necho not events\n")}) {
    const Result found = decode(file);
    CHECK_EQ(found.snapshot.events, uint64_t{0});
    CHECK(found.snapshot.series.empty());
    CHECK(found.pending <= file.size());
  }
}

TEST(decoder_lets_go_of_garbage) {
  Decoder decoder;
  const std::vector<uint8_t> zeros(size_t{1} << 20);
  for (int i = 0; i < 20; ++i) {
    decoder.feed(zeros.data(), zeros.size());
    CHECK(decoder.pending() <= size_t{5} << 20);
  }
  CHECK_EQ(decoder.damages().counts[static_cast<int>(Damage::kGarbage)], uint64_t{1});
  const std::string good = record_of(scalar_event(1, 1, "a", 1));
  decoder.feed(data_of(good), good.size());
  CHECK_EQ(decoder.events(), uint64_t{1});
}

TEST(decoder_keeps_so_many_damages_and_counts_the_rest) {
  const std::string bad = record_of("\xff");
  std::string file;
  for (size_t i = 0; i < kMaxKeptDamages + 50; ++i) file += bad;
  const Result found = decode(file);
  CHECK_EQ(found.damages.spans.size(), kMaxKeptDamages);
  CHECK_EQ(count(found, Damage::kNotAnEvent), uint64_t{kMaxKeptDamages + 50});
}

TEST(decoder_takes_so_many_tags_and_counts_the_rest) {
  Decoder decoder;
  constexpr size_t kMore = 1000;
  std::string summary;
  auto add = [&](const std::string& tag, std::string_view more) {
    summary += {'\x0a', static_cast<char>(2 + tag.size() + more.size()), '\x0a',
                static_cast<char>(tag.size())};
    summary += tag;
    summary += more;
  };
  auto feed = [&] {
    const std::string record = record_of(Message().bytes(5, summary));
    decoder.feed(data_of(record), record.size());
    summary.clear();
  };
  for (size_t i = 0; i < kMaxTags + kMore; ++i) {
    add(std::to_string(i), "");
    if (summary.size() > 50000) feed();
  }
  const std::string number = Message().float32(2, 1).text();
  add("0", number);  // a tag that is known goes on
  add("unheard of", number);
  feed();
  const std::string graph = record_of(Message().message(8, Message().bytes(1, "new").bytes(2, "")));
  decoder.feed(data_of(graph), graph.size());
  CHECK_EQ(decoder.tags().size(), kMaxTags);
  CHECK_EQ(decoder.over_limit(), uint64_t{kMore + 2});
  CHECK_EQ(decoder.tags()[0]->column.collect().size, size_t{1});
}

TEST(decoder_takes_so_many_bytes_of_tags) {
  Decoder decoder;
  const std::string metadata(size_t{64} << 20, '\0');
  auto feed = [&](std::string_view tag, size_t metadata_size) {
    // metadata { display_name: "\0\0…" }, and a number
    const std::string front = Message().key(2, 2).number(metadata_size).text();
    Message value;
    value.bytes(1, tag).float32(2, 1).key(9, 2).number(front.size() + metadata_size);
    value.raw(front).raw(std::string_view(metadata).substr(0, metadata_size));
    ByteBuffer record;
    append_summary(record, 1, 1, Message().message(1, value).text());
    decoder.feed(record.data(), record.size());
  };
  for (const char* tag : {"a", "b", "c"}) feed(tag, metadata.size());
  feed("d", metadata.size() - (size_t{1} << 20));
  CHECK_EQ(decoder.over_limit(), uint64_t{0});
  feed(std::string(size_t{2} << 20, 'x'), 0);
  CHECK_EQ(decoder.over_limit(), uint64_t{1});
  // A tag that still fits is taken, its metadata that does not is left.
  feed("e", size_t{2} << 20);
  CHECK_EQ(decoder.over_limit(), uint64_t{1});
  CHECK_EQ(decoder.tags().size(), size_t{5});
  CHECK(!decoder.tags()[3]->metadata.empty());
  CHECK(decoder.tags()[4]->has_metadata && decoder.tags()[4]->metadata.empty());
  CHECK_EQ(decoder.tags()[4]->column.collect().size, size_t{1});
}

TEST(decoder_event_of_very_many_values_is_bounded) {
  // Two bytes each in the file: what is held of them must not be many times that.
  constexpr size_t kValues = 3'000'000;
  std::string summary;
  for (size_t i = 0; i < kValues; ++i) summary += std::string_view("\x0a\x00", 2);
  ParsedEvent event;
  const std::string bytes = Message().bytes(5, summary).text();
  parse_event(data_of(bytes), bytes.size(), event);
  CHECK(event.values.capacity() * sizeof(ParsedValue) <= size_t{256} << 20);
}

TEST(decoder_many_values_that_go_back_take_little_time) {
  // An old file in which each of many values purges its own tag.
  constexpr int kTags = 50000;
  Message summary;
  for (int i = 0; i < kTags; ++i) {
    summary.message(1, Message().bytes(1, std::to_string(i)).float32(2, 1));
    summary.message(1, Message().bytes(1, std::to_string(i)).bytes(4, ""));
  }
  std::string file = record_of(version_event("brain.Event:1"));
  for (const uint64_t step : {9, 5})
    file += record_of(Message().varint(2, step).message(5, summary));
  const std::clock_t start = std::clock();
  const Snapshot found = snapshot(file);
  CHECK(std::clock() - start < 5 * CLOCKS_PER_SEC);  // a minute, when each looks at all
  CHECK_EQ(found.series.size(), size_t{kTags});
  CHECK_EQ(found.blobs.size(), size_t{kTags});
  for (const Blob& blob : found.blobs) CHECK_EQ(blob.step, int64_t{5});
}

TEST(decoder_records_that_overlap_take_little_time) {
  // Headers that prove themselves, of data that does not, one inside the other.
  std::string file;
  constexpr size_t kSize = size_t{1} << 20;
  while (file.size() < kSize) file += header_for(kSize - file.size());
  const std::clock_t start = std::clock();
  CHECK_EQ(snapshot("xxxxxxxxxxxxxxxx" + file + std::string(100, 'x')).events, uint64_t{0});
  CHECK(std::clock() - start < 5 * CLOCKS_PER_SEC);
}

class TemporaryFile {
 public:
  TemporaryFile() {
    fd_ = ::mkstemp(path_);
    if (fd_ < 0) throw std::runtime_error("mkstemp");
  }
  ~TemporaryFile() {
    ::close(fd_);
    ::unlink(path_);
  }
  void append(std::string_view bytes) {
    CHECK_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/tbhub-test-XXXXXX";
  int fd_;
};

TEST(decoder_reads_a_growing_file) {
  Random random(6);
  TemporaryFile file;
  std::string all;
  Decoder decoder;
  for (int round = 0; round < 50; ++round) {
    const std::string more = random_file(random, 200);
    // Cut anywhere: the rest of the last record comes with the next round.
    const size_t cut = random.below(more.size());
    for (const std::string_view part :
         {std::string_view(more).substr(0, cut), std::string_view(more).substr(cut)}) {
      file.append(part);
      all += part;
      const uint64_t limit = random.one_in(3) ? random.below(5000) : UINT64_MAX;
      CHECK(decoder.read_file(file.path(), limit) <= limit);
    }
  }
  decoder.read_file(file.path(), UINT64_MAX);
  CHECK_EQ(decoder.offset(), uint64_t{all.size()});
  CHECK_EQ(decoder.read_file(file.path(), UINT64_MAX), uint64_t{0});
  const Result found{drain(decoder, all), decoder.damages(), decoder.pending()};
  CHECK(found == decode(all));
}

TEST(decoder_reads_records_larger_than_its_buffer) {
  TemporaryFile file;
  std::string all;
  for (const size_t size : {size_t{3} << 20, size_t{10}, size_t{1} << 20, (size_t{256} << 10) - 16})
    all += record_of(value_event(1, 1, Message().bytes(1, "b").bytes(3, std::string(size, 'x'))));
  file.append(all);
  Decoder decoder;
  CHECK_EQ(decoder.read_file(file.path(), UINT64_MAX), uint64_t{all.size()});
  CHECK_EQ(decoder.events(), uint64_t{4});
  CHECK_EQ(decoder.pending(), uint64_t{0});
  CHECK(drain(decoder, all) == snapshot(all));
}

TEST(decoder_says_what_it_cannot_read) {
  Decoder decoder;
  CHECK_THROWS(std::system_error, decoder.read_file("/nowhere/at all", UINT64_MAX));
  CHECK_THROWS(std::system_error, decoder.read_file("/tmp", UINT64_MAX));
  const std::string half = record_of(scalar_event(1, 1, "a", 1));
  decoder.feed(data_of(half), 20);
  CHECK_THROWS(std::system_error, decoder.read_file("/tmp", UINT64_MAX));
  CHECK_EQ(decoder.pending(), uint64_t{20});  // nothing is lost by the attempt
  decoder.feed(data_of(half) + 20, half.size() - 20);
  CHECK_EQ(decoder.events(), uint64_t{1});
}

}  // namespace
}  // namespace tbhub::testing
