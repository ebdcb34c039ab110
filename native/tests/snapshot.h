// Everything a decoder has to say, in a form that can be compared.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "decoder.h"
#include "message.h"

namespace tbhub::testing {

// Numbers are kept as bits: NaN equals itself, and -0 is not 0.
struct Point {
  int64_t step;
  uint64_t wall_time;
  uint64_t value;
  auto operator<=>(const Point&) const = default;
};

struct Series {
  bool is_double = false;
  std::vector<Point> points;
  bool operator==(const Series&) const = default;
};

struct Blob {
  std::string tag;
  int kind;
  int64_t step;
  uint64_t wall_time;
  std::string content;
  bool operator==(const Blob&) const = default;
};

struct Snapshot {
  std::map<std::string, Series> series;
  std::map<std::string, std::string> plugins;  // of tags with metadata: the name and the metadata
  std::vector<Blob> blobs;
  std::vector<std::pair<int64_t, std::string>> purges;
  uint64_t events = 0;
  uint64_t over_limit = 0;

  bool operator==(const Snapshot&) const = default;
};

inline int64_t step_of(const Points& points, size_t i) {
  if (points.steps != nullptr) return points.steps[i];
  return static_cast<int64_t>(static_cast<uint64_t>(points.first_step) +
                              i * static_cast<uint64_t>(points.stride));
}

inline Series series_of(const Points& points) {
  Series series;
  series.is_double = points.doubles != nullptr;
  for (size_t i = 0; i < points.size; ++i) {
    const double value = series.is_double ? points.doubles[i] : points.floats[i];
    series.points.push_back({step_of(points, i), std::bit_cast<uint64_t>(points.wall_time(i)),
                             std::bit_cast<uint64_t>(value)});
  }
  return series;
}

// Drains the decoder, which has read `file` up to its offset.
inline Snapshot drain(Decoder& decoder, std::string_view file) {
  Snapshot found;
  found.events = decoder.events();
  found.over_limit = decoder.over_limit();
  for (const uint32_t number : decoder.fresh()) {
    Tag& tag = *decoder.tags()[number];
    Series series = series_of(tag.column.collect());
    if (!series.points.empty()) found.series[tag.name] = std::move(series);
  }
  for (const auto& tag : decoder.tags())
    if (tag->has_metadata) found.plugins[tag->name] = tag->plugin + '\0' + tag->metadata;
  const BlobIndex& blobs = decoder.blobs();
  for (size_t i = 0; i < blobs.size(); ++i)
    found.blobs.push_back({decoder.tags()[blobs.tags[i]]->name, blobs.kinds[i], blobs.steps[i],
                           std::bit_cast<uint64_t>(blobs.wall_times[i]),
                           std::string(file.substr(blobs.offsets[i], blobs.sizes[i]))});
  for (const Purge& purge : decoder.purges())
    found.purges.emplace_back(
        purge.step,
        purge.tag < 0 ? "" : "tag " + decoder.tags()[static_cast<size_t>(purge.tag)]->name);
  decoder.drained();
  return found;
}

inline bool same_damages(const DamageList& a, const DamageList& b) {
  if (a.spans.size() != b.spans.size()) return false;
  for (int kind = 0; kind < kDamageKinds; ++kind)
    if (a.counts[kind] != b.counts[kind]) return false;
  for (size_t i = 0; i < a.spans.size(); ++i)
    if (a.spans[i].offset != b.spans[i].offset || a.spans[i].size != b.spans[i].size ||
        a.spans[i].kind != b.spans[i].kind)
      return false;
  return true;
}

}  // namespace tbhub::testing
