// Runs every test, or those whose names contain an argument; says how many passed.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "check.h"

namespace tbhub::testing {
namespace {

struct Test {
  const char* name;
  Body body;
};

// Registrations run before main, in any order.
std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

std::atomic<int> failures{0};
const char* current = "";
constexpr int kShownFailures = 10;  // of one test: a loop that fails fails often
constexpr unsigned kMaxSeconds = 300;

bool is_wanted(const char* name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strstr(name, argv[i]) != nullptr) return true;
  return argc < 2;
}

}  // namespace

Registration::Registration(const char* name, Body body) { tests().push_back({name, body}); }

void fail(const char* file, int line, const std::string& what) {
  if (++failures <= kShownFailures)
    std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, current, what.c_str());
}

}  // namespace tbhub::testing

int main(int argc, char** argv) {
  using namespace tbhub::testing;
  ::alarm(kMaxSeconds);  // a test that hangs is a test that fails
  const bool timed = std::getenv("TEST_TIMES") != nullptr;
  int passed = 0, failed = 0;
  for (const Test& test : tests()) {
    if (!is_wanted(test.name, argc, argv)) continue;
    current = test.name;
    failures = 0;
    const auto start = std::chrono::steady_clock::now();
    try {
      test.body();
    } catch (const std::exception& error) {
      fail("exception", 0, error.what());
    }
    ++(failures == 0 ? passed : failed);
    if (timed) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      std::fprintf(stderr, "%7.3f s  %s\n", took.count(), test.name);
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
