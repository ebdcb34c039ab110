#include "decoder.h"

#include <algorithm>
#include <utility>

#include "file.h"

namespace tbhub {
namespace {

// Small enough to stay in the second-level cache between read and decode.
constexpr size_t kReadSize = size_t{256} << 10;
constexpr size_t kMaxShape = 4096;

constexpr uint8_t kWallTimeKey = 0x09;  // field 1, fixed64
constexpr uint8_t kStepKey = 0x10;      // field 2, varint

// The usual front of an event. Returns what stands behind it, or null for any other layout.
inline const uint8_t* parse_front(const uint8_t* p, const uint8_t* end, double& wall_time,
                                  int64_t& step) {
  if (end - p < 20 || *p != kWallTimeKey) return nullptr;  // 20: front of the longest step
  wall_time = load<double>(p + 1);
  p += 9;
  step = 0;
  if (*p != kStepKey) return p;
  ++p;
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = *p++;
    value |= uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) {
      step = static_cast<int64_t>(value);
      return p;
    }
  }
  return nullptr;
}

inline bool same_bytes(const uint8_t* a, const uint8_t* b, size_t size) {
  for (; size >= 8; a += 8, b += 8, size -= 8)
    if (load<uint64_t>(a) != load<uint64_t>(b)) return false;
  for (; size; ++a, ++b, --size)
    if (*a != *b) return false;
  return true;
}

// Where a file is read to: always to the same page-aligned address, behind the unfinished record
// that is held from the read before. The alignment matters: copying to 16 bytes behind the start of
// a page, where malloc puts large blocks, was seen to be four times slower on some processors.
class ReadBuffer {
 public:
  uint8_t* landing() const { return memory_.get() + slack_; }
  size_t room() const { return room_; }

  // Puts bytes, which may stand in this buffer, right before the landing.
  void hold(const uint8_t* data, size_t size) {
    if (size > slack_ || memory_ == nullptr) {
      // A record larger than all so far. Room grows with it, so that it is moved only now and then.
      ReadBuffer larger;
      larger.slack_ = (size * 2 + kPage - 1) / kPage * kPage;
      larger.room_ = std::max(kReadSize, larger.slack_);
      larger.memory_.reset(
          static_cast<uint8_t*>(std::aligned_alloc(kPage, larger.slack_ + larger.room_)));
      if (larger.memory_ == nullptr) throw std::bad_alloc();
      std::copy_n(data, size, larger.landing() - size);
      std::swap(*this, larger);
    } else if (size > 0) {
      std::memmove(landing() - size, data, size);
    }
  }

  // Gives back what an unusually large record has needed.
  void trim() {
    if (room_ > 4 * kReadSize) *this = ReadBuffer();
  }

 private:
  static constexpr size_t kPage = 4096;
  Array<uint8_t> memory_;
  size_t slack_ = 0;
  size_t room_ = 0;
};

}  // namespace

void DamageList::add(uint64_t offset, uint64_t size, Damage kind) {
  if (kind == Damage::kGarbage && !spans.empty()) {
    DamageSpan& last = spans.back();
    if (last.kind == Damage::kGarbage && last.offset + last.size == offset) {
      last.size += size;
      return;
    }
  }
  ++counts[static_cast<int>(kind)];
  if (spans.size() < kMaxKeptDamages) spans.push_back({offset, size, kind});
}

void BlobIndex::purge(int64_t step, const std::unordered_set<uint32_t>* only) {
  size_t kept = 0;
  for (size_t i = 0; i < size(); ++i) {
    if (steps[i] >= step && (only == nullptr || only->contains(tags[i]))) continue;
    tags[kept] = tags[i];
    kinds[kept] = kinds[i];
    steps[kept] = steps[i];
    wall_times[kept] = wall_times[i];
    offsets[kept] = offsets[i];
    sizes[kept] = sizes[i];
    ++kept;
  }
  tags.resize(kept);
  kinds.resize(kept);
  steps.resize(kept);
  wall_times.resize(kept);
  offsets.resize(kept);
  sizes.resize(kept);
}

void Decoder::feed(const uint8_t* data, size_t size) {
  if (pending_.empty()) {
    const size_t used = consume(data, size, offset_);
    pending_.assign(data + used, data + size);
  } else {
    const uint64_t at = offset_ - pending_.size();
    pending_.insert(pending_.end(), data, data + size);
    const size_t used = consume(pending_.data(), pending_.size(), at);
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(used));
  }
  offset_ += size;
}

uint64_t Decoder::read_file(const char* path, uint64_t limit) {
  // One buffer per thread: thousands of decoders share it, each keeps only its unfinished record.
  static thread_local ReadBuffer buffer;
  File file(path);
  // Bytes that begin no record may have been zeros of a network file system, shown before the
  // real ones had arrived: they are read again. The beginning of a record is kept.
  if (pending_.size() >= kHeaderSize && !header_is_good(pending_.data())) {
    offset_ -= pending_.size();
    pending_.clear();
  }
  size_t held = pending_.size();
  buffer.hold(pending_.data(), held);
  pending_.clear();
  uint64_t total = 0;
  while (total < limit) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(buffer.room(), limit - total));
    size_t got = 0;
    try {
      got = file.read(buffer.landing(), want, offset_);
    } catch (...) {
      pending_.assign(buffer.landing() - held, buffer.landing());
      throw;
    }
    if (got == 0) break;
    const uint8_t* const data = buffer.landing() - held;
    const size_t size = held + got;
    const size_t used = consume(data, size, offset_ - held);
    offset_ += got;
    total += got;
    held = size - used;
    buffer.hold(data + used, held);
  }
  pending_.assign(buffer.landing() - held, buffer.landing());
  buffer.trim();
  return total;
}

// Decodes every whole record in [data, data + size), which begins at file offset `at`; returns
// how many bytes it is done with.
size_t Decoder::consume(const uint8_t* data, size_t size, uint64_t at) {
  const uint8_t* p = data;
  const uint8_t* const end = data + size;
  // Records of one writer come in few lengths: a header seen to be good needs no second proof.
  uint8_t proven[kHeaderSize] = {};
  bool has_proven = false;
  for (;;) {
    const size_t left = static_cast<size_t>(end - p);
    if (left >= kFrameSize) [[likely]] {
      const bool known = has_proven && load<uint64_t>(p) == load<uint64_t>(proven) &&
                         load<uint32_t>(p + 8) == load<uint32_t>(proven + 8);
      if (known || header_is_good(p)) [[likely]] {
        if (!known) {
          std::memcpy(proven, p, kHeaderSize);
          has_proven = true;
        }
        const uint64_t length = load<uint64_t>(p);
        if (length > left - kFrameSize) return static_cast<size_t>(p - data);
        const uint8_t* const body = p + kHeaderSize;
        if (masked_crc32c(body, length) == load<uint32_t>(body + length)) [[likely]] {
          if (!decode_expected(body, length))
            decode(body, length, at + static_cast<uint64_t>(body - data));
          p += length + kFrameSize;
          continue;
        }
      }
    }
    const Scan scan = scan_record(p, left, false);
    if (scan.kind == Scan::kNeedMore) return static_cast<size_t>(p - data);
    const uint64_t here = at + static_cast<uint64_t>(p - data);
    if (scan.kind == Scan::kDamaged) damages_.add(here, scan.size, scan.damage);
    if (scan.data != nullptr)
      decode(scan.data, scan.data_size, at + static_cast<uint64_t>(scan.data - data));
    p += scan.size;
  }
}

inline void Decoder::push(Tag& tag, int64_t step, double wall_time, double value, bool is_double) {
  if (tag.column.empty()) [[unlikely]]
    fresh_.push_back(tag.number);
  if (is_double)
    tag.column.push_double(step, wall_time, value);
  else
    tag.column.push_float(step, wall_time, static_cast<float>(value));
}

inline void Decoder::expect_after(Tag& tag) {
  if (last_ != nullptr) last_->next = &tag;
  last_ = &tag;
  expected_ = tag.next;
}

// The fast path: the expected tag in the layout of its last record.
inline bool Decoder::decode_expected(const uint8_t* data, size_t size) {
  Tag* const tag = expected_;
  if (tag == nullptr || tag->shape.empty() || file_version_ < 2) return false;
  double wall_time;
  int64_t step;
  const uint8_t* const end = data + size;
  const uint8_t* const rest = parse_front(data, end, wall_time, step);
  if (rest == nullptr || static_cast<size_t>(end - rest) != tag->shape.size()) return false;
  const auto* shape = reinterpret_cast<const uint8_t*>(tag->shape.data());
  const size_t behind = tag->value_at + tag->value_width;
  if (!same_bytes(rest, shape, tag->value_at) ||
      !same_bytes(rest + behind, shape + behind, tag->shape.size() - behind))
    return false;
  ++events_;
  const uint8_t* const value = rest + tag->value_at;
  if (tag->value_width == 4)
    push(*tag, step, wall_time, load<float>(value), false);
  else
    push(*tag, step, wall_time, load<double>(value), true);
  last_ = tag;
  expected_ = tag->next;
  return true;
}

void Decoder::decode(const uint8_t* data, size_t size, uint64_t at) {
  if (decode_any(data, size, at))
    ++events_;
  else
    damages_.add(at - kHeaderSize, size + kFrameSize, Damage::kNotAnEvent);
}

bool Decoder::decode_any(const uint8_t* data, size_t size, uint64_t at) {
  if (!parse_event(data, size, event_)) return false;
  if (event_.has_version) file_version_ = event_.file_version;
  if (event_.session_start && file_version_ >= 2) purge(event_.step);
  if (file_version_ < 2) purge_old_style(event_);
  for (const ParsedValue& value : event_.values) take_value(event_, value, data, size, at);
  if (event_.has_payload) {
    Tag* const tag = find_tag(event_.payload_tag.text());
    if (tag == nullptr) {
      ++over_limit_;
    } else {
      blobs_.tags.push_back(tag->number);
      blobs_.kinds.push_back(static_cast<uint8_t>(event_.payload_kind));
      blobs_.steps.push_back(event_.step);
      blobs_.wall_times.push_back(event_.wall_time);
      blobs_.offsets.push_back(at + static_cast<uint64_t>(event_.payload.data - data));
      blobs_.sizes.push_back(event_.payload.size);
    }
  }
  return true;
}

void Decoder::take_value(const ParsedEvent& event, const ParsedValue& value, const uint8_t* data,
                         size_t size, uint64_t at) {
  Tag* const tag = find_tag(value.tag.text());
  if (tag == nullptr) {
    ++over_limit_;
    return;
  }
  if (value.has_metadata && !tag->has_metadata) {
    // The first metadata of a tag decides what it is, as in TensorBoard.
    tag->has_metadata = true;
    tag->shape.clear();  // what was a scalar without a plugin need not be one with it
    if (tag_bytes_ + value.metadata.size <= kMaxTagBytes) {
      tag->metadata.assign(value.metadata.text());
      tag->plugin.assign(value.plugin.text());
      tag_bytes_ += tag->metadata.size() + tag->plugin.size();
    }
  }
  const bool scalar = value.has_number && (value.is_simple || tag->plugin == "scalars" ||
                                           (tag->plugin.empty() && value.rank == 0));
  if (scalar) {
    push(*tag, event.step, event.wall_time, value.number, value.is_double);
    if (event.values.size() == 1) {
      learn_shape(*tag, value, data, size);
      expect_after(*tag);
    }
    return;
  }
  blobs_.tags.push_back(tag->number);
  blobs_.kinds.push_back(static_cast<uint8_t>(value.blob));
  blobs_.steps.push_back(event.step);
  blobs_.wall_times.push_back(event.wall_time);
  blobs_.offsets.push_back(at + static_cast<uint64_t>(value.message.data - data));
  blobs_.sizes.push_back(value.message.size);
}

void Decoder::learn_shape(Tag& tag, const ParsedValue& value, const uint8_t* data, size_t size) {
  double wall_time;
  int64_t step;
  const uint8_t* const rest = parse_front(data, data + size, wall_time, step);
  // A second front field behind the first would win over it, so only a bare summary will do.
  constexpr uint8_t kSummaryKey = 0x2a;
  if (rest == nullptr || *rest != kSummaryKey || value.number_at == nullptr) return;
  const size_t shape_size = static_cast<size_t>(data + size - rest);
  WireReader only(rest, shape_size);
  if (shape_size > kMaxShape || !only.next() || only.bytes().size == 0 || only.left() != 0) return;
  tag.shape.assign(reinterpret_cast<const char*>(rest), shape_size);
  tag.value_at = static_cast<size_t>(value.number_at - rest);
  tag.value_width = value.number_width;
}

void Decoder::purge(int64_t step) {
  for (const uint32_t number : fresh_) tags_[number]->column.purge(step);
  blobs_.purge(step, nullptr);
  purges_.push_back({step, -1});
}

// Files older than version 2 tell of a restart only by a step that goes back.
void Decoder::purge_old_style(const ParsedEvent& event) {
  if (event.values.empty() || event.step >= last_step_) {
    last_step_ = event.step;
    return;
  }
  std::unordered_set<uint32_t> purged;
  for (const ParsedValue& value : event.values) {
    Tag* const tag = find_tag(value.tag.text());
    if (tag == nullptr || !purged.insert(tag->number).second) continue;
    tag->column.purge(event.step);
    purges_.push_back({event.step, tag->number});
  }
  blobs_.purge(event.step, &purged);
}

Tag* Decoder::find_tag(std::string_view name) {
  if (const auto found = numbers_.find(name); found != numbers_.end())
    return tags_[found->second].get();
  if (tags_.size() >= kMaxTags || tag_bytes_ + name.size() > kMaxTagBytes) return nullptr;
  tags_.push_back(std::make_unique<Tag>());
  Tag* const tag = tags_.back().get();
  tag->name.assign(name);
  tag->number = static_cast<uint32_t>(tags_.size() - 1);
  tag_bytes_ += name.size();
  numbers_.emplace(tag->name, tag->number);
  return tag;
}

void Decoder::know_tag(std::string_view name, std::string_view plugin, std::string_view metadata) {
  Tag* const tag = find_tag(name);
  if (tag == nullptr || tag->has_metadata) return;
  tag->has_metadata = true;
  tag->plugin.assign(plugin);
  tag->metadata.assign(metadata);
  tag_bytes_ += plugin.size() + metadata.size();
}

std::vector<std::pair<const Tag*, Points>> Decoder::collect() {
  std::vector<Column::Packing> packings;
  packings.reserve(fresh_.size());
  size_t total = 0;
  for (const uint32_t number : fresh_) {
    packings.push_back(tags_[number]->column.plan());
    total += packings.back().bytes;
  }
  const std::shared_ptr<uint8_t> memory = allocate_piece(std::max<size_t>(1, total));
  std::vector<std::pair<const Tag*, Points>> collected;
  collected.reserve(fresh_.size());
  size_t used = 0;
  for (size_t i = 0; i < fresh_.size(); ++i) {
    Tag& tag = *tags_[fresh_[i]];
    std::shared_ptr<uint8_t> part(memory, memory.get() + used);
    used += packings[i].bytes;
    collected.emplace_back(&tag, tag.column.collect(packings[i], std::move(part)));
  }
  return collected;
}

void Decoder::drained() {
  fresh_.clear();
  blobs_ = {};
  purges_.clear();
}

}  // namespace tbhub
