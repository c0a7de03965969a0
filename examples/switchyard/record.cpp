// SPDX-License-Identifier: MIT
// switchyard record: merges the recordings (SWITCHYARD_RECORD) of many processes and hosts into one input for
// the tuner.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/write_file.hpp>

#include "command.hpp"
#include "operators.hpp"
#include "record_line.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct record_arguments {
  std::vector<std::string> paths;
  std::string output;
  std::string operator_name;
  std::string device;
  double share = 100;
};

class collector {
 public:
  explicit collector(const record_arguments& arguments) : arguments_{arguments} {}

  /// Reads a file. Skips one that an earlier argument names, whose calls would count twice.
  void read(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) == 0) {
      const auto [earlier, first] = paths_.try_emplace({status.st_dev, status.st_ino}, path);
      if (!first) {
        std::fprintf(stderr, "switchyard: %s: skipped: it is the same file as %s\n", path.c_str(),
                     earlier->second.c_str());
        return;
      }
    }
    const std::string text = sy::read_file(path, sy::max_json_bytes);
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      ++number;
      take(path, number, std::string_view{text}.substr(begin, end - begin), end == text.size());
      begin = end + 1;
    }
  }

  [[nodiscard]] const std::map<recorded, std::uint64_t>& counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t files() const noexcept { return paths_.size(); }
  [[nodiscard]] std::size_t lines() const noexcept { return lines_; }
  [[nodiscard]] std::size_t torn() const noexcept { return torn_; }
  [[nodiscard]] std::size_t bad() const noexcept { return bad_; }

 private:
  static constexpr std::size_t max_messages = 8;

  void take(const std::string& path, std::size_t number, std::string_view text, bool unfinished) {
    if (text.empty()) return;
    try {
      add(parse_record_line(text));
      return;
    } catch (const bad_line& problem) {
      // A killed process leaves an incomplete line, and the next process with the same file appends to it.
      constexpr std::string_view beginning = R"({"operator":)";
      const std::size_t fresh = text.rfind(beginning);
      if (fresh != std::string_view::npos && fresh > 0) {
        try {
          add(parse_record_line(text.substr(fresh)));
          ++torn_;
          return;
        } catch (const bad_line&) {  // both parts are broken: reported for the whole line below
        }
      }
      if (unfinished) {
        ++torn_;
        return;
      }
      if (++bad_ <= max_messages) {
        std::fprintf(stderr, "switchyard: %s:%zu: skipped: %s\n", path.c_str(), number, problem.what());
      }
    }
  }

  void add(const record_line& line) {
    ++lines_;
    if (!arguments_.operator_name.empty() && line.problem.operator_name != arguments_.operator_name) return;
    if (line.problem.device.find(arguments_.device) == std::string::npos) return;
    std::uint64_t& sum = counts_[line.problem];
    sum = line.count > std::numeric_limits<std::uint64_t>::max() - sum
              ? std::numeric_limits<std::uint64_t>::max()
              : sum + line.count;
  }

  const record_arguments& arguments_;
  std::map<std::pair<dev_t, ino_t>, std::string> paths_;  ///< by device and inode
  std::map<recorded, std::uint64_t> counts_;
  std::size_t lines_ = 0;
  std::size_t torn_ = 0;
  std::size_t bad_ = 0;
};

/// The problems of one operator and device, most frequent first.
struct population {
  std::string operator_name;
  std::string device;
  std::vector<std::pair<const recorded*, std::uint64_t>> problems;
  std::size_t kept = 0;
  double calls = 0;
  double kept_calls = 0;
};

[[nodiscard]] std::vector<population> populations(const std::map<recorded, std::uint64_t>& counts,
                                                  double share) {
  std::vector<population> out;
  for (const auto& [problem, count] : counts) {
    if (out.empty() || out.back().operator_name != problem.operator_name ||
        out.back().device != problem.device) {
      out.push_back({problem.operator_name, problem.device, {}, 0, 0, 0});
    }
    out.back().problems.emplace_back(&problem, count);
    out.back().calls += static_cast<double>(count);
  }
  for (population& recorded : out) {
    std::stable_sort(recorded.problems.begin(), recorded.problems.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    while (recorded.kept < recorded.problems.size() && recorded.kept_calls < recorded.calls * share / 100) {
      recorded.kept_calls += static_cast<double>(recorded.problems[recorded.kept++].second);
    }
  }
  return out;
}

void run(const record_arguments& arguments, const session& session) {
  if (!arguments.operator_name.empty()) static_cast<void>(require_operator(arguments.operator_name));
  collector all{arguments};
  for (const std::string& path : arguments.paths) all.read(path);
  if (all.bad() > 0) {
    std::fprintf(stderr, "switchyard: %zu lines were skipped in total\n", all.bad());
  }
  const auto found = populations(all.counts(), arguments.share);
  if (found.empty()) {
    throw sy::file_error{
        sy::error_code::invalid_entry,
        arguments.paths.front() +
            (all.lines() == 0
                 ? ": the files contain no recorded problem. Run an engine with SWITCHYARD_RECORD=FILE first"
                 : ": " + std::to_string(all.lines()) +
                       " lines were read; none has this operator and device")};
  }
  std::string text;
  std::size_t kept = 0;
  for (const population& recorded : found) {
    for (std::size_t i = 0; i < recorded.kept; ++i) {
      const auto& [problem, count] = recorded.problems[i];
      text += R"({"operator":)" + sy::text::quote_json(problem->operator_name) + R"(,"device":)" +
              sy::text::quote_json(problem->device) + R"(,"problem":)" + problem->problem + R"(,"count":)" +
              std::to_string(count) + "}\n";
    }
    kept += recorded.kept;
  }
  sy::write_file(arguments.output, text);
  if (session.json) {
    ordered_json document{{"output", arguments.output},
                          {"files", all.files()},
                          {"lines", all.lines()},
                          {"torn", all.torn()},
                          {"left_out", all.bad()},
                          {"problems", kept},
                          {"operators", ordered_json::array()}};
    for (const population& recorded : found) {
      document["operators"].push_back({{"operator", recorded.operator_name},
                                       {"device", recorded.device},
                                       {"problems", recorded.problems.size()},
                                       {"kept", recorded.kept},
                                       {"calls", recorded.calls},
                                       {"kept_calls", recorded.kept_calls}});
    }
    std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    return;
  }
  for (const population& recorded : found) {
    std::printf("%-26s %6zu problems, %.0f calls on %s", recorded.operator_name.c_str(),
                recorded.problems.size(), recorded.calls,
                recorded.device.empty() ? "a device without a name" : recorded.device.c_str());
    if (recorded.kept < recorded.problems.size()) {
      std::printf("; kept the %zu most frequent, %.1f %% of the calls", recorded.kept,
                  100 * recorded.kept_calls / recorded.calls);
    }
    std::printf("\n");
  }
  std::printf("%s: %zu problems of %zu lines in %zu files", arguments.output.c_str(), kept, all.lines(),
              all.files());
  if (all.torn() > 0) std::printf("; %zu incomplete lines were skipped", all.torn());
  std::printf("\n");
}

}  // namespace

void add_record(CLI::App& app, session& session) {
  CLI::App* const command = app.add_subcommand(
      "record", "Merge the recordings (SWITCHYARD_RECORD) of many processes into one input for tune");
  const auto arguments = std::make_shared<record_arguments>();
  command->add_option("file", arguments->paths, "Files of SWITCHYARD_RECORD, or of an earlier record")
      ->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "The problems with their counts, most frequent first, in the same format")
      ->required();
  command->add_option("--operator", arguments->operator_name, "Only this operator");
  command->add_option("--device", arguments->device, "Only devices whose name contains this text");
  command
      ->add_option("--share", arguments->share,
                   "Keep the most frequent problems that make up this percentage of an operator's calls")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
