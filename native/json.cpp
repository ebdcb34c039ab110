#include "json.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace tbhub {
namespace {

// The longest double is 24 characters, the longest step 20; the rest is punctuation.
constexpr size_t kMaxPoint = 128;

char* put(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

char* put(char* to, double number) {
  if (std::isnan(number)) return put(to, "\"NaN\"");
  if (std::isinf(number)) return put(to, number > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  return std::to_chars(to, to + 32, number).ptr;
}

char* put(char* to, int64_t number) { return std::to_chars(to, to + 32, number).ptr; }

}  // namespace

template <class Value>
std::string points_to_json(const double* wall_times, const int64_t* steps, const Value* values,
                           size_t size, JsonStyle style) {
  const bool objects = style == JsonStyle::kObjects;
  const std::string_view open = objects ? "{\"wallTime\":" : "[";
  const std::string_view to_step = objects ? ",\"step\":" : ",";
  const std::string_view to_value = objects ? ",\"value\":" : ",";
  const char close = objects ? '}' : ']';
  std::string text;
  text.resize(size * kMaxPoint + 2);
  char* to = text.data();
  *to++ = '[';
  for (size_t i = 0; i < size; ++i) {
    if (i > 0) *to++ = ',';
    to = put(to, open);
    to = put(to, wall_times[i]);
    to = put(to, to_step);
    to = put(to, steps[i]);
    to = put(to, to_value);
    to = put(to, static_cast<double>(values[i]));
    *to++ = close;
  }
  *to++ = ']';
  text.resize(static_cast<size_t>(to - text.data()));
  return text;
}

template std::string points_to_json(const double*, const int64_t*, const float*, size_t, JsonStyle);
template std::string points_to_json(const double*, const int64_t*, const double*, size_t,
                                    JsonStyle);

}  // namespace tbhub
