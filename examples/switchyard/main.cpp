// The `switchyard` command-line tool: shows what is installed and what would run, checks files, and makes
// tables.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/version.hpp>

#include "command.hpp"

namespace {

constexpr const char* footer = R"(Exit status:
  0   done; check: no errors
  1   check --strict: warnings; explain: no variant serves the problem; diff: a shape is slower or lost;
      tune: problems were left out; bench: a shape is behind, failed, or could not be measured
  2   check: errors; tune, bench: no problem could be measured; otherwise: a file, a variable or a device cannot be used
  64  invalid command line
  130, 143  tune: interrupted; the same command resumes. bench: interrupted

Files are found through SWITCHYARD_PATH, then ../share/switchyard beside this program's folder,
/usr/local/share/switchyard and /usr/share/switchyard; SWITCHYARD_TABLES and SWITCHYARD_FORCE apply as they
do in an engine. --root replaces the search.)";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Shows, checks and tunes the kernels and tables that the Switchyard library chooses from.",
               "switchyard"};
  tool::session session;
  app.set_version_flag("--version", std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
                                        std::to_string(SWITCHYARD_VERSION_MINOR) + "." +
                                        std::to_string(SWITCHYARD_VERSION_PATCH));
  app.add_option("--root", session.roots,
                 "Search this folder (of kernels/ and tables/) instead; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--tables", session.tables, "Overlay tables, a file or a folder; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--json", session.json, "Print JSON");
  app.footer(footer);
  app.require_subcommand(1);
  app.fallthrough();
  tool::add_list(app, session);
  tool::add_explain(app, session);
  tool::add_check(app, session);
  tool::add_tune(app, session);
  tool::add_tune_worker(app, session);
  tool::add_record(app, session);
  tool::add_merge(app, session);
  tool::add_diff(app, session);
  tool::add_bench(app, session);
  tool::add_report(app, session);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? tool::status_ok : tool::status_usage;
  } catch (const tool::usage_error& problem) {
    std::fprintf(stderr, "switchyard: %s\n", switchyard::text::printable(problem.what()).c_str());
    return tool::status_usage;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "switchyard: %s\n", switchyard::text::printable(problem.what()).c_str());
    return tool::status_error;
  }
  return session.status;
}
