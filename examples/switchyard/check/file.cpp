// SPDX-License-Identifier: MIT
// Checks one file: whether it can be read, the blobs beside it, and whether it is in the right folder.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/sha256.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/serving/module_store.hpp>
#include <switchyard/tool/check_launch.hpp>
#include <switchyard/tool/check_values.hpp>
#include <switchyard/tool/described_operator.hpp>
#include <switchyard/tool/read_blob.hpp>

#include "check/findings.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// The target of a blob that is a symbolic link, if it is outside its manifest's folder.
std::string target_outside(const std::string& manifest, const std::string& blob) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const fs::path folder = fs::canonical(fs::path{manifest}.parent_path(), problem);
  if (problem) return {};
  const fs::path file = fs::canonical(blob, problem);
  if (problem) return {};
  const fs::path from_there = file.lexically_relative(folder);
  return from_there.empty() || *from_there.begin() == ".." ? file.string() : std::string{};
}

/// The architecture of shared objects that this machine loads.
constexpr std::string_view this_machine() {
#if defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "none";
#endif
}

/// The result of reading a blob. A blob is read once, however many launches name it.
struct read_result {
  sy::tool::blob_facts facts;
  bool is_whole = false;  ///< whether it is there, and has the pinned hash
};

class blob_checker {
 public:
  blob_checker(const sy::manifest& from, bool knows_arguments, report& out, checked_files& files)
      : from_{from}, knows_arguments_{knows_arguments}, out_{out}, files_{files} {}

  void run() {
    for (const sy::variant& variant : from_.variants) {
      for (const sy::launch& launch : variant.launches) {
        if (!launch.is_fill) check(variant, launch);
      }
    }
  }

 private:
  void check(const sy::variant& variant, const sy::launch& launch) {
    const auto [pinned, is_new] = pins_.try_emplace(launch.blob, launch.sha256);
    if (is_new) blobs_[launch.blob] = read(launch);
    if (pinned->second != launch.sha256) {
      out_.add(severity::error, sy::error_code::blob_hash_differs, from_.path,
               "variant '" + variant.id + "' pins " + launch.blob + " to SHA-256 " + launch.sha256 +
                   ", another variant to " + pinned->second + ": one of them is of an older build");
    }
    const read_result& blob = blobs_[launch.blob];
    if (!blob.is_whole) return;
    const sy::tool::placed_launch placed{from_.target, variant, launch, blob.facts, knows_arguments_};
    for (const sy::tool::launch_problem& problem : sy::tool::check_launch(placed)) {
      // Variants often share a kernel, and its faults.
      if (!said_.insert(launch.blob + problem.text).second) continue;
      out_.add(severity::error, problem.code, launch.blob,
               problem.text + " (variant '" + variant.id + "' of " + from_.path + ")");
    }
  }

  [[nodiscard]] read_result read(const sy::launch& first) {
    const std::string& path = first.blob;
    files_.blobs.insert(path);
    if (const std::string outside = target_outside(from_.path, path); !outside.empty()) {
      out_.add(
          severity::note, path,
          "is a symbolic link to " + outside +
              ", outside the manifest's folder: it works here, because its hash matches, but a copy of the "
              "folder may lack the file");
    }
    read_result out;
    try {
      const std::string text = sy::read_file(path, sy::max_blob_bytes);
      const auto bytes = std::as_bytes(std::span{text});
      const std::string digest = sy::sha256(bytes);
      if (digest != first.sha256) {
        out_.add(severity::error, sy::error_code::blob_hash_differs, path,
                 "has SHA-256 " + digest + ", but " + from_.path + " pins " + first.sha256 +
                     ": install blob and manifest of one build");
        return out;
      }
      out.facts = sy::tool::read_blob(bytes, from_.target.backend);
      out.is_whole = true;
      if (out.facts.arch == this_machine()) check_libraries(path, out.facts.needs, from_.path, out_);
    } catch (const sy::file_error& problem) {
      out_.add(severity::error, sy::error_code::blob_missing, path,
               "kernel '" + first.kernel + "' of " + from_.path + " is in it, but it cannot be read (" +
                   problem.what() + ")");
    }
    return out;
  }

  const sy::manifest& from_;
  bool knows_arguments_;
  report& out_;
  checked_files& files_;
  std::map<std::string, std::string> pins_;
  std::map<std::string, read_result> blobs_;
  std::set<std::string> said_;
};

/// The blobs that a manifest names, even in invalid variants.
void note_blobs(const nlohmann::json& at, const std::string& folder, checked_files& files, int depth = 0) {
  constexpr int deepest = 64;
  if (!at.is_structured() || depth > deepest) return;
  if (at.is_object() && at.contains("blob") && at["blob"].is_string())
    files.blobs.insert(folder + "/" + at["blob"].get<std::string>());
  for (const nlohmann::json& value : at) note_blobs(value, folder, files, depth + 1);
}

/// Reports a file outside its operator's folder, where the operator does not find it.
void check_place(const std::string& path, std::string_view kind, const std::string& operator_name,
                 report& out) {
  const std::filesystem::path file = std::filesystem::absolute(path).lexically_normal();
  std::filesystem::path folder = file.parent_path();
  const auto grandparent = kind == "kernels" ? folder.parent_path().parent_path() : folder.parent_path();
  if (grandparent.filename() != kind) return;  // not in a tree: an overlay, or a file by itself
  const std::string named = (kind == "kernels" ? folder.parent_path() : folder).filename().string();
  if (named != operator_name) {
    out.add(severity::error, sy::error_code::unknown_operator, path,
            "is for operator '" + sy::text::shortened(operator_name, 80) + "' but is in the folder of '" +
                named + "', so it is rejected when that operator is read: move it");
  }
}

/// Reports a target that no device has: its manifest is never used.
void check_target(const sy::manifest& from, report& out) {
  const auto& [backend, arch] = from.target;
  constexpr std::array<std::string_view, 3> backends{"cuda", "hip", "host"};
  const auto fail = [&](const std::string& problem) {
    out.add(severity::error, sy::error_code::no_variant, from.path, problem + ", so it serves no call");
  };
  if (std::find(backends.begin(), backends.end(), backend) == backends.end()) {
    return fail("/target/backend: the library has no backend '" + sy::text::shortened(backend, 80) +
                "' (it has " + sy::text::join(backends) + ")" + sy::text::suggestion(backend, backends));
  }
  if (arch == "any") return;
  constexpr std::array<std::string_view, 2> machines{"x86_64", "aarch64"};
  const bool is_known = backend == "cuda" ? sy::detail::parse_cuda_arch(arch).has_value()
                        : backend == "hip"
                            ? arch.starts_with("gfx") && arch.size() > 5
                            : std::find(machines.begin(), machines.end(), arch) != machines.end();
  if (is_known) return;
  fail("/target/arch: no device of backend '" + backend + "' has the architecture '" +
       sy::text::shortened(arch, 80) + "'; expected " +
       (backend == "cuda"  ? "a name such as sm_90a or compute_90"
        : backend == "hip" ? "a name such as gfx942"
                           : "x86_64 or aarch64") +
       ", or any");
}

/// Reports calls that variants serve, but for which no plan can be made.
void check_values(const sy::manifest& from, const known_operator& known, report& out) {
  sy::tool::value_checker checker{*known.description, from.target, known.knows_arguments};
  folded_findings found;
  for (const sy::variant& variant : from.variants) {
    for (const sy::tool::value_problem& problem : checker.check(variant))
      found.add(problem.kind, "variant '" + variant.id + "': " + problem.text);
  }
  found.visit([&](const std::string& message) {
    out.add(severity::error, sy::error_code::evaluation_failed, from.path, message);
  });
}

template <class Content, class Parse>
[[nodiscard]] std::shared_ptr<const Content> parse(const std::string& path, report& out,
                                                   const Parse& parse_text) {
  sy::warnings warned;
  auto content = std::make_shared<const Content>(parse_text(warned));
  folded_findings found;
  for (const std::string& message : warned.messages) found.add(sy::without_indices(message, path), message);
  found.visit([&](const std::string& message) { out.add_message(severity::error, path, message); });
  if (warned.left_out > 0) {
    out.add(severity::error, path, "and " + std::to_string(warned.left_out) + " more invalid entries");
  }
  return content;
}

/// Notes what cannot be checked for an operator that only files describe.
void check_stranger(const std::string& path, const std::string& operator_name, const nlohmann::json& document,
                    report& out) {
  std::vector<std::string_view> names;
  for (const known_operator& known : known_operators()) names.push_back(known.description->name);
  const std::string meant = sy::text::suggestion(operator_name, names);
  out.add(meant.empty() ? severity::note : severity::warning, sy::error_code::unknown_operator, path,
          "operator '" + sy::text::shortened(operator_name, 80) + "' is not known to this program" + meant +
              (meant.empty() ? ": its" : " Its") +
              " axes and arguments are taken from this file, so their names and types are not checked. A "
              "program that has the operator exports them with `describe`");
  if (!document.contains("variants") && !document.contains("groups")) {
    out.add(severity::warning, path, "has neither variants nor groups");
  }
}

}  // namespace

void check_file(const std::string& path, report& out, checked_files& files) {
  try {
    const std::string text = sy::read_file(path, sy::max_json_bytes);
    const nlohmann::json document = sy::parse_json(text, path);
    if (document.is_object() && document.contains("$schema") && !document.contains("schema"))
      return;  // a JSON Schema
    const sy::json_place file{document, path};
    const auto schema = file.at("schema");
    const std::string& kind = schema.string();
    if (kind.starts_with("switchyard.space/")) return;  // for the build, not for the library
    if (kind.starts_with("switchyard.operator/")) {     // what `describe` exports
      sy::tool::described_operator{file.at("operator").string()}.read(file);
      return;
    }
    const bool is_manifest = kind.starts_with("switchyard.manifest/");
    if (!is_manifest && !kind.starts_with("switchyard.table/")) {
      schema.fail(sy::error_code::wrong_schema,
                  "expected \"switchyard.manifest/1\" or \"switchyard.table/1\", got \"" + kind + "\"");
    }
    (is_manifest ? files.manifests : files.tables) += 1;
    sy::check_schema(file, is_manifest ? "manifest" : "table");
    const auto operator_place = file.at("operator");
    const std::string& operator_name = operator_place.string();
    check_place(path, is_manifest ? "kernels" : "tables", operator_name, out);
    check_keys(path, text, out);
    const known_operator& known = operator_of(operator_name, document);
    if (known.is_learned) check_stranger(path, operator_name, document, out);
    const sy::operator_description& op = *known.description;
    operator_files& into = files.operators[&known];
    if (is_manifest) {
      into.manifests.push_back(parse<sy::manifest>(
          path, out, [&](sy::warnings& warned) { return sy::parse_manifest(text, path, op, warned); }));
      note_blobs(document, std::filesystem::path{path}.parent_path().string(), files);
      if (document["variants"].empty()) {
        out.add(severity::error, sy::error_code::no_variant, path,
                "/variants: the manifest has no variants, so it serves no call");
      }
      check_target(*into.manifests.back(), out);
      check_values(*into.manifests.back(), known, out);
      blob_checker{*into.manifests.back(), known.knows_arguments, out, files}.run();
    } else {
      into.tables.push_back(parse<sy::table>(
          path, out, [&](sy::warnings& warned) { return sy::parse_table(text, path, op, warned); }));
    }
  } catch (const sy::error& problem) {
    files.not_read.insert(std::filesystem::path{path}.parent_path().string());
    out.add_message(severity::error, path, problem.what());
  }
}

}  // namespace tool
