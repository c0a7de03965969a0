// What the commands of the `switchyard` tool share. A command is one .cpp with one add_... function that
// main.cpp calls; it parses its own arguments and leaves its exit status in the session.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <switchyard/catalog.hpp>

namespace CLI {  // NOLINT(readability-identifier-naming): as CLI11 has it
class App;
}

namespace tool {

/// The statuses that every command ends with; --help and README list them.
enum exit_status : int {
  status_ok = 0,
  status_finding = 1,  ///< check --strict: warnings; explain: no variant serves the problem; diff: something
                       ///< is slower or lost; bench: a shape is behind the best
  status_error = 2,    ///< check: errors; others: files that cannot be used
  status_usage = 64,   ///< an argument that means nothing, as in sysexits.h
};

/// An argument names something that does not exist. The message says what does.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct session {
  std::vector<std::string> roots;
  std::vector<std::string> tables;
  bool json = false;
  int status = status_ok;

  /// How catalogs are opened: by the environment, or, where --root is given, from those folders alone;
  /// overlays and forced choices of the environment count either way.
  [[nodiscard]] switchyard::catalog_options options() const {
    switchyard::catalog_options out;
    out.roots = roots;
    out.default_roots = roots.empty();
    out.tables = tables;
    if (!out.default_roots) {
      out.tables.insert(out.tables.end(), out.settings.tables.begin(), out.settings.tables.end());
    }
    return out;
  }
};

void add_list(CLI::App& app, session& session);
void add_explain(CLI::App& app, session& session);
void add_check(CLI::App& app, session& session);
void add_tune(CLI::App& app, session& session);
void add_tune_worker(CLI::App& app, session& session);
void add_record(CLI::App& app, session& session);
void add_merge(CLI::App& app, session& session);
void add_diff(CLI::App& app, session& session);
void add_bench(CLI::App& app, session& session);
void add_report(CLI::App& app, session& session);

}  // namespace tool
