// Points as JSON text, the way TensorBoard's pages want them.
//
// This is what a chart waits for. A number is the shortest text that reads back as the same double;
// what JSON has no number for is one of the strings "NaN", "Infinity" and "-Infinity".
#pragma once

#include <cstdint>
#include <string>

namespace tbhub {

enum class JsonStyle {
  kObjects,  // [{"wallTime":1.5,"step":0,"value":2.5},…]
  kTuples,   // [[1.5,0,2.5],…]
};

// Value is float or double.
template <class Value>
std::string points_to_json(const double* wall_times, const int64_t* steps, const Value* values,
                           size_t size, JsonStyle style);

}  // namespace tbhub
