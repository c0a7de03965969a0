// SPDX-License-Identifier: MIT
// switchyard explain: shows what would run for a problem on a device, every rule that applied, and every
// candidate.
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/find_unfit.hpp>

#include "command.hpp"
#include "explain/explained_call.hpp"
#include "installed.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

struct explain_arguments {
  std::string operator_name;
  std::vector<std::string> words;
  std::string device;
  std::vector<std::string> attributes;
  sy::choice_limits limits;
  bool all = false;
};

/// Refuses a condition on arguments that no file names, since it has no effect.
void require_named(const sy::operator_description& of_files, const sy::operator_description& op,
                   const stated_problem& problem) {
  if (problem.values.size() <= of_files.axes.size()) return;
  std::vector<std::string_view> names;
  for (const sy::axis_description& axis : of_files.axes.subspan(of_files.own_axes()))
    names.push_back(axis.name);
  throw usage_error{"no manifest or table of '" + std::string{op.name} + "' that is installed names '" +
                    std::string{op.axes.back().name} + "' (they name " +
                    (names.empty() ? std::string{"none"} : sy::text::join(names)) + ")"};
}

/// Chooses as a dispatcher with the same files would.
void choose(explained_call& of) {
  const sy::selector& rules = *of.rules;
  std::vector<std::string> missing(rules.candidates.size());
  if (of.is_installed) missing = find_missing_blobs(rules, of.values());
  of.unusable = std::vector<std::atomic<bool>>(missing.size());
  for (std::size_t i = 0; i < missing.size(); ++i) of.unusable[i] = !missing[i].empty();
  sy::choice chosen = sy::select_fitting(rules, of.values(), of.unusable);
  // Without manifests there is neither a cost nor an order.
  if (!of.is_installed && chosen.why == sy::reason::heuristic) chosen = {};
  of.why = sy::explain(rules, of.values(), chosen, of.unusable);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i].empty()) continue;
    of.why.candidates[i].obstacle = missing[i];
    of.why.candidates[i].passed_over = true;
  }
}

void run(const explain_arguments& arguments, session& session) {
  sy::catalog_options options = session.options();
  options.limits = arguments.limits;
  sy::catalog catalog{std::move(options)};
  const known_operator& known = require_operator(arguments.operator_name, catalog.roots());
  explained_call call;
  call.device = require_device(catalog, arguments.device, arguments.attributes);
  call.rules = catalog.make_selector(*known.description, call.device.properties);  // files add axes
  call.problem = read_problem(known, arguments.words);
  require_named(*call.rules->op, *known.description, call.problem);
  if (call.rules->candidates.empty()) {
    if (auto of_tables =
            rules_of_tables(catalog, *known.description, call.device.properties, call.rules->force_text)) {
      call.rules = std::move(of_tables);
      call.is_installed = false;
    }
  }
  choose(call);
  if (session.json) {
    print_explanation_as_json(call);
  } else {
    print_explanation(call, arguments.all);
  }
  if (call.why.variant.empty()) session.status = status_finding;
}

}  // namespace

void add_explain(CLI::App& app, session& session) {
  auto* const command = app.add_subcommand("explain", "Show what would run for a problem, and why");
  const auto arguments = std::make_shared<explain_arguments>();
  command->add_option("operator", arguments->operator_name, "Name of the operator")->required();
  command->add_option(
      "problem", arguments->words,
      "The axes of the call, axis=value: sizes and dtype, and flags that are not at their default");
  command->add_option(
      "--device", arguments->device,
      "A device that a table names, a part of its name, or an invented one such as cuda:sm_90; "
      "default: this machine's");
  command
      ->add_option("--attribute", arguments->attributes,
                   "Set a device attribute that conditions read: name=value, such as avx2=1; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--workspace-limit", arguments->limits.workspace_bytes,
                   "Limit of the call's workspace in bytes; variants that need more may not serve")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--max-error", arguments->limits.max_error,
                   "Largest error of the results, as a share of what `tune` tolerates, such as 0.5")
      ->check(CLI::PositiveNumber);
  command->add_option("--reproducible", arguments->limits.reproducible,
                      "The class that a manifest states as `reproducible`; others may not serve");
  command->add_flag("--all", arguments->all, "Show candidates of other types too");
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
