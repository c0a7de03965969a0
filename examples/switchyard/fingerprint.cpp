// SPDX-License-Identifier: MIT
// switchyard fingerprint: a hash of everything that influences choices on a device, for hosts that must
// choose alike.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/serving/fingerprint.hpp>

#include "command.hpp"
#include "devices.hpp"
#include "operators.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct fingerprint_arguments {
  std::vector<std::string> operators;
  std::string device;
  std::vector<std::string> others;
};

/// The operators of a command line; all with manifests if it names none.
[[nodiscard]] std::vector<const sy::operator_description*> wanted_operators(
    const std::vector<std::string>& names, const sy::catalog& catalog) {
  std::vector<const sy::operator_description*> out;
  for (const std::string& name : names.empty() ? catalog.operators() : names)
    out.push_back(require_operator(name, catalog.roots()).description);
  return out;
}

void print_json(const sy::fingerprint& mine, const std::string& difference) {
  ordered_json document{{"hash", mine.hash}, {"parts", ordered_json::array()}};
  for (const sy::fingerprint_part& part : mine.parts)
    document["parts"].push_back({{"name", part.name}, {"hash", part.hash}});
  if (!difference.empty()) document["difference"] = difference;
  std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

[[nodiscard]] sy::fingerprint read_fingerprint(const std::string& path) {
  return sy::parse_fingerprint(sy::read_file(path, sy::max_json_bytes));
}

void run(const fingerprint_arguments& arguments, session& session) {
  sy::catalog catalog{session.options()};
  const sy::fingerprint mine =
      arguments.others.size() == 2
          ? read_fingerprint(arguments.others.front())
          : catalog.fingerprint(wanted_operators(arguments.operators, catalog),
                                require_device(catalog, arguments.device, {}).properties);
  std::string difference;
  if (!arguments.others.empty()) {
    difference = describe_difference(mine, read_fingerprint(arguments.others.back()));
    if (!difference.empty()) session.status = status_finding;
  }
  if (session.json) return print_json(mine, difference);
  if (arguments.others.empty()) {
    std::printf("%s", sy::to_string(mine).c_str());
  } else {
    std::printf("%s\n", difference.empty() ? "no difference" : sy::text::printable(difference).c_str());
  }
}

}  // namespace

void add_fingerprint(CLI::App& app, session& session) {
  CLI::App* const command = app.add_subcommand(
      "fingerprint",
      "Print hashes of all that influences choices on a device, or compare them with another host's");
  const auto arguments = std::make_shared<fingerprint_arguments>();
  command->add_option("operator", arguments->operators, "Operators (default: all that have manifests)");
  command->add_option(
      "--device", arguments->device,
      "A device that a table names, a part of its name, or an invented one such as cuda:sm_90; "
      "default: this machine's");
  command
      ->add_option("--compare", arguments->others,
                   "Another host's output; given twice, the outputs of two hosts. Prints the first "
                   "difference, and exits with 1 if there is one")
      ->expected(1, 2);
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
