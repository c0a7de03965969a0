// SPDX-License-Identifier: MIT
// Finds unknown keys. The readers ignore them, so a misspelled key would go unnoticed.
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <switchyard/base/text.hpp>

#include "check/findings.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

using key_set = std::set<std::string_view>;

class key_checker {
 public:
  key_checker(const std::string& path, report& out) : path_{path}, out_{out} {}

  /// Reports what was found.
  void finish() {
    found_.visit([this](const std::string& message) { out_.add(severity::warning, path_, message); });
    if (left_out_ == 0) return;
    out_.add(severity::warning, path_,
             "and " + std::to_string(left_out_) + " more keys that the format does not have");
  }

  void object(const nlohmann::json& value, const std::string& pointer, const key_set& known) {
    if (!value.is_object()) return;
    for (const auto& [key, unused] : value.items()) {
      // "$schema" is for editors; a key that begins with an underscore is a comment.
      if (known.contains(key) || key.starts_with('$') || key.starts_with('_')) continue;
      // Suggestions take time, and a thousand unknown keys are no misspelling.
      constexpr std::size_t max_told = 100;
      if (told_.insert(key).second && told_.size() > max_told) {
        ++left_out_;
        continue;
      }
      if (told_.size() > max_told) continue;
      const std::string shown = sy::text::shortened(key, 80);
      found_.add(key, std::string{pointer}
                          .append("/")
                          .append(shown)
                          .append(": the format has no such key, so it is ignored")
                          .append(sy::text::suggestion(key, known)));
    }
  }

  template <class Visit>
  static void visit_entries(const nlohmann::json& owner, const std::string& pointer, const char* key,
                            const Visit& visit) {
    if (!owner.is_object() || !owner.contains(key) || !owner[key].is_array()) return;
    for (std::size_t i = 0; i < owner[key].size(); ++i) {
      visit(owner[key][i], pointer + "/" + key + "/" + std::to_string(i));
    }
  }

  void manifest(const nlohmann::json& file) {
    static const key_set top{"schema", "operator", "target", "built_by", "shared", "variants", "release"};
    static const key_set variant{"id",      "type",      "config",   "requires",  "cost",         "cost_us",
                                 "cost_ns", "workspace", "launches", "max_error", "reproducible", "like"};
    static const key_set launch{"blob",  "sha256",  "kernel",       "grid",
                                "block", "cluster", "shared_bytes", "cooperative",
                                "fill",  "byte",    "parameters",   "programmatic_dependent_launch",
                                "like"};
    object(file, "", top);
    if (file.contains("shared") && file["shared"].is_object()) {
      key_set of_shared = launch;  // an object is for variants or for launches
      of_shared.insert(variant.begin(), variant.end());
      for (const auto& [name, shared] : file["shared"].items()) object(shared, "/shared/" + name, of_shared);
    }
    visit_entries(file, "", "variants", [this](const nlohmann::json& entry, const std::string& at) {
      object(entry, at, variant);
      visit_entries(entry, at, "launches", [this](const nlohmann::json& nested, const std::string& below) {
        object(nested, below, launch);
      });
    });
  }

  void table(const nlohmann::json& file) {
    static const key_set top{"schema", "operator",   "device",   "other_devices", "measured",
                             "match",  "neighbours", "envelope", "groups",        "deny",
                             "pin",    "blobs",      "release"};
    static const key_set group{"type", "axes", "rows", "blobs", "measured", "measured_with"};
    static const key_set row{"at", "times_us", "winners", "first", "uncertainty", "measured"};
    static const key_set denial{"variant", "reason", "type"};
    static const key_set pin{"variant", "reason", "type", "at"};
    object(file, "", top);
    visit_entries(file, "", "groups", [this](const nlohmann::json& entry, const std::string& at) {
      object(entry, at, group);
      visit_entries(entry, at, "rows", [this](const nlohmann::json& nested, const std::string& below) {
        object(nested, below, row);
      });
    });
    visit_entries(file, "", "deny",
                  [this](const nlohmann::json& entry, const std::string& at) { object(entry, at, denial); });
    visit_entries(file, "", "pin",
                  [this](const nlohmann::json& entry, const std::string& at) { object(entry, at, pin); });
  }

 private:
  const std::string& path_;
  report& out_;
  folded_findings found_;  // by key
  std::set<std::string> told_;
  std::size_t left_out_ = 0;
};

}  // namespace

void check_keys(const std::string& path, std::string_view text, report& out) {
  const nlohmann::json file = nlohmann::json::parse(text, nullptr, false);
  if (!file.is_object() || !file.contains("schema") || !file["schema"].is_string()) return;
  key_checker checker{path, out};
  if (file["schema"].get_ref<const std::string&>().starts_with("switchyard.manifest/")) {
    checker.manifest(file);
  } else {
    checker.table(file);
  }
  checker.finish();
}

}  // namespace tool
