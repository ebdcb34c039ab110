// From the bytes of one event file to columns per tag, incrementally.
//
// The decoder is handed bytes in order, in pieces of any size, and keeps only what it cannot use
// yet. Scalars become points in columns; everything else is indexed by where it stands in
// the file. drain() is not needed between feeds, but empties what has been collected.
//
// Speed comes from one observation: a writer's records for one tag differ only in wall time, step
// and value. Each tag therefore remembers the bytes of its last record around the value, and
// each tag remembers which tag came after it. A record that matches the expectation is one
// comparison, and everything else takes the general path, which decides anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "column.h"
#include "event.h"
#include "record.h"

namespace tbhub {

// Bounds on what a hostile or broken file can make a decoder hold.
constexpr size_t kMaxTags = 1'000'000;
constexpr size_t kMaxTagBytes = size_t{256} << 20;
constexpr size_t kMaxKeptDamages = 10'000;

struct DamageSpan {
  uint64_t offset;
  uint64_t size;
  Damage kind;
};

// Damage found so far: counts by kind, and the first places in detail.
struct DamageList {
  std::vector<DamageSpan> spans;
  uint64_t counts[kDamageKinds] = {};

  // Joins a span to the one right before it when both are garbage.
  void add(uint64_t offset, uint64_t size, Damage kind);
};

// Values that are not scalars: where they stand.
struct BlobIndex {
  std::vector<uint32_t> tags;
  std::vector<uint8_t> kinds;
  std::vector<int64_t> steps;
  std::vector<double> wall_times;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> sizes;

  size_t size() const { return tags.size(); }
  // Drops what stands at `step` or later; of the given tags only, or of all where that is null.
  void purge(int64_t step, const std::unordered_set<uint32_t>* only);
};

struct Purge {
  int64_t step;
  int64_t tag;  // -1: every tag
};

struct Tag {
  uint32_t number = 0;
  std::string name;
  std::string plugin;
  std::string metadata;  // of the first value that had any
  bool has_metadata = false;
  Column column;

  // The last record from behind its step on, with the value left out of the comparison.
  std::string shape;
  size_t value_at = 0;
  uint8_t value_width = 0;
  Tag* next = nullptr;
};

class Decoder {
 public:
  Decoder() = default;
  // Goes on in a file of which an earlier decoder has decoded everything before `offset`; it said
  // version and step, and what it knew of tags is told by know_tag().
  Decoder(uint64_t offset, int file_version, int64_t last_step)
      : offset_(offset), file_version_(file_version), last_step_(last_step) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The first metadata of a tag decides what it is: a decoder that goes on must know it.
  void know_tag(std::string_view name, std::string_view plugin, std::string_view metadata);

  // Takes the next bytes of the file.
  void feed(const uint8_t* data, size_t size);

  // Reads the file at `path` from offset() to its end, at most `limit` bytes; returns how many.
  // Throws std::system_error.
  uint64_t read_file(const char* path, uint64_t limit);

  // The file offset behind the last byte taken, and how many of those wait for more.
  uint64_t offset() const { return offset_; }
  uint64_t pending() const { return pending_.size(); }
  uint64_t events() const { return events_; }
  int file_version() const { return file_version_; }
  int64_t last_step() const { return last_step_; }
  uint64_t over_limit() const { return over_limit_; }
  const DamageList& damages() const { return damages_; }
  const std::vector<std::unique_ptr<Tag>>& tags() const { return tags_; }

  // What came since the last drain; the caller collects the columns and then calls drained().
  const std::vector<uint32_t>& fresh() const { return fresh_; }
  std::vector<std::pair<const Tag*, Points>> collect();
  BlobIndex& blobs() { return blobs_; }
  std::vector<Purge>& purges() { return purges_; }
  void drained();

 private:
  size_t consume(const uint8_t* data, size_t size, uint64_t at);
  bool decode_expected(const uint8_t* data, size_t size);
  void decode(const uint8_t* data, size_t size, uint64_t at);
  bool decode_any(const uint8_t* data, size_t size, uint64_t at);
  void take_value(const ParsedEvent& event, const ParsedValue& value, const uint8_t* data,
                  size_t size, uint64_t at);
  void learn_shape(Tag& tag, const ParsedValue& value, const uint8_t* data, size_t size);
  void expect_after(Tag& tag);
  void purge_old_style(const ParsedEvent& event);
  void purge(int64_t step);
  Tag* find_tag(std::string_view name);
  void push(Tag& tag, int64_t step, double wall_time, double value, bool is_double);

  uint64_t offset_ = 0;
  std::vector<uint8_t> pending_;
  uint64_t events_ = 0;
  uint64_t over_limit_ = 0;
  int file_version_ = 2;
  int64_t last_step_ = 0;
  DamageList damages_;

  std::vector<std::unique_ptr<Tag>> tags_;
  std::unordered_map<std::string_view, uint32_t> numbers_;
  size_t tag_bytes_ = 0;
  Tag* last_ = nullptr;
  Tag* expected_ = nullptr;

  std::vector<uint32_t> fresh_;
  BlobIndex blobs_;
  std::vector<Purge> purges_;
  ParsedEvent event_;
};

}  // namespace tbhub
