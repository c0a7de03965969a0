// SPDX-License-Identifier: MIT
// Shared by the commands of the `switchyard` tool. A command is one .cpp with one add_... function, which
// main.cpp calls. It parses its own arguments and stores its exit status in the session.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <switchyard/catalog.hpp>

namespace CLI {  // NOLINT(readability-identifier-naming): as CLI11 has it
class App;
}

namespace tool {

/// Exit statuses of every command; --help and README.md list them.
enum exit_status : int {
  status_ok = 0,
  status_finding = 1,  ///< check --strict: warnings; check --coverage: no row decides some call; explain: no
                       ///< variant serves the problem; diff: something is slower or lost; bench: a shape is
                       ///< behind the best; fingerprint: another host's differs; verify: a release is damaged
  status_error = 2,    ///< check: errors; others: files that cannot be used
  status_usage = 64,   ///< an invalid argument; the value is that of sysexits.h
};

/// An argument is invalid. The message lists what is valid.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct session {
  std::vector<std::string> roots;
  std::vector<std::string> tables;
  std::string data;  ///< of the installation
  bool json = false;
  int status = status_ok;

  /// Options for catalogs: the environment's roots, or only those of --root. Overlays and forced choices of
  /// the environment always apply.
  [[nodiscard]] switchyard::catalog_options options() const {
    switchyard::catalog_options out;
    out.roots = roots;
    out.default_roots = roots.empty();
    out.tables = tables;
    out.data = data;
    if (!out.default_roots) {
      out.tables.insert(out.tables.end(), out.settings.tables.begin(), out.settings.tables.end());
    }
    return out;
  }
};

void add_list(CLI::App& app, session& session);
void add_explain(CLI::App& app, session& session);
void add_check(CLI::App& app, session& session);
void add_describe(CLI::App& app, session& session);
void add_fingerprint(CLI::App& app, session& session);
void add_tune(CLI::App& app, session& session);
void add_tune_worker(CLI::App& app, session& session);
void add_record(CLI::App& app, session& session);
void add_merge(CLI::App& app, session& session);
void add_diff(CLI::App& app, session& session);
void add_bench(CLI::App& app, session& session);
void add_publish(CLI::App& app, session& session);
void add_report(CLI::App& app, session& session);
void add_watch(CLI::App& app, session& session);

}  // namespace tool
