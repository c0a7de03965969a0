// `switchyard tune`: times every variant that may serve each problem of a grid, and keeps the table on disk
// valid after every one of them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <switchyard/device.hpp>
#include <switchyard/file.hpp>
#include <switchyard/problem.hpp>
#include <switchyard/read_table.hpp>
#include <switchyard/text.hpp>
#include <switchyard/tune/measure.hpp>
#include <switchyard/tune/workloads/attention_forward.hpp>
#include <switchyard/tune/workloads/rotary.hpp>
#include <switchyard/tune/workloads/rows.hpp>
#include <switchyard/write_table.hpp>

#include "command.hpp"
#include "operators.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

struct settings {
  std::string operator_name;
  std::vector<std::string> words;
  std::string output;
  std::size_t most = 8;
  std::size_t samples = 7;
  bool again = false;
};

/// An axis and the values that it takes in turn.
struct axis_values {
  std::uint32_t axis;
  std::vector<std::int64_t> values;
};

std::vector<axis_values> parse_grid(const sy::operator_description& op,
                                    const std::vector<std::string>& words) {
  std::vector<axis_values> grid;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) throw usage_error{"expected axis=value,value..., got '" + word + "'"};
    axis_values each{require_axis(op, word.substr(0, equals)), {}};
    for (std::size_t begin = equals + 1; begin <= word.size();) {
      const std::size_t end = std::min(word.find(',', begin), word.size());
      each.values.push_back(require_value(op.axes[each.axis], word.substr(begin, end - begin)));
      begin = end + 1;
    }
    grid.push_back(std::move(each));
  }
  return grid;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];  // NOLINT(modernize-avoid-c-arrays): for strftime
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return {text, length};
}

bool has_row(const sy::table& of, sy::problem_view problem, const std::vector<std::uint32_t>& type_axes) {
  return std::any_of(of.groups.begin(), of.groups.end(), [&](const sy::row_group& group) {
    if (group.type.size() != type_axes.size() || !sy::matches(group.type, problem)) return false;
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      bool same = true;
      for (std::size_t i = 0; i < group.axes.size(); ++i) {
        same = same && group.coordinates(row)[i] == problem[group.axes[i]];
      }
      if (same) return true;
    }
    return false;
  });
}

/// Remembers which blobs were measured, so that a table knows when it is stale.
void note_blobs(sy::table& into, const sy::selector& rules) {
  for (sy::row_group& group : into.groups) {
    group.blobs.resize(group.ids.size());
    for (std::size_t i = 0; i < group.ids.size(); ++i) {
      for (const sy::candidate& each : rules.candidates) {
        const bool fits =
            std::all_of(group.type.begin(), group.type.end(), [&each](const sy::axis_value& asked) {
              return std::none_of(each.what->type.begin(), each.what->type.end(),
                                  [&asked](const sy::axis_value& has) {
                                    return has.axis == asked.axis && has.value != asked.value;
                                  });
            });
        if (each.what->id == group.ids[i] && fits) {
          group.blobs[i] = sy::blob_fingerprint(*each.what);
          break;
        }
      }
    }
  }
}

template <sy::operator_type Operator>
void tune(const session& session, const settings& wanted) {
  const sy::operator_description& op = sy::describe<Operator>();
  const std::vector<axis_values> grid = parse_grid(op, wanted.words);
  sy::catalog catalog{session.options()};
  const sy::device device = sy::device::current();
  const sy::device_properties& properties = device.properties();

  sy::table table;
  table.operator_name = op.name;
  table.match.axes.assign(op.axes.size(), sy::axis_rule{});
  std::error_code ignored;
  if (!wanted.again && std::filesystem::exists(wanted.output, ignored)) {
    sy::warnings warned;
    table = sy::read_table(wanted.output, op, warned);
    for (const std::string& message : warned.messages)
      std::fprintf(stderr, "switchyard: %s\n", message.c_str());
    if (table.device.name != properties.name) {
      throw usage_error{wanted.output + " was measured on " + table.device.name + ", and this is " +
                        properties.name + "; name another file, or say --again to begin anew"};
    }
  }
  table.device = properties;

  std::vector<std::uint32_t> type_axes;
  std::size_t problems = 1;
  for (const axis_values& each : grid) {
    problems *= each.values.size();
    if (op.axes[each.axis].kind == sy::axis_kind::type) type_axes.push_back(each.axis);
  }
  const auto rules = catalog.rules(op, properties);
  sy::tune::timing_options timing;
  timing.samples = wanted.samples;
  timing.rotate_bytes =
      properties.backend == "host" ? 0 : 2.5 * static_cast<double>(properties.attribute("l2_bytes"));
  sy::tune::measurer<Operator> measurer{catalog, device, timing};
  const sy::measurement_notes notes{
      {"date", today()},
      {"repeat", "median of " + std::to_string(wanted.samples) + " samples after warm-up" +
                     (timing.rotate_bytes > 0 ? ", tensors rotated past the L2 cache" : "")}};
  std::vector<std::size_t> digits(grid.size());
  for (std::size_t done = 0; done < problems; ++done) {
    sy::tune::request want;
    std::string label;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      want.set(op.axes[grid[i].axis].name, grid[i].values[digits[i]]);
      label += " " + std::string{op.axes[grid[i].axis].name} + "=" +
               sy::format_value(op.axes[grid[i].axis], grid[i].values[digits[i]]);
    }
    for (std::size_t i = 0; i < grid.size() && ++digits[i] == grid[i].values.size(); ++i) digits[i] = 0;
    std::printf("%zu/%zu%s: ", done + 1, problems, label.c_str());
    std::fflush(stdout);
    try {
      const auto probe = sy::tune::measurer<Operator>::problem_for(device, want);
      if (has_row(table, probe, type_axes)) {
        std::printf("measured before\n");
        continue;
      }
      auto measured = measurer.measure(want, 1);
      for (const auto& each : measured) {
        if (!each.failure.empty()) std::fprintf(stderr, "switchyard: %s\n", each.failure.c_str());
      }
      sy::tune::add_row<Operator>(table, measurer.problem(), measured, type_axes, wanted.most);
      note_blobs(table, *rules);
      sy::write_file(wanted.output, sy::format_table(op, table, notes));
      std::stable_sort(measured.begin(), measured.end(), [](const auto& a, const auto& b) {
        return a.failure.empty() != b.failure.empty() ? a.failure.empty() : a.microseconds < b.microseconds;
      });
      if (measured.empty() || !measured[0].failure.empty()) {
        std::printf("no variant could be measured\n");
        continue;
      }
      std::printf("%s %s us", measured[0].variant.c_str(),
                  sy::text::number(measured[0].microseconds).c_str());
      if (measured.size() > 1 && measured[1].failure.empty()) {
        std::printf(", then %s +%.1f %%", measured[1].variant.c_str(),
                    100 * (measured[1].microseconds / measured[0].microseconds - 1));
      }
      std::printf(" (%zu variants)\n", measured.size());
    } catch (const sy::error& problem) {
      std::printf("left out: %s\n", problem.what());
    }
    std::fflush(stdout);
  }
}

template <class... Operators>
void tune_named(const session& session, const settings& wanted) {
  bool known = false;
  const auto attempt = [&]<class Operator>() {
    if (wanted.operator_name != Operator::name) return;
    known = true;
    tune<Operator>(session, wanted);
  };
  (attempt.template operator()<Operators>(), ...);
  if (!known) throw usage_error{unknown_operator_text(wanted.operator_name)};
}

}  // namespace

void add_tune(CLI::App& app, session& session) {
  const auto wanted = std::make_shared<settings>();
  CLI::App* command = app.add_subcommand("tune",
                                         "Time every variant that may serve each problem of a grid, on this "
                                         "machine's device, and write a table");
  command->add_option("operator", wanted->operator_name, "Name of an operator")->required();
  command
      ->add_option(
          "axes", wanted->words,
          "axis=value,value,...: every combination is measured. The rows' type says the type axes named here "
          "and holds for every value of the others")
      ->required();
  command
      ->add_option("-o,--output", wanted->output, "The table; problems it has already are not measured again")
      ->required();
  command->add_option("--most", wanted->most, "Keep this many of the fastest variants in a row")
      ->capture_default_str();
  command->add_option("--samples", wanted->samples, "Samples of each variant, whose median counts")
      ->capture_default_str();
  command->add_flag("--again", wanted->again, "Begin anew where the table exists");
  command->callback([wanted, &session] {
    namespace ops = sy::operators;
    tune_named<ops::rotary, ops::attention_forward, ops::gated_activation, ops::gated_activation_backward,
               ops::rms_norm, ops::rms_norm_backward, ops::layer_norm, ops::layer_norm_backward, ops::softmax,
               ops::softmax_backward>(session, *wanted);
  });
}

}  // namespace tool
