// SPDX-License-Identifier: MIT
// switchyard report: writes tables as one HTML file with plots; the file needs no network.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/catalog.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/write_file.hpp>
#include <switchyard/problem/problem.hpp>

#include "command.hpp"
#include "report/group_pages.hpp"
#include "report/plot.hpp"
#include "report/prediction.hpp"
#include "tables/costs.hpp"
#include "tables/measured.hpp"
#include "tables/table_files.hpp"

namespace sy = switchyard;
using nlohmann::ordered_json;

namespace tool {

namespace {

using plot::escaped;
using plot::format;

struct report_arguments {
  std::vector<std::string> paths;
  std::string output;
};

// Plots and tables that are wider than a phone scroll by themselves, so that their text stays readable.
constexpr const char* style = R"(
:root { color-scheme: light dark; --page: #fff; --text: #222; --quiet: #666; --rule: #eee; }
@media (prefers-color-scheme: dark) { :root { --page: #15181d; --text: #dcdcdc; --quiet: #9a9a9a; --rule: #333; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; padding: 0 1em; overflow-wrap: anywhere;
  background: var(--page); color: var(--text); }
h1 { font-size: 1.5em; } h2 { border-top: 2px solid var(--text); padding-top: .6em; margin-top: 2em; } h3 { margin-bottom: .2em; }
svg { vertical-align: top; margin: 4px; } svg text { font: 11px system-ui, sans-serif; fill: var(--text); }
svg line.grid { stroke: var(--rule); }
table { border-collapse: collapse; font-size: 12px; overflow-wrap: normal; }
th, td { padding: 2px 8px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
th.id, td.id { text-align: left; } td.id { font-family: ui-monospace, monospace; }
.note { color: var(--quiet); font-size: 12px; }
table, .maps, .pair { display: block; overflow-x: auto; }
.legend span { display: inline-block; margin-right: 1em; font: 11px ui-monospace, monospace; }
.legend i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }
)";

struct file_summary {
  std::string path;
  std::size_t groups = 0;
  std::size_t rows = 0;
  std::size_t variants = 0;  ///< one for each type that it has rows of
  std::size_t costs = 0;     ///< of those, how many state what their time grows with
  std::size_t bytes = 0;
  prediction_quality predicted;
};

[[nodiscard]] std::string write_overview(const std::vector<table_file>& tables,
                                         const std::vector<file_summary>& sums) {
  std::string out =
      "<table class=\"overview\"><thead><tr><th class=\"id\">table</th><th>device</th><th>date</th>"
      "<th>groups</th><th>rows</th><th>KiB</th><th>regret, mean</th><th>p99</th><th>worst</th>"
      "<th>denied</th><th>pinned</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto& runs = tables[i].measured;
    const std::string date = runs.empty() ? std::string{} : runs.front().date;
    out += format("<tr><td class=\"id\"><a href=\"#t%zu\">", i) + escaped(tables[i].content.operator_name) +
           "</a></td><td>" + escaped(tables[i].content.device.name) + "</td><td>" + escaped(date) +
           format(
               "</td><td>%zu</td><td>%zu</td><td>%.1f</td><td>%.4f</td><td>%.3f</td><td>%.3f</td>"
               "<td>%zu</td><td>%zu</td></tr>\n",
               sums[i].groups, sums[i].rows, static_cast<double>(sums[i].bytes) / 1024,
               sums[i].predicted.mean(), sums[i].predicted.quantile(0.99), sums[i].predicted.worst,
               tables[i].content.denials.size(), tables[i].content.pins.size());
  }
  return out + "</tbody></table>\n";
}

void run(const report_arguments& arguments, const session& session) {
  std::vector<table_file> tables;
  for (const std::string& path : arguments.paths) tables.push_back(read_measured_table(path));
  std::vector<file_summary> sums;
  sy::catalog catalog{session.options()};
  std::string body;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const table_file& table = tables[i];
    file_summary& sum = sums.emplace_back();
    sum.path = table.content.path;
    sum.bytes = sy::read_file(sum.path, sy::max_json_bytes).size();
    sum.groups = table.content.groups.size();
    body += format("<h2 id=\"t%zu\">", i) + escaped(table.content.operator_name) + " on " +
            escaped(table.content.device.name.empty() ? "any device" : table.content.device.name) +
            "</h2>\n<p class=\"note\">" + escaped(sum.path);
    for (std::size_t run = 0; run < table.measured.size(); ++run) {
      body += run == 0 ? "; measured: " : "</p>\n<p class=\"note\">before: ";
      body += escaped(describe_measurement(table.measured[run]));
    }
    body += "</p>\n";
    for (const sy::denial& denial : table.content.denials) {
      body += "<p>Denied: <code>" + escaped(denial.variant) + "</code> " + escaped(denial.reason) + "</p>\n";
    }
    const auto variants =
        named_variants({&table}, *installed_rules(catalog, table.op(), table.content.device));
    sum.variants = variants->variants.size();
    for (const sy::variant& variant : variants->variants) {
      if (!variant.cost.text.empty()) ++sum.costs;
    }
    body += format(
        "<p class=\"note\">Times are carried between rows by the costs that installed manifests state for "
        "%zu of its "
        "%zu variants.</p>\n",
        sum.costs, sum.variants);
    for (std::size_t g = 0; g < table.content.groups.size(); ++g) {
      sum.rows += table.content.groups[g].row_count();
      const group_pages pages{table, g, variants};
      sum.predicted.add(pages.predicted());
      body += pages.write();
    }
  }
  const std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>Switchyard tuning tables</title><style>" +
      std::string{style} + "</style></head><body>\n<h1>Switchyard tuning tables</h1>\n" +
      write_overview(tables, sums) + body + "</body></html>\n";
  sy::write_file(arguments.output, html);
  if (session.json) {
    ordered_json document{
        {"output", arguments.output}, {"bytes", html.size()}, {"tables", ordered_json::array()}};
    for (std::size_t i = 0; i < tables.size(); ++i) {
      document["tables"].push_back({{"path", sums[i].path},
                                    {"operator", tables[i].content.operator_name},
                                    {"device", tables[i].content.device.name},
                                    {"groups", sums[i].groups},
                                    {"rows", sums[i].rows},
                                    {"variants", sums[i].variants},
                                    {"variants_with_cost", sums[i].costs},
                                    {"regret_mean", sums[i].predicted.mean()},
                                    {"regret_p99", sums[i].predicted.quantile(0.99)},
                                    {"regret_worst", sums[i].predicted.worst},
                                    {"worst_shape", sums[i].predicted.worst_at},
                                    {"outside_envelope", sums[i].predicted.outside}});
    }
    std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    return;
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    std::printf(
        "%-26s %5zu rows in %zu groups; each predicted from the others: %.4f of the best in the mean, "
        "%.3f at p99, %.3f at worst\n",
        tables[i].content.operator_name.c_str(), sums[i].rows, sums[i].groups, sums[i].predicted.mean(),
        sums[i].predicted.quantile(0.99), sums[i].predicted.worst);
  }
  std::printf("%s: %.0f KiB\n", arguments.output.c_str(), static_cast<double>(html.size()) / 1024);
}

}  // namespace

void add_report(CLI::App& app, session& session) {
  CLI::App* const command = app.add_subcommand(
      "report", "Write tables as one HTML file: winners by size, roofline, regret, coverage");
  const auto arguments = std::make_shared<report_arguments>();
  command->add_option("table", arguments->paths, "Tables")->required();
  command
      ->add_option("-o,--output", arguments->output, "The HTML file; it needs no other file and no network")
      ->required();
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
