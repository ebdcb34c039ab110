// The kernel as Python sees it: `tbhub._kernel`, described in src/tbhub/_kernel.pyi.
//
// This file converts and nothing else. The GIL is given up wherever bytes are read, decoded, binned
// or written.

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "counters.h"
#include "crc32c.h"
#include "decoder.h"
#include "flusher.h"
#include "histogram.h"
#include "inspect.h"
#include "json.h"
#include "mapping.h"
#include "sink.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tbhub {
namespace {

// Gives up the GIL. A daemon thread that wants it back from a finished interpreter is ended by
// Python (before 3.14) with a forced unwind, which aborts the process in frames that may not
// throw: keep the thread here instead, as later Pythons do.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

std::string_view view(const nb::bytes& bytes) {
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

std::string file_system_path(nb::handle path) {
  PyObject* encoded = nullptr;
  if (!PyUnicode_FSConverter(path.ptr(), &encoded)) throw nb::python_error();
  const nb::bytes owned = nb::steal<nb::bytes>(encoded);
  return std::string(view(owned));
}

nb::object decoded_path(const std::string& path) {
  return nb::steal(
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

// OSError with errno, so that Python picks FileNotFoundError, PermissionError and the like.
[[noreturn]] void raise_os_error(int code, const std::string& path) {
  const nb::object arguments =
      nb::make_tuple(code, std::strerror(code), path.empty() ? nb::none() : decoded_path(path));
  PyErr_SetObject(PyExc_OSError, arguments.ptr());
  throw nb::python_error();
}

template <class T, class Owner>
auto numpy_view(const T* data, size_t size, Owner owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {size}, owner);
}

template <class T>
nb::object numpy_array(std::vector<T>&& values) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(numpy_view<T>(kept->data(), kept->size(), owner));
}

nb::dict damage_counts(const DamageList& damages) {
  nb::dict counts;
  for (int kind = 0; kind < kDamageKinds; ++kind)
    if (damages.counts[kind]) counts[damage_name(static_cast<Damage>(kind))] = damages.counts[kind];
  return counts;
}

nb::list damage_spans(const DamageList& damages) {
  nb::list spans;
  for (const DamageSpan& span : damages.spans)
    spans.append(nb::make_tuple(span.offset, span.size, damage_name(span.kind)));
  return spans;
}

nb::tuple drain(Decoder& decoder) {
  std::vector<std::pair<const Tag*, Points>> collected;
  {
    Unlocked unlocked;
    collected = decoder.collect();
  }
  nb::list columns;
  for (auto& [tag, points] : collected)
    if (points.size > 0) columns.append(nb::make_tuple(tag->name, std::move(points)));
  nb::object blobs = nb::none();
  if (decoder.blobs().size() > 0) {
    BlobIndex& index = decoder.blobs();
    nb::list names;
    for (const uint32_t number : index.tags) names.append(decoder.tags()[number]->name);
    blobs = nb::make_tuple(
        names, numpy_array(std::move(index.kinds)), numpy_array(std::move(index.steps)),
        numpy_array(std::move(index.wall_times)), numpy_array(std::move(index.offsets)),
        numpy_array(std::move(index.sizes)));
  }
  nb::list purges;
  for (const Purge& purge : decoder.purges())
    purges.append(nb::make_tuple(
        purge.step, purge.tag < 0
                        ? nb::none()
                        : nb::cast(decoder.tags()[static_cast<size_t>(purge.tag)]->name)));
  decoder.drained();
  return nb::make_tuple(columns, blobs, purges);
}

nb::dict plugins(const Decoder& decoder) {
  nb::dict found;
  for (const auto& tag : decoder.tags())
    if (tag->has_metadata)
      found[nb::cast(tag->name)] = nb::make_tuple(
          nb::steal(PyUnicode_DecodeUTF8(tag->plugin.data(),
                                         static_cast<Py_ssize_t>(tag->plugin.size()), "replace")),
          nb::bytes(tag->metadata.data(), tag->metadata.size()));
  return found;
}

nb::dict inspect(nb::handle path, int out) {
  const std::string name = file_system_path(path);
  Inspection found;
  int code = 0;
  {
    Unlocked unlocked;
    try {
      found = inspect_file(name.c_str(), out);
    } catch (const std::system_error& error) {
      code = error.code().value();
    }
  }
  if (code) raise_os_error(code, name);
  nb::dict result;
  result["size"] = found.size;
  result["good_events"] = found.good_events;
  result["saved_events"] = found.saved_events;
  result["counts"] = damage_counts(found.damages);
  result["damages"] = damage_spans(found.damages);
  return result;
}

template <class T>
nb::tuple histogram(nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> values) {
  Histogram found;
  {
    Unlocked unlocked;
    found = make_histogram(values.data(), values.shape(0));
  }
  return nb::make_tuple(found.sum, found.sum_squares, numpy_array(std::move(found.buckets)));
}

// A sink that belongs to one Python object: what it still holds is written when the object goes.
class OwnedSink {
 public:
  OwnedSink(nb::handle directory, nb::handle suffix, double flush_seconds, uint64_t max_queue)
      : directory_(directory.is_none() ? "" : file_system_path(directory)) {
    sink_ = Sink::create(directory_, file_system_path(suffix), flush_seconds, max_queue);
    Unlocked unlocked;
    if (!directory_.empty()) flusher::add(sink_);
  }

  void open() {
    int code = 0;
    std::string path = directory_;
    {
      Unlocked unlocked;
      try {
        sink_->open();
      } catch (const std::filesystem::filesystem_error& error) {
        code = error.code().value();
        path = error.path1().string();
      } catch (const std::system_error& error) {
        code = error.code().value();
      }
    }
    if (code) raise_os_error(code, path);
  }

  ~OwnedSink() {
    Unlocked unlocked;
    sink_->close();
    flusher::remove(sink_.get());
  }

  Sink* operator->() const { return sink_.get(); }

 private:
  const std::string directory_;
  std::shared_ptr<Sink> sink_;
};

// What add_scalar answers; 0 is "done, and all is well".
constexpr int kConvert = 1;    // nothing done: the caller converts the arguments and calls again
constexpr int kNonFinite = 2;  // done; the value is NaN or infinite as a float32
constexpr int kTroubled = 4;   // done; but the file cannot be written at the moment

int add_scalar(OwnedSink& sink, nb::handle tag, nb::handle value, nb::handle step,
               nb::handle wall_time) {
  double number;
  if (PyFloat_Check(value.ptr())) {
    number = PyFloat_AS_DOUBLE(value.ptr());
  } else if (PyLong_Check(value.ptr())) {
    number = PyLong_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      return kConvert;
    }
  } else {
    return kConvert;
  }
  int64_t count = 0;
  if (PyLong_Check(step.ptr())) {
    int overflow = 0;
    count = PyLong_AsLongLongAndOverflow(step.ptr(), &overflow);
    if (overflow) return kConvert;
  } else if (!step.is_none()) {
    return kConvert;
  }
  double when;
  if (wall_time.is_none()) {
    when = wall_clock();
  } else if (PyFloat_Check(wall_time.ptr())) {
    when = PyFloat_AS_DOUBLE(wall_time.ptr());
  } else {
    return kConvert;
  }
  if (!PyUnicode_Check(tag.ptr())) return kConvert;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(tag.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return kConvert;
  }
  const float narrow = static_cast<float>(number);
  sink->add_scalar(when, count, {text, static_cast<size_t>(size)}, narrow);
  return (std::isfinite(narrow) ? 0 : kNonFinite) | (sink->troubled() ? kTroubled : 0);
}

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void add_scalars(OwnedSink& sink, std::string_view tag, Vector<double> values,
                 std::optional<Vector<int64_t>> steps, std::optional<Vector<double>> wall_times) {
  const size_t size = values.shape(0);
  if ((steps && steps->shape(0) != size) || (wall_times && wall_times->shape(0) != size))
    throw nb::value_error("values, steps and wall_times differ in length");
  const std::string name(tag);
  Unlocked unlocked;
  sink->add_scalars(name, values.data(), steps ? steps->data() : nullptr,
                    wall_times ? wall_times->data() : nullptr, size);
}

template <class Value>
nb::bytes points_json(Vector<double> wall_times, Vector<int64_t> steps, Vector<Value> values,
                      bool as_objects) {
  const size_t size = values.shape(0);
  if (wall_times.shape(0) != size || steps.shape(0) != size)
    throw nb::value_error("wall_times, steps and values differ in length");
  std::string text;
  {
    Unlocked unlocked;
    text = points_to_json(wall_times.data(), steps.data(), values.data(), size,
                          as_objects ? JsonStyle::kObjects : JsonStyle::kTuples);
  }
  return nb::bytes(text.data(), text.size());
}

nb::object map_file(nb::handle path, uint64_t offset, uint64_t size) {
  const std::string name = file_system_path(path);
  std::unique_ptr<Mapping> mapping;
  try {
    mapping = std::make_unique<Mapping>(name.c_str(), offset, size);
  } catch (const std::system_error& error) {
    raise_os_error(error.code().value(), name);
  }
  const Mapping& found = *mapping;
  nb::capsule owner(mapping.release(), [](void* p) noexcept { delete static_cast<Mapping*>(p); });
  return nb::cast(numpy_view(found.data(), found.size(), owner));
}

nb::bytes take(OwnedSink& sink) {
  const ByteBuffer taken = sink->take();
  return nb::bytes(taken.data(), taken.size());
}

nb::object sink_error(OwnedSink& sink) {
  SinkError error;
  {
    Unlocked unlocked;  // a write that hangs must not hold up the other threads of the program
    error = sink->error();
  }
  if (error.code == 0 && error.dropped == 0) return nb::none();
  return nb::make_tuple(error.code, decoded_path(error.path), error.pending, error.dropped);
}

}  // namespace
}  // namespace tbhub

NB_MODULE(_kernel, m) {
  using namespace tbhub;
  nb::set_leak_warnings(false);  // writers may live until the process ends

  m.def(
      "crc32c",
      [](nb::bytes data, uint32_t crc) {
        return crc32c(static_cast<const uint8_t*>(data.data()), data.size(), crc);
      },
      "data"_a, "crc"_a = 0);
  m.def(
      "masked_crc32c",
      [](nb::bytes data) {
        return masked_crc32c(static_cast<const uint8_t*>(data.data()), data.size());
      },
      "data"_a);
  m.attr("crc32c_implementation") = crc32c_implementation();

  nb::class_<Points>(m, "Points")
      .def("__len__", [](const Points& self) { return self.size; })
      .def_prop_ro("nbytes", &Points::bytes)
      .def_ro("max_step", &Points::max_step)
      .def_ro("max_wall_time", &Points::max_wall_time)
      .def_prop_ro("ends",
                   [](const Points& self) {
                     const size_t last = self.size - 1;
                     const auto step = [&](size_t i) {
                       if (self.steps != nullptr) return self.steps[i];
                       return static_cast<int64_t>(static_cast<uint64_t>(self.first_step) +
                                                   i * static_cast<uint64_t>(self.stride));
                     };
                     return nb::make_tuple(step(0), self.wall_time(0), step(last),
                                           self.wall_time(last));
                   })
      .def_prop_ro("even_steps",
                   [](const Points& self) -> nb::object {
                     if (self.steps != nullptr) return nb::none();
                     return nb::make_tuple(self.first_step, self.stride);
                   })
      .def_prop_ro("steps",
                   [](nb::handle_t<Points> self) -> nb::object {
                     const Points& points = *nb::inst_ptr<Points>(self);
                     if (points.steps != nullptr)
                       return nb::cast(numpy_view(points.steps, points.size, nb::handle(self)));
                     std::vector<int64_t> steps(points.size);
                     for (size_t i = 0; i < points.size; ++i)
                       steps[i] = static_cast<int64_t>(static_cast<uint64_t>(points.first_step) +
                                                       i * static_cast<uint64_t>(points.stride));
                     return numpy_array(std::move(steps));
                   })
      .def_prop_ro("wall_times",
                   [](nb::handle_t<Points> self) -> nb::object {
                     const Points& points = *nb::inst_ptr<Points>(self);
                     if (points.wall_times != nullptr)
                       return nb::cast(numpy_view(points.wall_times, points.size, nb::handle(self)));
                     std::vector<double> wall_times(points.size);
                     for (size_t i = 0; i < points.size; ++i) wall_times[i] = points.wall_time(i);
                     return numpy_array(std::move(wall_times));
                   })
      .def_prop_ro("values", [](nb::handle_t<Points> self) -> nb::object {
        const Points& points = *nb::inst_ptr<Points>(self);
        if (points.doubles != nullptr)
          return nb::cast(numpy_view(points.doubles, points.size, nb::handle(self)));
        return nb::cast(numpy_view(points.floats, points.size, nb::handle(self)));
      });

  nb::class_<Decoder>(m, "Decoder")
      .def(nb::init<>())
      .def(nb::init<uint64_t, int, int64_t>(), "offset"_a, "file_version"_a, "last_step"_a)
      .def(
          "know_tag",
          [](Decoder& self, std::string_view name, std::string_view plugin, nb::bytes metadata) {
            self.know_tag(name, plugin, view(metadata));
          },
          "name"_a, "plugin"_a, "metadata"_a)
      .def(
          "feed",
          [](Decoder& self, nb::bytes data) {
            const std::string_view bytes = view(data);
            Unlocked unlocked;
            self.feed(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
          },
          "data"_a)
      .def(
          "read_file",
          [](Decoder& self, nb::handle path, uint64_t limit) {
            const std::string name = file_system_path(path);
            uint64_t taken = 0;
            int code = 0;
            {
              Unlocked unlocked;
              try {
                taken = self.read_file(name.c_str(), limit);
              } catch (const std::system_error& error) {
                code = error.code().value();
              }
            }
            if (code) raise_os_error(code, name);
            return taken;
          },
          "path"_a, "limit"_a = UINT64_MAX)
      .def("drain", &drain)
      .def("plugins", &plugins)
      .def_prop_ro("offset", &Decoder::offset)
      .def_prop_ro("pending", &Decoder::pending)
      .def_prop_ro("events", &Decoder::events)
      .def_prop_ro("file_version", &Decoder::file_version)
      .def_prop_ro("last_step", &Decoder::last_step)
      .def_prop_ro("over_limit", &Decoder::over_limit)
      .def_prop_ro("damage_counts",
                   [](const Decoder& self) { return damage_counts(self.damages()); })
      .def_prop_ro("damages", [](const Decoder& self) { return damage_spans(self.damages()); });

  m.def("inspect", &inspect, "path"_a, "out"_a = -1);

  m.def("map_file", &map_file, "path"_a, "offset"_a, "size"_a);
  m.def("points_to_json", &points_json<float>, "wall_times"_a.noconvert(), "steps"_a.noconvert(),
        "values"_a.noconvert(), "as_objects"_a);
  m.def("points_to_json", &points_json<double>, "wall_times"_a.noconvert(), "steps"_a.noconvert(),
        "values"_a.noconvert(), "as_objects"_a);

  m.def("histogram", &histogram<float>, "values"_a.noconvert());
  m.def("histogram", &histogram<double>, "values"_a.noconvert());
  m.def("histogram_edges", [] { return numpy_array(std::vector<double>(histogram_edges())); });

  nb::class_<OwnedSink>(m, "Sink")
      .def(nb::init<nb::handle, nb::handle, double, uint64_t>(), "directory"_a.none(),
           "suffix"_a = "", "flush_seconds"_a = 2.0, "max_queue"_a = 0)
      .def("open", &OwnedSink::open)
      .def("add_scalar", &add_scalar, "tag"_a, "value"_a.none(), "step"_a.none(),
           "wall_time"_a.none())
      .def("add_scalars", &add_scalars, "tag"_a, "values"_a.noconvert(), "steps"_a.noconvert(),
           "wall_times"_a.noconvert())
      .def(
          "add_summary",
          [](OwnedSink& self, nb::bytes summary, int64_t step, double wall_time) {
            self->add_summary(wall_time, step, view(summary));
          },
          "summary"_a, "step"_a, "wall_time"_a)
      .def(
          "add_record", [](OwnedSink& self, nb::bytes event) { self->add_record(view(event)); },
          "event"_a)
      .def(
          "add_session_start", [](OwnedSink& self, int64_t step) { self->add_session_start(step); },
          "step"_a)
      .def("flush",
           [](OwnedSink& self) {
             Unlocked unlocked;
             return self->flush();
           })
      .def("close",
           [](OwnedSink& self) {
             Unlocked unlocked;
             return self->close();
           })
      .def("take", &take)
      .def("error", &sink_error)
      .def_prop_ro("troubled", [](OwnedSink& self) { return self->troubled(); })
      .def_prop_ro("path",
                   [](OwnedSink& self) {
                     std::string path;
                     {
                       Unlocked unlocked;
                       path = self->path();
                     }
                     return decoded_path(path);
                   })
      .def_prop_ro("pending_events",
                   [](OwnedSink& self) {
                     Unlocked unlocked;
                     return self->pending_events();
                   })
      .def_prop_ro("pending_bytes", [](OwnedSink& self) { return self->pending_bytes(); });

  m.def(
      "flush_all",
      [](bool write_through) {
        if (write_through) flusher::write_through = true;
        Unlocked unlocked;
        return flusher::flush_all();
      },
      "write_through"_a = false);
  m.attr("MAX_PENDING_BYTES") = kMaxPending;
  m.attr("MAX_TAGS") = kMaxTags;
  m.attr("MAX_RECORD_BYTES") = kMaxRecordSize;
  m.attr("CONVERT") = kConvert;
  m.attr("NON_FINITE") = kNonFinite;
  m.attr("TROUBLED") = kTroubled;

  nb::class_<SharedCounters>(m, "SharedCounters")
      .def(
          "__init__",
          [](SharedCounters* self, const std::string& path) {
            try {
              new (self) SharedCounters(path);
            } catch (const std::system_error& error) {
              raise_os_error(error.code().value(), path);
            }
          },
          "path"_a = "")
      .def("next", &SharedCounters::next, "name"_a)
      .def_prop_ro("path", &SharedCounters::path);
}
