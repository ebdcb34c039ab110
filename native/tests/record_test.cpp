#include "record.h"

#include <algorithm>
#include <string>

#include "check.h"
#include "message.h"

namespace tbhub::testing {
namespace {

struct Found {
  std::vector<std::string> kept;  // good and saved records
  size_t saved = 0;
  size_t damages[kDamageKinds] = {};  // garbage that comes in several pieces counts once
  size_t all_damages() const {
    size_t all = 0;
    for (const size_t count : damages) all += count;
    return all;
  }
};

// Scans to the end, and checks what must hold for any input on the way.
Found scan_all(const std::string& bytes) {
  Found found;
  size_t at = 0;
  bool in_garbage = false;
  while (at < bytes.size()) {
    const Scan scan = scan_record(data_of(bytes) + at, bytes.size() - at, true);
    CHECK(scan.kind != Scan::kNeedMore);
    CHECK(scan.size > 0 && scan.size <= bytes.size() - at);
    if (scan.kind == Scan::kNeedMore || scan.size == 0) break;
    if (scan.data != nullptr) {
      CHECK(scan.data >= data_of(bytes) + at);
      CHECK(scan.data + scan.data_size <= data_of(bytes) + at + scan.size);
      found.kept.emplace_back(reinterpret_cast<const char*>(scan.data), scan.data_size);
    }
    const bool garbage = scan.kind == Scan::kDamaged && scan.damage == Damage::kGarbage;
    if (scan.kind == Scan::kDamaged && !(garbage && in_garbage)) {
      ++found.damages[static_cast<int>(scan.damage)];
      found.saved += scan.data != nullptr;
    }
    in_garbage = garbage;
    at += scan.size;
  }
  CHECK_EQ(at, bytes.size());
  return found;
}

size_t count(const Found& found, Damage kind) { return found.damages[static_cast<int>(kind)]; }

struct Sample {
  std::vector<std::string> data;
  std::vector<size_t> starts;  // of each record, and the end of the last
  std::string file;

  size_t record_at(size_t position) const {
    return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), position) -
                               starts.begin()) -
           1;
  }
  std::vector<std::string> without(size_t record) const {
    std::vector<std::string> rest = data;
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(record));
    return rest;
  }
};

Sample make_sample(Random& random) {
  Sample sample;
  for (const size_t size : {24, 0, 51, 1, 130, 24, 24}) {
    sample.starts.push_back(sample.file.size());
    sample.data.push_back(random.bytes(size));
    sample.file += record_of(sample.data.back());
  }
  sample.starts.push_back(sample.file.size());
  return sample;
}

TEST(record_scan_of_a_sound_file) {
  Random random(1);
  const Sample sample = make_sample(random);
  const Found found = scan_all(sample.file);
  CHECK_EQ(found.kept.size(), sample.data.size());
  CHECK(found.kept == sample.data);
  CHECK_EQ(found.all_damages(), size_t{0});
}

TEST(record_bit_flipped_anywhere_costs_at_most_that_record) {
  Random random(2);
  const Sample sample = make_sample(random);
  for (size_t position = 0; position < sample.file.size(); ++position) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string file = sample.file;
      file[position] = static_cast<char>(file[position] ^ (1 << bit));
      const size_t hit = sample.record_at(position);
      const bool in_header = position - sample.starts[hit] < kHeaderSize;
      const Found found = scan_all(file);
      CHECK_EQ(found.all_damages(), size_t{1});
      if (in_header) {
        // The data proves itself, so nothing is lost.
        CHECK(found.kept == sample.data);
        CHECK_EQ(count(found, Damage::kBadLengthCrc), size_t{1});
      } else {
        CHECK(found.kept == sample.without(hit));
        CHECK_EQ(count(found, Damage::kBadDataCrc), size_t{1});
      }
    }
  }
}

TEST(record_byte_missing_anywhere_costs_at_most_that_record) {
  Random random(3);
  const Sample sample = make_sample(random);
  for (size_t position = 0; position < sample.file.size(); ++position) {
    std::string file = sample.file;
    file.erase(position, 1);
    const Found found = scan_all(file);
    CHECK_EQ(found.all_damages(), size_t{1});
    CHECK(found.kept == sample.without(sample.record_at(position)));
  }
}

TEST(record_byte_added_anywhere_costs_at_most_that_record) {
  Random random(4);
  const Sample sample = make_sample(random);
  for (size_t position = 0; position <= sample.file.size(); ++position) {
    std::string file = sample.file;
    // Neither of the bytes beside it: doubling one of those would only move the place.
    char other = 'x';
    while ((position > 0 && other == file[position - 1]) ||
           (position < file.size() && other == file[position]))
      ++other;
    file.insert(position, 1, other);
    const Found found = scan_all(file);
    const bool between = std::binary_search(sample.starts.begin(), sample.starts.end(), position);
    CHECK(found.all_damages() >= 1);
    if (between)
      CHECK(found.kept == sample.data);
    else
      CHECK(found.kept == sample.without(sample.record_at(position)));
  }
}

TEST(record_file_cut_anywhere_loses_the_last_record) {
  Random random(5);
  const Sample sample = make_sample(random);
  for (size_t size = 0; size < sample.file.size(); ++size) {
    const Found found = scan_all(sample.file.substr(0, size));
    const size_t whole = sample.record_at(size);
    CHECK_EQ(found.kept.size(), whole);
    const bool between = sample.starts[whole] == size;
    CHECK_EQ(count(found, Damage::kTruncated), size_t{!between});
    CHECK_EQ(found.all_damages(), size_t{!between});
  }
}

TEST(record_zeros_over_any_range_cost_only_what_they_cover) {
  Random random(6);
  const Sample sample = make_sample(random);
  for (size_t from = 0; from < sample.file.size(); from += 3) {
    for (size_t to = from + 1; to <= sample.file.size(); to += 7) {
      std::string file = sample.file;
      std::fill(file.begin() + static_cast<ptrdiff_t>(from),
                file.begin() + static_cast<ptrdiff_t>(to), '\0');
      const Found found = scan_all(file);
      const size_t first = sample.record_at(from), last = sample.record_at(to - 1);
      for (size_t i = 0; i < sample.data.size(); ++i)
        if (i < first || i > last)
          CHECK(std::find(found.kept.begin(), found.kept.end(), sample.data[i]) !=
                found.kept.end());
    }
  }
}

TEST(record_enormous_length_is_damage_even_when_proven) {
  const std::string good = record_of("good");
  for (const uint64_t length : {kMaxRecordSize + 1, uint64_t{1} << 40, UINT64_MAX}) {
    const Found found = scan_all(header_for(length) + good);
    CHECK(found.kept == std::vector<std::string>{"good"});
    CHECK_EQ(count(found, Damage::kGarbage), size_t{1});
  }
  // The longest length allowed only waits, and takes nothing.
  const std::string longest = header_for(kMaxRecordSize) + good;
  CHECK_EQ(int{scan_record(data_of(longest), longest.size(), false).kind}, int{Scan::kNeedMore});
  CHECK(scan_all(longest).kept == std::vector<std::string>{"good"});
}

TEST(record_scan_of_bytes_that_are_no_records) {
  Random random(7);
  CHECK_EQ(scan_all("").all_damages(), size_t{0});
  for (const size_t size : {1, 11, 12, 15, 16, 17, 100, 5000}) {
    for (const std::string& bytes : {random.bytes(size), std::string(size, '\0'),
                                     std::string(size, '\xff'), std::string(size, 'x')}) {
      const Found found = scan_all(bytes);
      CHECK(found.kept.empty());
      CHECK_EQ(found.all_damages(), size_t{1});
    }
  }
}

TEST(record_search_through_garbage_is_bounded) {
  // Past the bound the scan must let go of the bytes although nothing has been found.
  const std::string zeros(size_t{5} << 20, '\0');
  const Scan scan = scan_record(data_of(zeros), zeros.size(), false);
  CHECK_EQ(int{scan.kind}, int{Scan::kDamaged});
  CHECK(scan.size > (size_t{3} << 20));
}

// What a scan says must not depend on how many of the bytes behind it have arrived.
TEST(record_more_bytes_never_change_a_decision) {
  Random random(8);
  for (int round = 0; round < 60; ++round) {
    const Sample sample = make_sample(random);
    std::string file = sample.file;
    for (size_t damages = random.below(4); damages > 0; --damages) {
      const size_t position = random.below(file.size());
      switch (random.below(4)) {
        case 0:
          file[position] = static_cast<char>(random.bits());
          break;
        case 1:
          file.erase(position, random.below(30));
          break;
        case 2:
          file.insert(position, random.bytes(random.below(30)));
          break;
        default:
          file.insert(position, header_for(random.below(200)));
      }
      if (file.empty()) break;
    }
    for (size_t at = 0; at < file.size();) {
      const uint8_t* const p = data_of(file) + at;
      const Scan whole = scan_record(p, file.size() - at, false);
      for (size_t size = 0; size < file.size() - at; ++size) {
        const Scan part = scan_record(p, size, false);
        if (part.kind == Scan::kNeedMore) continue;
        if (part.kind != whole.kind || part.size != whole.size || part.damage != whole.damage ||
            part.data_size != whole.data_size) {
          CHECK(!"a decision changed when more bytes came");
          break;
        }
      }
      if (whole.kind == Scan::kNeedMore) break;
      at += whole.size;
    }
  }
}

TEST(record_damage_names_differ) {
  std::vector<std::string> names;
  for (int kind = 0; kind < kDamageKinds; ++kind) {
    names.emplace_back(damage_name(static_cast<Damage>(kind)));
    CHECK(names.back() != "unknown");
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

}  // namespace
}  // namespace tbhub::testing
