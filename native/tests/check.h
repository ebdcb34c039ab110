// Just enough of a test framework: tests register themselves, checks report and go on.
#pragma once

#include <bit>
#include <cstdint>
#include <iomanip>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace tbhub::testing {

using Body = void (*)();

struct Registration {
  Registration(const char* name, Body body);
};

void fail(const char* file, int line, const std::string& what);

template <class T>
std::string show(const T& value) {
  if constexpr (requires(std::ostream & to) { to << value; }) {
    std::ostringstream text;
    text << std::setprecision(17) << value;
    return text.str();
  } else {
    return "a value without a text form";
  }
}

template <class A, class B>
bool check_equal(const char* file, int line, const char* text, const A& a, const B& b) {
  if (a == b) return true;
  fail(file, line, std::string(text) + ": " + show(a) + " != " + show(b));
  return false;
}

// Numbers that look random and are the same in every run.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t bits() { return engine_(); }
  size_t below(size_t bound) { return static_cast<size_t>(engine_() % bound); }
  bool one_in(size_t count) { return below(count) == 0; }
  std::string bytes(size_t size) {
    std::string made(size, '\0');
    for (char& byte : made) byte = static_cast<char>(engine_());
    return made;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tbhub::testing

#define TEST(name)                                                              \
  static void name();                                                           \
  static const ::tbhub::testing::Registration registration_##name{#name, name}; \
  static void name()

#define CHECK(condition) \
  ((condition) ? (void)0 : ::tbhub::testing::fail(__FILE__, __LINE__, #condition))

#define CHECK_EQ(a, b) ::tbhub::testing::check_equal(__FILE__, __LINE__, #a " == " #b, a, b)

#define CHECK_THROWS(exception, statement)                                                \
  do {                                                                                    \
    bool thrown = false;                                                                  \
    try {                                                                                 \
      statement;                                                                          \
    } catch (const exception&) {                                                          \
      thrown = true;                                                                      \
    }                                                                                     \
    if (!thrown)                                                                          \
      ::tbhub::testing::fail(__FILE__, __LINE__, #statement " should throw " #exception); \
  } while (false)
