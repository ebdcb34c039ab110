// One background thread per process that writes out every sink in time.
//
// It never touches Python, so it works while the interpreter is busy or shutting down. It also ends
// the process properly on SIGTERM, SIGHUP and SIGXCPU where the program left those to the system:
// the signal handler only wakes the thread, which writes everything and then lets the signal
// do what it would have done. A handler of the program's own is never replaced.
#pragma once

#include <atomic>
#include <memory>

namespace tbhub {

class Sink;

namespace flusher {

// From now on the sink is flushed in time, until it is removed.
void add(const std::shared_ptr<Sink>& sink);
void remove(const Sink* sink);

// Looks at every sink's deadline now; starts the thread where a fork has left it behind. Not to be
// called while holding a sink's lock.
void wake();

// Flushes all sinks; how many still hold data they cannot write.
size_t flush_all();

// Set when the process may end at any moment and without notice: each event is written at once.
inline std::atomic<bool> write_through{false};

}  // namespace flusher
}  // namespace tbhub
