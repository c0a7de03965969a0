// SPDX-License-Identifier: MIT
// switchyard check: checks manifests, tables and blobs, alone and against each other.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>

#include "check/coverage.hpp"
#include "check/findings.hpp"
#include "check/run.hpp"
#include "colour.hpp"
#include "command.hpp"
#include "tune/measure.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace tool {

namespace {

struct check_arguments {
  std::vector<std::string> paths;
  bool strict = false;
  bool run = false;
  run_settings running;
  std::string limit = "30s";
  coverage_settings covering;
};

/// The JSON files of a path, sorted, all other files below it, and the folders, including itself.
struct found_files {
  std::vector<std::string> json;
  std::set<std::string> others;
  std::set<std::string> folders;
};

void collect(const std::string& path, found_files& out, report& findings) {
  std::error_code problem;
  const fs::file_status status = fs::status(path, problem);
  if (!fs::exists(status)) {
    findings.add(
        severity::error, sy::error_code::unreadable_file, path,
        problem && problem != std::errc::no_such_file_or_directory ? problem.message() : "does not exist");
    return;
  }
  if (!fs::is_directory(status)) {
    out.json.push_back(path);
    return;
  }
  out.folders.insert(path);
  fs::recursive_directory_iterator at{path, fs::directory_options::follow_directory_symlink, problem};
  for (const fs::recursive_directory_iterator end; !problem && at != end; at.increment(problem)) {
    std::error_code unknown;
    if (at->is_directory(unknown)) {
      // A hidden folder is no part of the tree: the build keeps its jobs in one, and catalogs ignore it.
      if (at->path().filename().string().starts_with('.')) {
        at.disable_recursion_pending();
      } else {
        out.folders.insert(at->path().string());
      }
      continue;
    }
    if (at->path().extension() == ".json") {
      out.json.push_back(at->path().string());
    } else {
      out.others.insert(at->path().string());
    }
  }
  if (problem) {
    findings.add(severity::error, sy::error_code::unreadable_file, path,
                 "cannot be searched: " + problem.message());
  }
}

/// Finds manifests for tables that are checked alone: those of the tree they are in, or of the search path.
void borrow_manifests(checked_files& files, const std::vector<std::string>& paths, const session& session) {
  sy::catalog_options options = session.options();
  for (const std::string& path : paths) {
    fs::path root = fs::absolute(path).lexically_normal();
    for (int i = 0; i < 4 && root.has_relative_path(); ++i, root = root.parent_path()) {
      std::error_code unknown;
      if (!fs::is_directory(root / "kernels", unknown)) continue;
      options.roots.push_back(root.string());
      options.default_roots = false;
    }
  }
  sy::catalog catalog{std::move(options)};
  for (auto& [known, of_operator] : files.operators) {
    of_operator.manifests = catalog.files(*known->description).manifests;
    of_operator.borrowed = true;
  }
}

void check_unused(const found_files& found, const checked_files& files, report& out) {
  for (const std::string& file : found.others) {
    const std::string extension = fs::path{file}.extension().string();
    const bool is_blob = extension == ".so" || extension == ".cubin" || extension == ".fatbin" ||
                         extension == ".ptx" || extension == ".hsaco";
    const std::string folder = fs::path{file}.parent_path().string();
    if (is_blob && !files.blobs.contains(file) && !files.not_read.contains(folder)) {
      out.add(severity::warning, file, "no variant of a manifest uses this blob");
    }
  }
}

[[nodiscard]] const char* to_string(severity level) {
  switch (level) {
    case severity::error:
      return "error";
    case severity::warning:
      return "warning";
    case severity::note:
      break;
  }
  return "note";
}

/// Who may write a path besides its owner; empty if nobody may. The user's own group does not count. `above`:
/// a parent folder, in which the sticky bit keeps others from replacing files that are not theirs.
[[nodiscard]] std::string other_writers(const std::string& path, bool above) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  const bool kept = above && (found.st_mode & S_ISVTX) != 0;
  if ((found.st_mode & S_IWOTH) != 0 && !kept) return "everybody";
  const bool foreign = found.st_gid != 0 && found.st_gid != ::getegid();
  if ((found.st_mode & S_IWGRP) != 0 && foreign && !kept) return "group " + std::to_string(found.st_gid);
  return {};
}

/// Reports files that others may change or replace, and so run code in the engines that read the root.
void check_writers(const std::vector<std::string>& paths, const found_files& found, report& out) {
  constexpr std::size_t most = 8;
  std::size_t count = 0;
  const auto look = [&](const std::string& path, bool above) {
    const std::string writers = other_writers(path, above);
    if (writers.empty() || ++count > most) return;
    out.add(severity::warning, path,
            writers +
                " may write it, and so run code in engines that read this root; remove the permission, for "
                "example with chmod go-w");
  };
  std::set<std::string> above;
  for (const std::string& path : paths) {
    for (fs::path at = fs::absolute(path).lexically_normal(); at.has_relative_path();) {
      at = at.parent_path();
      above.insert(at.string());
    }
  }
  for (const std::string& folder : found.folders) look(folder, false);
  for (const std::string& file : found.json) look(file, false);
  for (const std::string& file : found.others) look(file, false);
  for (const std::string& folder : above) {
    if (!found.folders.contains(folder)) look(folder, true);
  }
  if (count > most) {
    out.add(severity::warning, paths.front(),
            "and " + std::to_string(count - most) + " more files and folders that others may write");
  }
}

void print(const report& out, const checked_files& files, const run_counts* ran, bool json) {
  std::vector<finding> sorted = out.findings();
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const finding& a, const finding& b) { return a.level < b.level; });
  if (json) {
    ordered_json document{{"errors", out.count(severity::error)},
                          {"warnings", out.count(severity::warning)},
                          {"notes", out.count(severity::note)},
                          {"manifests", files.manifests},
                          {"tables", files.tables},
                          {"blobs", files.blobs.size()},
                          {"findings", ordered_json::array()}};
    if (ran != nullptr) {
      document["run"] = {{"judged", ran->judged},
                         {"faulty", ran->faulty},
                         {"not_run", ran->not_run},
                         {"errors", ordered_json::array()}};
      for (const variant_error& of : ran->errors) {
        document["run"]["errors"].push_back(
            {{"file", of.file}, {"variant", of.variant}, {"share", of.share}, {"problem", of.problem}});
      }
    }
    for (const finding& found : sorted) {
      ordered_json entry{{"severity", to_string(found.level)}};
      if (found.code != 0) entry["code"] = found.code;
      entry["file"] = found.file;
      entry["message"] = found.message;
      document["findings"].push_back(std::move(entry));
    }
    std::printf("%s\n", document.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    return;
  }
  for (const finding& found : sorted) {
    const std::string code =
        found.code == 0 ? std::string{} : "[switchyard." + std::to_string(found.code) + "] ";
    const std::string level = found.level == severity::error     ? paint(colour::red, "error")
                              : found.level == severity::warning ? paint(colour::yellow, "warning")
                                                                 : std::string{"note"};
    std::printf("%s: %s%s: %s\n", level.c_str(), code.c_str(), sy::text::printable(found.file).c_str(),
                sy::text::printable(found.message).c_str());
  }
  std::printf("%zu errors, %zu warnings, %zu notes in %zu manifests, %zu tables and %zu blobs\n",
              out.count(severity::error), out.count(severity::warning), out.count(severity::note),
              files.manifests, files.tables, files.blobs.size());
  if (ran != nullptr) {
    std::printf("%zu variants were run, %zu of them are faulty; %zu were not run\n", ran->judged, ran->faulty,
                ran->not_run);
    const auto largest =
        std::max_element(ran->errors.begin(), ran->errors.end(),
                         [](const variant_error& a, const variant_error& b) { return a.share < b.share; });
    if (largest != ran->errors.end()) {
      std::printf("the largest error is %.2g of the tolerance: variant '%s' of %s, at %s\n", largest->share,
                  sy::text::printable(largest->variant).c_str(), sy::text::printable(largest->file).c_str(),
                  largest->problem.c_str());
    }
  }
}

/// With --coverage, paths are the roots.
void run_coverage(const check_arguments& arguments, session& session) {
  if (arguments.run) throw usage_error{"--coverage and --run are two checks; give one at a time"};
  tool::session of_roots = session;
  of_roots.roots.insert(of_roots.roots.end(), arguments.paths.begin(), arguments.paths.end());
  check_coverage(arguments.covering, of_roots);
  session.status = of_roots.status;
}

void run(const check_arguments& arguments, session& session) {
  if (!arguments.covering.lists.empty()) return run_coverage(arguments, session);
  if (arguments.paths.empty()) throw usage_error{"check: name roots, folders or files"};
  if (!arguments.covering.devices.empty()) throw usage_error{"--device belongs to --coverage LIST"};
  report out;
  found_files found;
  for (const std::string& path : arguments.paths) collect(path, found, out);
  std::sort(found.json.begin(), found.json.end());
  found.json.erase(std::unique(found.json.begin(), found.json.end()), found.json.end());
  checked_files files;
  for (const std::string& path : found.json) check_file(path, out, files);
  if (files.manifests + files.tables == 0 && out.findings().empty()) {
    out.add(severity::error, arguments.paths.front(), "contains neither a manifest nor a table");
  }
  const bool tables_alone = std::none_of(found.json.begin(), found.json.end(), [](const std::string& file) {
    return fs::absolute(file).string().find("/kernels/") != std::string::npos;
  });
  if (files.manifests == 0 && tables_alone) borrow_manifests(files, arguments.paths, session);
  for (const auto& [known, of_operator] : files.operators) {
    check_together(*known, of_operator, out);
    check_repeated_rows(*known, of_operator, out);
    check_dates(of_operator, out);
  }
  check_unused(found, files, out);
  check_writers(arguments.paths, found, out);
  run_counts ran;
  if (arguments.run) {
    run_settings running = arguments.running;
    running.limit_seconds = require_duration("--limit", arguments.limit);
    ran = run_variants(files, running, session, out);
    if (interrupted()) {
      session.status = status_interrupted();
      return;
    }
  }
  print(out, files, arguments.run ? &ran : nullptr, session.json);
  if (out.count(severity::error) > 0) {
    session.status = status_error;
  } else if (arguments.strict && out.count(severity::warning) > 0) {
    session.status = status_finding;
  }
}

}  // namespace

void add_check(CLI::App& app, session& session) {
  auto* const command =
      app.add_subcommand("check", "Check manifests, tables and blobs, by themselves and together");
  const auto arguments = std::make_shared<check_arguments>();
  command->add_option("path", arguments->paths, "Roots, folders or files; with --coverage, roots");
  command->add_flag("--strict", arguments->strict, "Exit with 1 when there are warnings");
  command->add_flag(
      "--run", arguments->run,
      "Also run every variant on this machine, each manifest in processes of its own, and compare "
      "its results with the definition in f64, as `tune` does; one error for each faulty variant");
  command
      ->add_option(
          "--coverage", arguments->covering.lists,
          "Only report which calls of this problem list or recording no row of a table decides, for each "
          "device; exit with 1 if there are any. May be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--device", arguments->covering.devices,
                   "With --coverage: a device, as for explain. May be repeated. Default: the devices that "
                   "tables of the operators name")
      ->allow_extra_args(false);
  command
      ->add_option("--at", arguments->running.at,
                   "With --run: axis=1,2,8..64*2, the problems to run. May be repeated. Default: small ones")
      ->allow_extra_args(false);
  command
      ->add_option("--limit", arguments->limit,
                   "With --run: give up a variant that does not answer within this time")
      ->capture_default_str();
  command->callback([arguments, &session] { run(*arguments, session); });
}

}  // namespace tool
