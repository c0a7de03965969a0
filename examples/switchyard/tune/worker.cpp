// SPDX-License-Identifier: MIT
// The measuring process: reads requests, one JSON object on each line, and answers each with one line. A
// kernel that crashes ends only this process; tune/process.hpp is the other end.
//
//   (at the start)                             {"device": {...}, "pid": n}
//   {"set_up": {axis: value}, "cache": "cold"} {"problem": [...], "variants": [...], "bytes": n, ...}
//   {"check": "variant", "runs": n}            {"wrong": "", "checked": {"rows": n, "of": n},
//   "largest_error": x}
//   {"turn": "variant", "calls": n, ...}       {"us": t} of a call, in one sample
//   {"state": true}                            {"clock_mhz": n, ...} as far as the device tells
//   {"outlive": seconds}                       {} after that time
//   any of them                                {"error": "text", "code": 211}
//                                              {"changed": "what a kernel has changed about the process"}
//                                              and "threads": true where new ones are left running
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/device.hpp>
#include <switchyard/operators/built_in.hpp>
#include <switchyard/tune/measuring/device_state.hpp>

#include "command.hpp"
#include "operators.hpp"
#include "tune/benches.hpp"
#include "tune/measure.hpp"
#include "tune/process.hpp"
#include "tune/state.hpp"
#include "tune/supervise.hpp"

namespace sy = switchyard;
using nlohmann::json;

namespace tool {

namespace {

/// A program's own ones first.
[[nodiscard]] std::vector<known_bench>& all_benches() {
  static std::vector<known_bench> all = [] {
    std::vector<known_bench> out;
    sy::operators::built_in::for_each([&out]<class Operator>() { out.push_back(bench_of<Operator>()); });
    return out;
  }();
  return all;
}

}  // namespace

void add_benches(std::span<const sy::tool::own_operator> own) {
  auto& all = all_benches();
  for (const sy::tool::own_operator& added : own) {
    const auto name = added.description->name;
    std::erase_if(all, [name](const known_bench& other) { return other.operator_name == name; });
    if (added.make_bench != nullptr) all.insert(all.begin(), {name, added.make_bench});
  }
}

const known_bench* find_bench(std::string_view operator_name) {
  for (const known_bench& bench : all_benches()) {
    if (bench.operator_name == operator_name) return &bench;
  }
  return nullptr;
}

std::vector<std::string_view> bench_names() {
  std::vector<std::string_view> out;
  for (const known_bench& bench : all_benches()) out.push_back(bench.operator_name);
  std::sort(out.begin(), out.end());
  return out;
}

namespace {

struct worker_arguments {
  std::string operator_name;
  std::string device;
  int requests = -1;
  int answers = -1;
};

/// Lines in, lines out.
class line_channel {
 public:
  line_channel(int in, int out) : in_{in}, out_{out} {}

  /// False at the end of input.
  bool read(std::string& line) {
    for (;;) {
      if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
        line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return true;
      }
      char buffer[4096];  // NOLINT(modernize-avoid-c-arrays): for read
      const ssize_t got = ::read(in_, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      pending_.append(buffer, static_cast<std::size_t>(got));
    }
  }

  void write(const json& answer) {
    const std::string line = answer.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    std::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t written = ::write(out_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) std::_Exit(status_error);  // nobody listens any more
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  int in_;
  int out_;
  std::string pending_;
};

[[nodiscard]] json describe_device(const sy::device& device) {
  const sy::device_properties& properties = device.properties();
  json out{{"backend", properties.backend}, {"arch", properties.arch}, {"name", properties.name}};
  for (const std::string_view name : sy::attribute_names) {
    if (properties.attribute(name) != 0) out[std::string{name}] = properties.attribute(name);
  }
  return out;
}

[[nodiscard]] sy::tune::cache_state cache_named(const std::string& name) {
  return name == "cold"   ? sy::tune::cache_state::cold
         : name == "warm" ? sy::tune::cache_state::warm
                          : sy::tune::cache_state::rotating;
}

[[nodiscard]] json set_up(sy::tune::bench& bench, const json& request) {
  sy::tune::request want;
  for (const auto& [axis, value] : request.at("set_up").items()) want.set(axis, value.get<std::int64_t>());
  const auto made = bench.set_up(want, cache_named(request.at("cache").get<std::string>()),
                                 request.at("seed").get<std::uint64_t>(), request.at("checked").get<bool>());
  json variants = json::array();
  for (const auto& variant : made.variants) {
    json type = json::array();
    for (const sy::axis_value& axis : variant.type) type.push_back({axis.axis, axis.value});
    variants.push_back({{"id", variant.id}, {"blob", variant.blob}, {"type", type}});
  }
  json added = json::array();
  const sy::operator_description& op = bench.description();
  for (const sy::axis_description& axis : op.axes.subspan(op.own_axes()))
    added.push_back(std::string{axis.name});
  return {{"problem", made.problem}, {"added", added},      {"variants", variants},
          {"bytes", made.bytes},     {"flops", made.flops}, {"checked", extent_to_json(made.checked)}};
}

[[nodiscard]] sy::tune::launch_mode launches_named(const std::string& name) {
  return name == "graph"    ? sy::tune::launch_mode::graph
         : name == "stream" ? sy::tune::launch_mode::stream
                            : sy::tune::launch_mode::device;
}

[[nodiscard]] json take_turn(sy::tune::bench& bench, const json& request) {
  const sy::tune::sample_options options{
      request.at("calls").get<std::size_t>(), request.at("untimed").get<std::size_t>(),
      request.at("expected").get<double>(), launches_named(request.at("launches").get<std::string>()),
      cache_named(request.at("cache").get<std::string>())};
  return {{"us", bench.sample(request.at("turn").get<std::string>(), options)}};
}

[[nodiscard]] json state_of(const sy::tune::state_reader& state) {
  json out = json::object();
  if (const auto now = state.read()) {
    out["clock_mhz"] = now->clock_mhz;
    out["memory_clock_mhz"] = now->memory_clock_mhz;
    out["celsius"] = now->celsius;
    out["slowdowns"] = now->slowdowns;
  }
  return out;
}

void run(const worker_arguments& arguments, const session& session) {
  split_off_worker(arguments.requests, arguments.answers);
  // The tuner handles interruptions, and a kernel that crashes leaves no core file.
  std::signal(SIGINT, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for this signal
  // The default action ends the process, whatever handlers a library or a sanitizer has installed.
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    std::signal(number, SIG_DFL);  // NOLINT(cert-err33-c): cannot fail for these signals
  }
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  line_channel channel{arguments.requests, arguments.answers};
  const device_place place = parse_device_place(arguments.device);
  sy::catalog catalog{session.options()};
  const sy::device device = open_device(place);
  if (arguments.operator_name.empty()) {  // asked only what the device is
    channel.write({{"device", describe_device(device)}, {"pid", ::getpid()}});
    return;
  }
  const known_bench* const known = find_bench(arguments.operator_name);
  if (known == nullptr) throw usage_error{unknown_operator_text(arguments.operator_name)};
  const auto bench = known->make(catalog, device);
  const sy::tune::state_reader state{place.backend == "cuda" ? place.ordinal : -1};
  channel.write({{"device", describe_device(device)}, {"pid", ::getpid()}});
  for (std::string line; channel.read(line);) {
    json answer;
    const process_state before = process_state::now();
    try {
      const json request = json::parse(line);
      if (request.contains("set_up")) {
        answer = set_up(*bench, request);
      } else if (request.contains("check")) {
        answer = {{"wrong", bench->check(request.at("check").get<std::string>(),
                                         request.at("runs").get<std::size_t>())}};
        answer["checked"] = extent_to_json(bench->checked());
        // JSON has no infinity, which that of a NaN is.
        answer["largest_error"] = std::min(bench->largest_error(), std::numeric_limits<double>::max());
      } else if (request.contains("state")) {
        answer = state_of(state);
      } else if (request.contains("outlive")) {
        std::this_thread::sleep_for(std::chrono::duration<double>{request.at("outlive").get<double>()});
        answer = json::object();
      } else {
        answer = take_turn(*bench, request);
      }
    } catch (const sy::error& problem) {
      answer = {{"error", problem.what()}, {"code", static_cast<int>(problem.code())}};
    } catch (const std::bad_alloc&) {
      answer = {{"error", "the host has not enough memory for this problem"},
                {"code", static_cast<int>(sy::error_code::out_of_memory)}};
    }
    // A GPU's driver starts threads and may set limits; a kernel on a GPU can do neither.
    if (place.backend == "host") {
      const process_state after = process_state::now();
      if (const std::string changed = after.changed_since(before); !changed.empty())
        answer = {{"changed", changed}};
      if (after.has_more_threads_than(before)) answer["threads"] = true;
    }
    channel.write(answer);
  }
  // Modules of kernels that misbehaved are not unloaded: the process ends here.
  std::_Exit(status_ok);
}

}  // namespace

void add_tune_worker(CLI::App& app, session& session) {
  const auto arguments = std::make_shared<worker_arguments>();
  CLI::App* const command = app.add_subcommand(worker_command, "Internal: measures for `tune`");
  command->group("");  // not listed
  command->add_option("--operator", arguments->operator_name);
  command->add_option("--device", arguments->device)->required();
  command->add_option("--requests", arguments->requests)->required();
  command->add_option("--answers", arguments->answers)->required();
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
