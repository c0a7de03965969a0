// SPDX-License-Identifier: MIT
// The bodies of known_files.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/known_files.hpp>
#include <switchyard/files/reload_report.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/io/file_signature.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_COLD std::vector<known_contents::content> known_contents::refresh(const file_listing& found,
                                                                             const reader& from,
                                                                             reload_report& report) {
  for (const file_listing::obstacle& obstacle : found.obstacles)
    say_obstacle(obstacle.path, obstacle.problem, from);
  std::vector<content> out;
  std::map<std::string, entry> kept;
  std::vector<std::string> order;
  for (const std::string& path : in_order(found)) {
    if (kept.contains(path)) continue;
    const auto known = entries_.find(path);
    entry current = known == entries_.end() ? entry{} : known->second;
    if (!found.may_have(path)) update(path, current, known == entries_.end(), from, report);
    if (current.known != nullptr) out.push_back(current.known);
    kept.emplace(path, std::move(current));
    order.push_back(path);
  }
  for (const auto& [path, gone] : entries_) {
    if (gone.known != nullptr && !kept.contains(path)) report.changed.push_back(path);
  }
  order_ = std::move(order);  // nothing fails from here on
  entries_ = std::move(kept);
  std::erase_if(obstacles_, [&](const std::string& path) {
    return !detail::any_of(found.obstacles.begin(), found.obstacles.end(),
                           [&](const file_listing::obstacle& obstacle) { return obstacle.path == path; }) &&
           !entries_.contains(path);
  });
  return out;
}

SWITCHYARD_COLD std::vector<std::string> known_contents::in_order(const file_listing& found) const {
  if (found.obstacles.empty()) return found.files;
  std::vector<std::string> out;
  for (const std::string& path : order_) {
    const bool is_found = std::find(found.files.begin(), found.files.end(), path) != found.files.end();
    if (is_found || found.may_have(path)) out.push_back(path);
  }
  out.insert(out.end(), found.files.begin(), found.files.end());  // a second mention is passed over
  return out;
}

SWITCHYARD_COLD void known_contents::update(const std::string& path, entry& current, bool is_new,
                                            const reader& from, reload_report& report) {
  const file_signature now{path};
  if (now.obstacle() != 0) {
    say_obstacle(path, {now.obstacle(), std::generic_category()}, from);
    return;
  }
  const bool is_same = !is_new && now == current.seen;
  if (is_same && (current.known == nullptr || current.is_refused)) {
    obstacles_.erase(path);
    return;
  }
  current.seen = now;
  current.is_refused = false;
  if (now.is_gone() && current.known != nullptr) {  // an overlay that was named, or gone since it was listed
    report.changed.push_back(path);
    current.known = nullptr;
    return;
  }
  try {
    current.known = from.read(path, is_same ? current.known : nullptr);
    current.is_foreign = current.known == nullptr;
    if (!is_same) report.changed.push_back(path);
    obstacles_.erase(path);
  } catch (const file_error& problem) {
    if (problem.cause() != 0 && !now.is_gone()) {  // the system's fault, not the content's: read next time
      current.seen = {};
      say_obstacle(path, {problem.cause(), std::generic_category()}, from);
      return;
    }
    refuse(problem, current, report, from);
  } catch (const error& problem) {
    refuse(problem, current, report, from);
  }
}

SWITCHYARD_COLD void known_contents::refuse(const error& problem, entry& current, reload_report& report,
                                            const reader& from) {
  current.is_refused = true;
  if (current.is_foreign) return;  // its operator says it
  std::string words = problem.what();
  report.refused.push_back(words);
  words += current.known != nullptr ? " (keeping the previously loaded version)" : " (the file is not used)";
  from.warn(words);
}

SWITCHYARD_COLD void known_contents::say_obstacle(const std::string& path, const std::error_code& problem,
                                                  const reader& from) {
  if (!obstacles_.insert(path).second) return;
  from.warn("[switchyard.101] " + path + ": cannot be read: " + problem.message() +
            ". What was loaded from there before stays in use: correct its permissions, or mount it again");
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
