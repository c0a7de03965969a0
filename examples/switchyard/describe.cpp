// SPDX-License-Identifier: MIT
// switchyard describe: exports an operator's description, for tools that do not have its C++ type.
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/io/write_file.hpp>
#include <switchyard/tool/described_operator.hpp>

#include "command.hpp"
#include "operators.hpp"

namespace tool {

namespace {

struct describe_arguments {
  std::string operator_name;
  std::string output;
};

void run(const describe_arguments& arguments) {
  const known_operator& known = require_operator(arguments.operator_name);
  const std::string text = switchyard::tool::to_json(*known.description).dump(1) + "\n";
  if (arguments.output.empty()) {
    std::printf("%s", text.c_str());
  } else {
    switchyard::write_file(arguments.output, text);
  }
}

}  // namespace

void add_describe(CLI::App& app, session& /*session*/) {
  auto* const command = app.add_subcommand("describe", "Print an operator's axes and arguments as JSON");
  const auto arguments = std::make_shared<describe_arguments>();
  command->add_option("operator", arguments->operator_name, "Name of the operator")->required();
  command->add_option("-o,--output", arguments->output, "Write this file instead of printing");
  command->footer(
      "Another program reads the file with --operators: it then knows the operator's axes and "
      "arguments.");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace tool
