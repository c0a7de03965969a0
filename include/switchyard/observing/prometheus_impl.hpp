// SPDX-License-Identifier: MIT
// The bodies of prometheus.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice.hpp>
#include <switchyard/observing/code_counts.hpp>
#include <switchyard/observing/counters.hpp>
#include <switchyard/observing/prometheus.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

class prometheus_text {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = "switchyard_";
    name_.append(name);
    out_.append("# HELP ").append(name_).append(" ").append(help).append("\n# TYPE ").append(name_);
    out_.append(" ").append(type).append("\n");
  }
  void add(std::uint64_t value) { out_.append(name_).append(" ").append(std::to_string(value)).append("\n"); }
  void add(std::string_view label, std::string_view is, std::uint64_t value) {
    begin_labels();
    append(label, is);
    end_labels(value);
  }
  void add(std::string_view op, std::string_view label, std::string_view is, std::uint64_t value) {
    begin_labels();
    append("operator", op);
    out_.append(",");
    append(label, is);
    end_labels(value);
  }
  [[nodiscard]] std::string take() noexcept { return std::move(out_); }

 private:
  void begin_labels() { out_.append(name_).append("{"); }
  void end_labels(std::uint64_t value) { out_.append("} ").append(std::to_string(value)).append("\n"); }

  /// A label; what ends a value or a line is escaped.
  void append(std::string_view label, std::string_view is) {
    out_.append(label).append("=\"");
    for (const char character : is) {
      if (character == '\n') {
        out_.append("\\n");
      } else {
        if (character == '"' || character == '\\') out_ += '\\';
        out_ += character;
      }
    }
    out_ += '"';
  }

  std::string out_;
  std::string name_;
};

struct prometheus_counter {
  std::string_view name;
  std::string_view help;
  std::uint64_t operator_counters::*value;
};

inline constexpr std::array prometheus_counters{
    prometheus_counter{"plans_total", "Choices made ready for launches.", &operator_counters::plans},
    prometheus_counter{"displaced_plans_total", "Plans that the cache had no room for any more.",
                       &operator_counters::displaced_plans},
    prometheus_counter{"passed_over_total", "Variants that gave way since they did not fit a problem.",
                       &operator_counters::passed_over},
    prometheus_counter{"loads_total", "Variants whose kernels were loaded.", &operator_counters::loads},
    prometheus_counter{"failed_loads_total", "Attempts to load a variant's kernels that failed.",
                       &operator_counters::failed_loads},
    prometheus_counter{"replacements_total", "Newer files that were taken into use.",
                       &operator_counters::replacements},
    prometheus_counter{"refused_replacements_total", "Attempts to take newer files into use that failed.",
                       &operator_counters::refused_replacements},
    prometheus_counter{"unprepared_plans_total", "Calls of a sealed catalog that were planned or refused.",
                       &operator_counters::unprepared_plans},
    prometheus_counter{"unprepared_loads_total", "Calls of a sealed catalog that loaded a kernel.",
                       &operator_counters::unprepared_loads},
    prometheus_counter{"unprepared_fallbacks_total", "Calls of a sealed catalog that no rows decide.",
                       &operator_counters::unprepared_fallbacks},
    prometheus_counter{"refused_calls_total", "Calls that a sealed catalog refused.",
                       &operator_counters::refused_calls},
    prometheus_counter{"live_times_total", "Real calls that were timed.", &operator_counters::live_times},
    prometheus_counter{"live_untimed_total", "Real calls that were to be timed, and could not.",
                       &operator_counters::live_untimed},
    prometheus_counter{"live_comparisons_total", "Comparisons of two variants at a real call.",
                       &operator_counters::live_comparisons},
    prometheus_counter{"live_denials_total", "Variants that a comparison took out of service.",
                       &operator_counters::live_denials},
    prometheus_counter{"canary_returns_total", "New tables that were taken back since they were slower.",
                       &operator_counters::canary_returns},
};

}  // namespace detail

SWITCHYARD_COLD std::string to_prometheus(const catalog_counters& from) {
  detail::prometheus_text out;
  for (const detail::prometheus_counter& counter : detail::prometheus_counters) {
    out.begin(counter.name, "counter", counter.help);
    for (const operator_counters& op : from.operators) out.add("operator", op.name, op.*counter.value);
  }
  out.begin("choices_total", "counter", "Choices by reason; none: no variant was found.");
  for (const operator_counters& op : from.operators) {
    for (std::size_t i = 0; i < op.choices.size(); ++i)
      out.add(op.name, "reason", to_string(static_cast<reason>(i)), op.choices[i]);
  }
  out.begin("errors_total", "counter", "Errors of calls and of prepare() by number.");
  for (const operator_counters& op : from.operators) {
    for (const counted_code& error : op.errors)
      out.add(op.name, "code", std::to_string(error.code), error.count);
  }
  out.begin("warnings_total", "counter", "Warnings of the log by error number; 0: those without one.");
  for (const counted_code& warning : from.warnings)
    out.add("code", std::to_string(warning.code), warning.count);
  out.begin("reloads_total", "counter", "Looks at the disk that found changed files.");
  out.add(from.reloads);
  out.begin("generation", "gauge", "Changes whenever calls may be served by other kernels than before.");
  out.add(from.generation);
  return out.take();
}

}  // namespace v0
}  // namespace switchyard
