#include "sink.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>

#include "check.h"
#include "decoder.h"
#include "flusher.h"
#include "message.h"
#include "snapshot.h"

namespace {
bool in_child = false;
}
// What the parent's threads held is out of reach in a forked child, but not lost.
extern "C" int __lsan_is_turned_off() { return in_child; }

namespace tbhub::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr double kNever = 3600;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/tbhub-test-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

  // The files' contents in the order of their names, which is the order of their opening.
  std::vector<std::string> files() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(path_)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> contents;
    for (const fs::path& path : paths) {
      std::ifstream file(path, std::ios::binary);
      contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return contents;
  }

 private:
  fs::path path_;
};

// The steps of each tag in a file that must be whole and open with its version.
std::map<std::string, std::vector<int64_t>> steps_in(const std::string& file) {
  Decoder decoder;
  decoder.feed(data_of(file), file.size());
  CHECK(decoder.damages().spans.empty());
  CHECK_EQ(decoder.pending(), uint64_t{0});
  CHECK(file.find("brain.Event:2") == kHeaderSize + 11);
  std::map<std::string, std::vector<int64_t>> steps;
  for (const auto& [tag, series] : drain(decoder, file).series)
    for (const Point& point : series.points) steps[tag].push_back(point.step);
  return steps;
}

std::map<std::string, std::vector<int64_t>> steps_in(const Folder& folder) {
  std::map<std::string, std::vector<int64_t>> all;
  for (const std::string& file : folder.files())
    for (const auto& [tag, steps] : steps_in(file))
      all[tag].insert(all[tag].end(), steps.begin(), steps.end());
  return all;
}

std::vector<int64_t> count_to(int64_t end, int64_t from = 0) {
  std::vector<int64_t> steps;
  for (int64_t step = from; step < end; ++step) steps.push_back(step);
  return steps;
}

// A sink as a writer has it: closed and forgotten when it goes.
class OpenSink {
 public:
  explicit OpenSink(const std::string& directory, double flush_seconds = kNever,
                    uint64_t max_queue = 0)
      : sink_(Sink::create(directory, ".test", flush_seconds, max_queue)) {
    sink_->open();
  }
  ~OpenSink() {
    sink_->close();
    flusher::remove(sink_.get());
  }
  Sink* operator->() const { return sink_.get(); }

 private:
  std::shared_ptr<Sink> sink_;
};

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(sink_writes_a_whole_file) {
  const Folder folder;
  const OpenSink sink(folder.path() + "/made/on/the/way");
  sink->add_session_start(0);
  for (int64_t step = 0; step < 100; ++step) sink->add_scalar(1, step, "loss", 0.5f);
  sink->add_summary(1, 1, Message().message(1, Message().bytes(1, "s").float32(2, 1)).text());
  sink->add_record(scalar_event(1, 2, "r", 1).text());
  CHECK_EQ(sink->pending_events(), uint64_t{103});
  CHECK(sink->flush());
  CHECK_EQ(sink->pending_events(), uint64_t{0});
  CHECK_EQ(sink->error().code, 0);
  CHECK(sink->path().ends_with(".test"));
  std::ifstream file(sink->path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  auto steps = steps_in(bytes);
  CHECK(steps["loss"] == count_to(100));
  CHECK(steps["s"] == count_to(2, 1));
  CHECK(steps["r"] == count_to(3, 2));
}

TEST(sink_adds_whole_series) {
  const Folder folder;
  constexpr size_t kCount = 40000;  // several batches
  {
    const OpenSink sink(folder.path());
    const std::vector<double> values(kCount, 0.25), wall_times(kCount, 7);
    std::vector<int64_t> steps = count_to(kCount);
    sink->add_scalars("counted", values.data(), nullptr, nullptr, kCount);
    sink->add_scalars("given", values.data(), steps.data(), wall_times.data(), kCount);
    sink->add_scalars("none", nullptr, nullptr, nullptr, 0);
  }
  auto steps = steps_in(folder);
  CHECK(steps["counted"] == count_to(kCount));
  CHECK(steps["given"] == count_to(kCount));
  CHECK_EQ(steps.size(), size_t{2});
}

TEST(sink_threads_lose_nothing) {
  const Folder folder;
  constexpr int64_t kEach = 5000;
  {
    const OpenSink sink(folder.path(), 0.001);
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number)
      threads.emplace_back([&, tag = "tag" + std::to_string(number)] {
        for (int64_t step = 0; step < kEach; ++step) sink->add_scalar(1, step, tag, 1);
      });
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        sink->flush();
        sink->error();
        sink->path();
      }
    });
    threads.emplace_back([&] {  // writers come and go meanwhile
      for (int i = 0; i < 20; ++i) OpenSink(folder.path())->add_scalar(1, i, "other", 1);
    });
    for (std::thread& thread : threads) thread.join();
  }
  auto steps = steps_in(folder);
  for (int number = 0; number < 4; ++number)
    CHECK(steps["tag" + std::to_string(number)] == count_to(kEach));
  CHECK(steps["other"] == count_to(20));
}

TEST(sink_is_flushed_in_time) {
  const Folder folder;
  const OpenSink sink(folder.path(), 0.05);
  const auto start = Clock::now();
  sink->add_scalar(1, 0, "a", 1);
  CHECK(comes_true([&] { return steps_in(folder)["a"].size() == 1; }));
  CHECK(Clock::now() - start >= 50ms);
  sink->add_scalar(1, 1, "a", 1);
  CHECK(comes_true([&] { return steps_in(folder)["a"].size() == 2; }));
}

TEST(sink_is_flushed_early_when_much_waits) {
  const Folder folder;
  const OpenSink sink(folder.path());
  const size_t count = kEagerSize / 30;
  for (size_t i = 0; i < count; ++i) sink->add_scalar(1, static_cast<int64_t>(i), "a", 1);
  CHECK(comes_true([&] { return !steps_in(folder)["a"].empty(); }));
}

TEST(sink_is_flushed_early_when_the_queue_is_full) {
  const Folder folder;
  const OpenSink sink(folder.path(), kNever, 10);
  for (int64_t step = 0; step < 9; ++step) sink->add_scalar(1, step, "a", 1);
  std::this_thread::sleep_for(50ms);
  CHECK(steps_in(folder)["a"].empty());
  sink->add_scalar(1, 9, "a", 1);
  CHECK(comes_true([&] { return steps_in(folder)["a"].size() == 10; }));
}

TEST(sink_opens_a_new_file_after_close) {
  const Folder folder;
  const OpenSink sink(folder.path());
  sink->add_scalar(1, 0, "a", 1);
  CHECK(sink->close());
  CHECK(sink->is_closed());
  CHECK_EQ(folder.files().size(), size_t{1});
  sink->add_scalar(1, 1, "a", 1);
  CHECK(sink->flush());
  CHECK(!sink->is_closed());
  CHECK_EQ(folder.files().size(), size_t{2});
  CHECK(steps_in(folder)["a"] == count_to(2));
}

TEST(sink_gathers_without_a_directory) {
  const auto sink = Sink::create("", "", kNever, 0);
  sink->open();
  sink->add_scalar(1, 4, "a", 1);
  CHECK_EQ(sink->pending_events(), uint64_t{1});
  const std::string taken = text_of(sink->take());
  CHECK(taken == record_of(scalar_event(1, 4, "a", 1)));
  CHECK(sink->take().empty());
  CHECK_EQ(sink->pending_events(), uint64_t{0});
}

TEST(sink_survives_a_deleted_directory) {
  const Folder folder;
  const std::string directory = folder.path() + "/run";
  const OpenSink sink(directory);
  sink->add_scalar(1, 0, "a", 1);
  CHECK(sink->flush());
  fs::remove_all(directory);
  sink->add_scalar(1, 1, "a", 1);
  CHECK(sink->flush());
  fs::remove(sink->path());  // the file alone
  sink->add_scalar(1, 2, "a", 1);
  CHECK(sink->flush());
  std::ifstream file(sink->path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  CHECK(steps_in(bytes)["a"] == count_to(3, 2));
}

TEST(sink_waits_while_the_directory_cannot_be_made) {
  const Folder folder;
  const std::string directory = folder.path() + "/run";
  const OpenSink sink(directory);
  fs::remove_all(directory);
  std::ofstream(directory) << "in the way";
  for (int64_t step = 0; step < 10; ++step) sink->add_scalar(1, step, "a", 1);
  CHECK(!sink->flush());
  CHECK(sink->troubled());
  CHECK(sink->error().code == ENOTDIR || sink->error().code == EEXIST);
  CHECK_EQ(sink->error().path, directory);
  CHECK_EQ(sink->error().pending, uint64_t{10});
  CHECK(!sink->close());
  CHECK(!sink->is_closed());
  fs::remove(directory);
  sink->add_scalar(1, 10, "a", 1);
  CHECK(sink->flush());
  CHECK(!sink->troubled());
  CHECK_EQ(sink->error().code, 0);
  std::ifstream file(sink->path(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  CHECK(steps_in(bytes)["a"] == count_to(11));
}

TEST(sink_that_cannot_open_says_why) {
  const Folder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto sink = Sink::create(folder.path() + "/file/below", "", kNever, 0);
  CHECK_THROWS(std::system_error, sink->open());
}

// No file of this process grows beyond `size` while this lives: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t size) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now = {size, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

TEST(sink_goes_on_in_the_middle_of_a_record_when_the_disk_has_room_again) {
  for (const rlim_t room : {0, 1, 50, 1000, 4096, 10007}) {
    const Folder folder;
    const OpenSink sink(folder.path());
    for (int64_t step = 0; step < 500; ++step) sink->add_scalar(1, step, "a", 1);
    {
      const FullDisk full(room);
      CHECK(!sink->flush());
      CHECK(!sink->flush());
      CHECK(sink->troubled());
      CHECK_EQ(sink->error().code, EFBIG);
      CHECK_EQ(sink->error().path, sink->path());
      // What waits and what stands whole in the file is everything.
      Decoder written;
      written.read_file(sink->path().c_str(), UINT64_MAX);
      const uint64_t whole = written.events() - (written.events() > 0);  // but for the version
      CHECK(sink->error().pending <= 500 && sink->error().pending + whole >= 500);
      for (int64_t step = 500; step < 600; ++step) sink->add_scalar(1, step, "a", 1);
      CHECK(!sink->close());
    }
    CHECK(sink->flush());
    CHECK_EQ(sink->error().code, 0);
    CHECK_EQ(sink->error().dropped, uint64_t{0});
    CHECK_EQ(folder.files().size(), size_t{1});
    CHECK(steps_in(folder)["a"] == count_to(600));
  }
}

TEST(sink_tries_again_by_itself) {
  const Folder folder;
  const OpenSink sink(folder.path(), 0.01);
  {
    const FullDisk full(100);
    for (int64_t step = 0; step < 500; ++step) sink->add_scalar(1, step, "a", 1);
    CHECK(comes_true([&] { return sink->troubled(); }));
  }
  CHECK(comes_true([&] { return !sink->troubled(); }));
  CHECK(comes_true([&] { return steps_in(folder)["a"] == count_to(500); }));
}

// The thread sanitizer cannot follow a child that starts threads, so forks are the other's work.
#if !defined(__SANITIZE_THREAD__)
TEST(sink_holds_so_much_and_counts_what_it_drops) {
  const Folder folder;
  const OpenSink sink(folder.path());
  const std::string record(size_t{1} << 20, '\x12');  // no event, but bytes are bytes
  {
    const FullDisk full(1000);
    sink->add_scalar(1, 0, "a", 1);
    for (int i = 0; i < 10; ++i) sink->add_scalar(1, i, std::string(500, 'a'), 1);
    CHECK(!sink->flush());
    for (int i = 0; i < 80; ++i) sink->add_record(record);
    const SinkError error = sink->error();
    CHECK(error.dropped >= 10 && error.dropped <= 20);
    const uint64_t kept = error.pending + error.dropped;
    CHECK(kept <= 91 && kept >= 88);  // all, but for what fit on the disk
  }
  CHECK(sink->flush());
  CHECK_EQ(sink->error().pending, uint64_t{0});
}

// Runs `body` in a forked child, which ends as `body` ends it or with status 0.
int run_in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    in_child = true;
    body();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(sink_forked_child_has_a_file_of_its_own) {
  const Folder folder;
  const OpenSink sink(folder.path());
  sink->add_scalar(1, 0, "written", 1);
  CHECK(sink->flush());
  sink->add_scalar(1, 0, "waiting", 1);
  CHECK_EQ(run_in_child([&] {
             if (sink->pending_events() != 0) ::_exit(1);
             sink->add_scalar(1, 1, "child", 1);
             if (!sink->flush()) ::_exit(2);
             sink->add_scalar(1, 2, "child", 1);
             if (!sink->close()) ::_exit(3);
           }),
           0);
  // A child that adds nothing leaves no file behind.
  CHECK_EQ(run_in_child([&] { sink->flush(); }), 0);
  sink->add_scalar(1, 1, "waiting", 1);
  CHECK(sink->flush());
  CHECK_EQ(folder.files().size(), size_t{2});
  auto steps = steps_in(folder);
  CHECK(steps["written"] == count_to(1));
  CHECK(steps["waiting"] == count_to(2));
  CHECK(steps["child"] == count_to(3, 1));
}

TEST(sink_child_is_flushed_in_time_and_at_exit) {
  const Folder folder;
  const OpenSink sink(folder.path(), 0.02);
  CHECK_EQ(run_in_child([&] {
             sink->add_scalar(1, 0, "in time", 1);
             ::_exit(comes_true([&] { return sink->pending_events() == 0; }) ? 0 : 1);
           }),
           0);
  CHECK(steps_in(folder)["in time"] == count_to(1));
}

TEST(sink_is_written_at_exit_and_by_signals) {
  const Folder folder;
  const OpenSink sink(folder.path());
  CHECK_EQ(run_in_child([&] {
             sink->add_scalar(1, 0, "exit", 1);
             std::exit(0);
           }),
           0);
  CHECK(steps_in(folder)["exit"] == count_to(1));
  for (const int signal : {SIGTERM, SIGHUP}) {
    const std::string tag = "signal " + std::to_string(signal);
    const int status = run_in_child([&] {
      ::signal(signal, SIG_DFL);  // whoever runs the tests may have it ignored, as nohup does
      sink->add_scalar(1, 0, tag, 1);
      ::kill(::getpid(), signal);
      std::this_thread::sleep_for(10s);
    });
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    CHECK(steps_in(folder)[tag] == count_to(1));
  }
}

TEST(sink_forks_while_threads_add) {
  const Folder folder;
  constexpr int64_t kEach = 3000;
  constexpr int kChildren = 15;
  {
    const OpenSink sink(folder.path(), 0.001);
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; ++number)
      threads.emplace_back([&, tag = "tag" + std::to_string(number)] {
        for (int64_t step = 0; step < kEach; ++step) sink->add_scalar(1, step, tag, 1);
      });
    for (int child = 0; child < kChildren; ++child)
      CHECK_EQ(run_in_child([&] {
                 sink->add_scalar(1, child, "child", 1);
                 if (!sink->close()) ::_exit(1);
               }),
               0);
    for (std::thread& thread : threads) thread.join();
  }
  auto steps = steps_in(folder);
  for (int number = 0; number < 3; ++number)
    CHECK(steps["tag" + std::to_string(number)] == count_to(kEach));
  std::sort(steps["child"].begin(), steps["child"].end());
  CHECK(steps["child"] == count_to(kChildren));
}
#endif

TEST(sink_flush_all_says_how_many_are_stuck) {
  const Folder folder;
  const OpenSink one(folder.path()), other(folder.path());
  one->add_scalar(1, 0, "a", 1);
  other->add_scalar(1, 1, "a", 1);
  {
    const FullDisk full(1);
    CHECK_EQ(flusher::flush_all(), size_t{2});
  }
  CHECK_EQ(flusher::flush_all(), size_t{0});
  CHECK(steps_in(folder)["a"] == count_to(2));
}

TEST(sink_takes_any_flush_time) {
  const Folder folder;
  for (const double seconds :
       {0.0, -1.0, 1e300, -1e300, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    const OpenSink sink(folder.path(), seconds);
    sink->add_scalar(1, 0, "a", 1);
    CHECK(sink->flush());
  }
}

}  // namespace
}  // namespace tbhub::testing
