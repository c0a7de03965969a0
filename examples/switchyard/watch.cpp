// SPDX-License-Identifier: MIT
// switchyard watch: reads files as they change, as an engine does, and says what an engine would take or
// refuse, in lines and as counters for Prometheus.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/device.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/observing/prometheus.hpp>
#include <switchyard/serving/operator_state.hpp>
#include <switchyard/serving/state_source.hpp>

#include "command.hpp"
#include "operators.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct watch_arguments {
  std::vector<std::string> operators;
  std::string metrics;
  double seconds = 5;
  std::uint64_t times = 0;
};

/// Accepts all new files, and loads nothing.
class watched_operator final : public sy::state_user {
 public:
  watched_operator(sy::catalog& from, const sy::operator_description& op, const sy::device& on)
      : from_{from} {
    from_.attach(op, on, *this);
  }
  watched_operator(const watched_operator&) = delete;
  watched_operator& operator=(const watched_operator&) = delete;
  ~watched_operator() override { from_.detach(*this); }

  [[nodiscard]] bool adopt(std::unique_ptr<sy::operator_state>&& fresh) override {
    state_ = std::move(fresh);
    return true;
  }
  [[nodiscard]] const sy::operator_state* in_use() const noexcept override { return state_.get(); }
  void free_replaced() override {}

 private:
  sy::catalog& from_;
  std::unique_ptr<sy::operator_state> state_;
};

void print_reload(const sy::reload_report& found, bool json) {
  const auto line = [json](const char* what, const std::string& text) {
    if (json) {
      std::printf(
          "%s\n",
          ordered_json{{what, text}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
    } else {
      std::printf("%s: %s\n", what, sy::text::printable(text).c_str());
    }
  };
  for (const std::string& path : found.changed) line("changed", path);
  for (const std::string& path : found.refused) line("refused", path);
  std::fflush(stdout);
}

void run(const watch_arguments& arguments, session& session) {
  if (!(arguments.seconds > 0) || arguments.seconds > 86'400)
    throw usage_error{"--interval: expected more than 0 and at most 86400 seconds"};
  sy::catalog catalog{session.options()};
  const sy::device device = sy::device::current();
  std::vector<std::unique_ptr<watched_operator>> watched;
  for (const std::string& name : arguments.operators.empty() ? catalog.operators() : arguments.operators) {
    watched.push_back(std::make_unique<watched_operator>(
        catalog, *require_operator(name, catalog.roots()).description, device));
  }
  const auto write = [&] {
    if (!arguments.metrics.empty()) sy::write_file(arguments.metrics, to_prometheus(catalog.counters()));
  };
  write();
  for (std::uint64_t i = 0; arguments.times == 0 || i < arguments.times; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>{arguments.seconds});
    print_reload(catalog.reload(), session.json);
    write();
  }
}

}  // namespace

void add_watch(CLI::App& app, session& session) {
  CLI::App* const command = app.add_subcommand(
      "watch", "Read files as they change, as an engine does, and say which it would take or refuse");
  const auto arguments = std::make_shared<watch_arguments>();
  command->add_option("operator", arguments->operators, "Operators (default: all that have manifests)");
  command->add_option("--metrics", arguments->metrics,
                      "Write counters for Prometheus to this file, each time as a whole");
  command->add_option("--interval", arguments->seconds, "Seconds between checks (default: 5)");
  command->add_option("--times", arguments->times, "Stop after this many checks (default: 0, never)");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
