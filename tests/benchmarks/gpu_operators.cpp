// SPDX-License-Identifier: MIT
// Times operators on a device through the dispatcher, tensors rotated past the cache, and prints one JSON
// line a shape: what ran, microseconds, bytes per second, floating-point operations per second.
// memory_bound.py puts the peers beside it.
//
//   gpu_operators < shapes       a line: operator axis=value ...

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/problem/parse_value.hpp>
#include <switchyard/switchyard.hpp>
#include <switchyard/tune/measuring/measure.hpp>
#include <switchyard/tune/workloads/activation.hpp>
#include <switchyard/tune/workloads/attention_backward.hpp>
#include <switchyard/tune/workloads/attention_forward.hpp>
#include <switchyard/tune/workloads/norm.hpp>
#include <switchyard/tune/workloads/rotary.hpp>
#include <switchyard/tune/workloads/softmax.hpp>

namespace sy = switchyard;

namespace {

template <sy::operator_type Operator>
void time_operator(sy::catalog& catalog, const sy::device& device, const sy::tune::request& want,
                   const std::string& line) {
  sy::tune::timing_options options;
  options.samples = 15;
  options.sample_us = 2000;
  std::vector<sy::tune::prepared_call<Operator>> calls;
  const double cache = 2.5 * static_cast<double>(device.properties().attribute("l2_bytes"));
  do {
    calls.push_back(sy::tune::workload<Operator>::make(device.driver(), want, 1 + 100 * calls.size()));
  } while (static_cast<double>(calls.size()) * calls[0].bytes < cache && calls.size() < 16);
  sy::dispatcher<Operator> run{catalog, device};
  // Memory that is kept, as the peers have from PyTorch: the driver's own is given back whenever the host
  // waits.
  const std::size_t bytes = run.workspace_bytes(calls[0].arguments);
  const sy::tune::device_buffer kept{device.driver(), bytes};
  std::size_t next = 0;
  const auto result = sy::tune::time_call(device.driver(), options, [&] {
    run({}, calls[next++ % calls.size()].arguments, {kept.data(), bytes});
  });
  const auto why = run.explain(calls[0].arguments);
  std::printf(
      R"({"shape":%s,"peer":"switchyard","variant":"%s","reason":"%s","us":%.3f,"spread":%.3f,"bytes":%.0f,"flops":%.0f})"
      "\n",
      sy::text::quote_json(line).c_str(), why.variant.c_str(),
      std::string{sy::to_string(why.chosen.why)}.c_str(), result.microseconds, result.spread, calls[0].bytes,
      calls[0].flops);
  std::fflush(stdout);
}

template <class... Operators>
void time_line(const std::string& line, sy::catalog& catalog, const sy::device& device) {
  std::istringstream words{line};
  std::string name;
  words >> name;
  bool known = false;
  const auto attempt = [&]<class Operator>() {
    if (name != Operator::name) return;
    known = true;
    const auto& op = sy::describe<Operator>();
    sy::tune::request want;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      const std::uint32_t axis = sy::find_axis(op, word.substr(0, equals));
      if (equals == std::string::npos || axis == op.axes.size()) {
        std::string wrong = name;
        wrong.append(" has no axis '").append(word).append("'");
        throw sy::call_error{sy::error_code::invalid_argument, wrong};
      }
      if (const auto value = sy::parse_value(op.axes[axis], word.substr(equals + 1))) {
        want.set(op.axes[axis].name, *value);
      } else {
        throw sy::call_error{sy::error_code::invalid_argument, "'" + word + "' is no value of the axis"};
      }
    }
    time_operator<Operator>(catalog, device, want, line);
  };
  (attempt.template operator()<Operators>(), ...);
  if (!known) throw sy::call_error{sy::error_code::unknown_operator, "no operator '" + name + "'"};
}

/// Bytes per second, read and written, of a copy within the device: the ceiling of memory-bound operators.
double copy_ceiling(const sy::device& device) {
  const std::size_t bytes =
      device.properties().backend == "host" ? std::size_t{256} << 20U : std::size_t{4} << 30U;
  const sy::tune::device_buffer from{device.driver(), bytes};
  const sy::tune::device_buffer to{device.driver(), bytes};
  sy::tune::timing_options options;
  options.sample_us = 10'000;
  const auto result = sy::tune::time_call(device.driver(), options, [&] {
    if (device.driver()->copy(to.data(), from.data(), bytes, {}) != 0) std::abort();
  });
  return 2.0 * static_cast<double>(bytes) / result.microseconds * 1e6;
}

}  // namespace

int main() {
  sy::catalog catalog;
  const sy::device device = sy::device::current();
  std::printf(R"({"device":"%s","copy_bytes_per_second":%.4g})"
              "\n",
              device.properties().name.c_str(), copy_ceiling(device));
  int failed = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty() || line[0] == '#') continue;
    try {
      namespace ops = sy::operators;
      time_line<ops::rotary, ops::attention_forward, ops::attention_backward, ops::gated_activation,
                ops::gated_activation_backward, ops::rms_norm, ops::rms_norm_backward, ops::layer_norm,
                ops::layer_norm_backward, ops::softmax, ops::softmax_backward>(line, catalog, device);
    } catch (const sy::error& problem) {
      std::fprintf(stderr, "%s: %s\n", line.c_str(), problem.what());
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}
