// SPDX-License-Identifier: MIT
#include "installed.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <switchyard/base/sha256.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/serving/module_store.hpp>

#include "operators.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

/// The SHA-256 of a file, or why it cannot be read.
struct file_digest {
  std::string sha256;
  std::string problem;
};

[[nodiscard]] file_digest digest_of(const std::string& path) {
  try {
    const std::string bytes = sy::read_file(path, sy::max_blob_bytes);
    return {sy::sha256(std::as_bytes(std::span{bytes})), {}};
  } catch (const sy::file_error& problem) {
    return {{}, std::string{problem.message()}};
  }
}

}  // namespace

std::shared_ptr<const sy::selector> rules_of_tables(sy::catalog& catalog, const sy::operator_description& op,
                                                    const sy::device_properties& device,
                                                    const std::string& force) {
  const sy::catalog::contents files = catalog.files(op);
  auto named = std::make_shared<sy::manifest>();
  named->path = "the tables";
  named->target = {device.backend, device.arch};
  std::set<std::pair<std::string, std::string>> known;
  const auto add = [&](const std::shared_ptr<const sy::table>& table) {
    if (table->device.backend != device.backend || !sy::has_arch(device, table->device)) return;
    for (const sy::row_group& group : table->groups) {
      const std::string type = type_key(group.type);
      for (const std::string& id : group.ids) {
        if (!known.emplace(id, type).second) continue;
        sy::variant& variant = named->variants.emplace_back();
        variant.id = id;
        variant.type = group.type;
      }
    }
  };
  std::for_each(files.overlays.begin(), files.overlays.end(), add);
  std::for_each(files.tables.begin(), files.tables.end(), add);
  if (named->variants.empty()) return nullptr;
  std::vector<std::string> ignored;
  return sy::build_selector({files.described != nullptr ? files.described : &op,
                             device,
                             {named},
                             files.overlays,
                             files.tables,
                             force},
                            ignored);
}

std::vector<std::string> find_missing_blobs(const sy::selector& rules, sy::problem_view problem) {
  std::vector<std::string> out(rules.candidates.size());
  std::map<std::string, file_digest> known;
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    if (!sy::detail::find_reason(rules, i, problem, {}).empty()) continue;
    for (const sy::launch& launch : rules.candidates[i].variant->launches) {
      if (launch.is_fill || !out[i].empty()) continue;
      const auto [found, is_new] = known.try_emplace(launch.blob);
      if (is_new) found->second = digest_of(launch.blob);
      if (!found->second.problem.empty()) {
        out[i] = "its blob cannot be read (" + found->second.problem + ")";
      } else if (found->second.sha256 != launch.sha256) {
        out[i] = "its blob " + launch.blob + " is not the one that the manifest pins (its SHA-256 differs)";
      }
    }
  }
  return out;
}

}  // namespace tool
