// SPDX-License-Identifier: MIT
// The tool's command line: options, commands, and messages for invalid command lines.
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/tool/main.hpp>
#include <switchyard/version.hpp>

#include "command.hpp"
#include "operators.hpp"
#include "tune/benches.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

constexpr const char* footer = R"(Exit status:
  0   done; check: no errors
  1   check --strict: warnings; check --coverage: no row decides some call; explain: no variant serves the
      problem; diff: a shape is slower or lost;
      tune: problems were left out; bench: a shape is behind, failed, or could not be measured;
      fingerprint: another host differs; verify: a release is damaged
  2   check: errors; tune, bench: no problem could be measured; otherwise: a file, a variable or a device cannot be used
  64  invalid command line
  130, 143  tune: interrupted; the same command resumes. bench: interrupted

Files are found through SWITCHYARD_PATH, then ../share/switchyard beside this program's folder,
/usr/local/share/switchyard and /usr/share/switchyard; SWITCHYARD_TABLES and SWITCHYARD_FORCE apply as they
do in an engine. --root replaces the search. Colours appear on a terminal, unless NO_COLOR is set.
`switchyard COMMAND --help` shows a command's options and an example.)";

struct example {
  const char* command;
  const char* text;
};

constexpr std::array<example, 15> examples{{
    {"list", "switchyard list rotary dtype=bf16 --variants"},
    {"explain", "switchyard explain softmax dtype=f32 rows=64 columns=4096 --device h200"},
    {"check", "switchyard check --strict share/switchyard"},
    {"describe", "switchyard describe rotary -o rotary.json"},
    {"fingerprint", "switchyard fingerprint --compare other-host.txt"},
    {"tune", "switchyard tune softmax dtype=f32 rows=1,64 columns=1024..8192*2 -o tables/"},
    {"record", "switchyard record host-*.jsonl -o problems.jsonl"},
    {"merge", "switchyard merge shard-*.json -o table.json"},
    {"diff", "switchyard diff old.json new.json --threshold 2%"},
    {"bench", "switchyard bench table.json --rows 20 --between"},
    {"report", "switchyard report table.json -o report.html"},
    {"publish", "switchyard publish build/share/switchyard /srv/switchyard --key key.pem"},
    {"verify", "switchyard verify /srv/switchyard --key public.pem"},
    {"rollback", "switchyard rollback /srv/switchyard"},
    {"watch", "switchyard watch --metrics /var/lib/node_exporter/switchyard.prom"},
}};

[[nodiscard]] std::string version_text() {
  std::string out = "switchyard " + std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
                    std::to_string(SWITCHYARD_VERSION_MINOR) + "." + std::to_string(SWITCHYARD_VERSION_PATCH);
  out += "\nreads and writes switchyard.manifest/1, switchyard.table/1, switchyard.operator/1";
#if defined(__clang__)
  out += "\nbuilt with Clang " __clang_version__;
#else
  out += "\nbuilt with GCC " __VERSION__;
#endif
#ifdef NDEBUG
  out += ", optimised";
#else
  out += ", with assertions";
#endif
  return out;
}

/// The first word that should be a command, past options and their values; empty if there is none.
[[nodiscard]] std::string_view command_word(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word{argv[i]};
    if (word == "--root" || word == "--tables" || word == "--operators") {
      ++i;
    } else if (!word.starts_with('-')) {
      return word;
    }
  }
  return {};
}

/// Throws usage_error if there is no such command.
void require_command(const CLI::App& app, std::string_view word) {
  if (word.empty()) return;
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  throw usage_error{"unknown command '" + std::string{word} + "'" + sy::text::suggestion(word, names) +
                    " (there are " + sy::text::join(names, names.size()) + ")"};
}

int run_commands(int argc, char** argv, std::string_view data) {
  CLI::App app{"Shows, checks and tunes the kernels and tables that the Switchyard library chooses from.",
               "switchyard"};
  session session;
  session.data = data;
  app.set_version_flag("--version", version_text());
  app.add_option(
         "--root", session.roots,
         "Search this folder, which has kernels/ and tables/, instead of the installed ones; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--tables", session.tables, "Overlay tables, a file or a folder; may be repeated")
      ->allow_extra_args(false);
  app.add_option_function<std::vector<std::string>>(
         "--operators",
         [](const std::vector<std::string>& files) {
           for (const std::string& file : files) add_described(file);
         },
         "An operator that another program exported with `describe`; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--json", session.json, "Print JSON");
  app.footer(footer);
  app.require_subcommand(1);
  app.fallthrough();
  add_list(app, session);
  add_explain(app, session);
  add_check(app, session);
  add_describe(app, session);
  add_fingerprint(app, session);
  add_tune(app, session);
  add_tune_worker(app, session);
  add_record(app, session);
  add_merge(app, session);
  add_diff(app, session);
  add_bench(app, session);
  add_report(app, session);
  add_publish(app, session);
  add_watch(app, session);
  for (const example& shown : examples) {
    CLI::App* const command = app.get_subcommand(shown.command);
    const std::string before = command->get_footer();
    command->footer(before + (before.empty() ? "" : "\n") + "Example: " + shown.text);
  }

  try {
    require_command(app, command_word(argc, argv));
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? status_ok : status_usage;
  } catch (const usage_error& problem) {
    std::fprintf(stderr, "switchyard: %s\n", sy::text::printable(problem.what()).c_str());
    return status_usage;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "switchyard: %s\n", sy::text::printable(problem.what()).c_str());
    return status_error;
  }
  return session.status;
}

}  // namespace

}  // namespace tool

namespace switchyard {
inline namespace v0 {
namespace tool {

int run(int argc, char** argv, std::span<const own_operator> own, std::string_view data) {
  ::tool::add_operators(own);
  ::tool::add_benches(own);
  return ::tool::run_commands(argc, argv, data);
}

}  // namespace tool
}  // namespace v0
}  // namespace switchyard
