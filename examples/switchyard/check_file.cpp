// Checks of one file: the reader's result, the blobs beside it, and whether it is in the right folder.
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include <switchyard/base/file.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/launching/module_store.hpp>

#include "findings.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// Where a blob that is a symbolic link leads, if that is out of its manifest's folder.
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

void check_blobs(const sy::manifest& from, report& out, checked_files& files) {
  struct pinned {
    std::string sha256;
    std::string kernel;
  };
  std::map<std::string, pinned> blobs;
  for (const sy::variant& variant : from.variants) {
    for (const sy::launch& each : variant.launches) {
      if (each.is_fill) continue;
      const auto [found, is_new] = blobs.try_emplace(each.blob, pinned{each.sha256, each.kernel});
      if (!is_new && found->second.sha256 != each.sha256) {
        out.add(severity::error, sy::error_code::blob_hash_differs, from.path,
                "variant '" + variant.id + "' pins " + each.blob + " to SHA-256 " + each.sha256 +
                    ", another variant to " + found->second.sha256 + ": one of them is of an older build");
      }
    }
  }
  for (const auto& [path, pin] : blobs) {
    files.blobs.insert(path);
    if (const std::string outside = target_outside(from.path, path); !outside.empty()) {
      out.add(
          severity::note, path,
          "is a symbolic link to " + outside +
              ", outside the manifest's folder: it works here, because its hash matches, but a copy of the "
              "folder may lack the file");
    }
    try {
      const std::string bytes = sy::read_file(path, sy::max_blob_bytes);
      const std::string digest = sy::sha256(std::as_bytes(std::span{bytes}));
      if (digest != pin.sha256) {
        out.add(severity::error, sy::error_code::blob_hash_differs, path,
                "has SHA-256 " + digest + ", but " + from.path + " pins " + pin.sha256 +
                    ": install blob and manifest of one build");
      }
    } catch (const sy::file_error& problem) {
      out.add(severity::error, sy::error_code::blob_missing, path,
              "kernel '" + pin.kernel + "' of " + from.path + " is in it, but it cannot be read (" +
                  problem.what() + ")");
    }
  }
}

/// A file that is not below its operator's name is not found by that operator.
void check_place(const std::string& path, std::string_view kind, const std::string& operator_name,
                 report& out) {
  const std::filesystem::path file = std::filesystem::absolute(path).lexically_normal();
  std::filesystem::path folder = file.parent_path();
  const auto grandparent = kind == "kernels" ? folder.parent_path().parent_path() : folder.parent_path();
  if (grandparent.filename() != kind) return;  // not in a tree: an overlay, or a file by itself
  const std::string named = (kind == "kernels" ? folder.parent_path() : folder).filename().string();
  if (named != operator_name) {
    out.add(severity::error, sy::error_code::unknown_operator, path,
            "is for operator '" + operator_name + "' but is in the folder of '" + named +
                "', so it is rejected when that operator is read: move it");
  }
}

template <class Content, class Parse>
[[nodiscard]] std::shared_ptr<const Content> parse(const std::string& path, report& out,
                                                   const Parse& parse_text) {
  sy::warnings warned;
  auto content = std::make_shared<const Content>(parse_text(warned));
  for (const std::string& each : warned.messages) out.add_message(severity::error, path, each);
  if (warned.left_out > 0) {
    out.add(severity::error, path, "and " + std::to_string(warned.left_out) + " more invalid entries");
  }
  return content;
}

/// The blobs of a manifest whose operator is not known, as far as the file says.
void check_stranger(const std::string& path, const nlohmann::json& document, const std::string& operator_name,
                    report& out) {
  out.add(severity::warning, sy::error_code::unknown_operator, path,
          unknown_operator_text(operator_name) +
              ": only the syntax was checked. Add the operator to operators.cpp of this program to check the "
              "rest");
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
    const known_operator* const known = find_operator(operator_name);
    if (known == nullptr) return check_stranger(path, document, operator_name, out);
    const sy::operator_description& op = *known->description;
    operator_files& into = files.operators[known];
    if (is_manifest) {
      into.manifests.push_back(parse<sy::manifest>(
          path, out, [&](sy::warnings& warned) { return sy::parse_manifest(text, path, op, warned); }));
      check_blobs(*into.manifests.back(), out, files);
    } else {
      into.tables.push_back(parse<sy::table>(
          path, out, [&](sy::warnings& warned) { return sy::parse_table(text, path, op, warned); }));
    }
  } catch (const sy::error& problem) {
    out.add_message(severity::error, path, problem.what());
  }
}

}  // namespace tool
