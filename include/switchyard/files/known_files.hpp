// SPDX-License-Identifier: MIT
// Files of one kind, with the content of their last valid version.
//
// A file is read again only when it changes. If it cannot be read or parsed, its previous content stays in
// use. It is forgotten only when it is known to be gone.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/files/reload_report.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/io/file_signature.hpp>

namespace switchyard {
inline namespace v0 {

template <class Content>
class known_files {
 public:
  using contents = std::vector<std::shared_ptr<const Content>>;

  /// Brings the files up to date and lists what serves, in search order. `reader.read(path, known)` returns a
  /// file's content, or null for a file of another operator, and throws error. `known` is the content read
  /// from the same version of the file before, or null; the reader may return it. `reader.warn(text)` takes
  /// warnings.
  template <class Reader>
  [[nodiscard]] contents refresh(const file_listing& found, const Reader& reader, reload_report& report) {
    for (const file_listing::obstacle& obstacle : found.obstacles)
      say_obstacle(obstacle.path, obstacle.problem, reader);
    contents out;
    std::map<std::string, entry> kept;
    std::vector<std::string> order;
    for (const std::string& path : in_order(found)) {
      if (kept.contains(path)) continue;
      const auto known = entries_.find(path);
      entry current = known == entries_.end() ? entry{} : known->second;
      if (!found.may_have(path)) update(path, current, known == entries_.end(), reader, report);
      if (current.content != nullptr) out.push_back(current.content);
      kept.emplace(path, std::move(current));
      order.push_back(path);
    }
    for (const auto& [path, gone] : entries_) {
      if (gone.content != nullptr && !kept.contains(path)) report.changed.push_back(path);
    }
    order_ = std::move(order);  // nothing fails from here on
    entries_ = std::move(kept);
    std::erase_if(obstacles_, [&](const std::string& path) {
      return std::none_of(found.obstacles.begin(), found.obstacles.end(),
                          [&](const file_listing::obstacle& obstacle) { return obstacle.path == path; }) &&
             !entries_.contains(path);
    });
    return out;
  }

 private:
  struct entry {
    file_signature seen;
    std::shared_ptr<const Content> content;  // null: never read well, or of another operator
    bool is_refused = false;                 // this version is; the content is of an earlier one
    bool is_foreign = false;                 // it was read well, and is of another operator
  };

  /// The files to look at. While a folder cannot be read, its files keep their places among the others.
  [[nodiscard]] std::vector<std::string> in_order(const file_listing& found) const {
    if (found.obstacles.empty()) return found.files;
    std::vector<std::string> out;
    for (const std::string& path : order_) {
      const bool is_found = std::find(found.files.begin(), found.files.end(), path) != found.files.end();
      if (is_found || found.may_have(path)) out.push_back(path);
    }
    out.insert(out.end(), found.files.begin(), found.files.end());  // a second mention is passed over
    return out;
  }

  template <class Reader>
  void update(const std::string& path, entry& current, bool is_new, const Reader& reader,
              reload_report& report) {
    const file_signature now{path};
    if (now.obstacle() != 0) {
      say_obstacle(path, {now.obstacle(), std::generic_category()}, reader);
      return;
    }
    const bool is_same = !is_new && now == current.seen;
    if (is_same && (current.content == nullptr || current.is_refused)) {
      obstacles_.erase(path);
      return;
    }
    current.seen = now;
    current.is_refused = false;
    if (now.is_gone() &&
        current.content != nullptr) {  // an overlay that was named, or gone since it was listed
      report.changed.push_back(path);
      current.content = nullptr;
      return;
    }
    try {
      current.content = reader.read(path, is_same ? current.content : nullptr);
      current.is_foreign = current.content == nullptr;
      if (!is_same) report.changed.push_back(path);
      obstacles_.erase(path);
    } catch (const file_error& problem) {
      if (problem.cause() != 0 && !now.is_gone()) {  // the system's fault, not the content's: read next time
        current.seen = {};
        say_obstacle(path, {problem.cause(), std::generic_category()}, reader);
        return;
      }
      refuse(problem, current, report, reader);
    } catch (const error& problem) {
      refuse(problem, current, report, reader);
    }
  }

  template <class Reader>
  static void refuse(const error& problem, entry& current, reload_report& report, const Reader& reader) {
    current.is_refused = true;
    if (current.is_foreign) return;  // its operator says it
    report.refused.emplace_back(problem.what());
    reader.warn(problem.what() + std::string{current.content != nullptr
                                                 ? " (keeping the previously loaded version)"
                                                 : " (the file is not used)"});
  }

  /// Once for each time that a place becomes unreadable.
  template <class Reader>
  void say_obstacle(const std::string& path, const std::error_code& problem, const Reader& reader) {
    if (!obstacles_.insert(path).second) return;
    reader.warn(
        "[switchyard.101] " + path + ": cannot be read: " + problem.message() +
        ". What was loaded from there before stays in use: correct its permissions, or mount it again");
  }

  std::map<std::string, entry> entries_;
  std::vector<std::string> order_;   // of the entries
  std::set<std::string> obstacles_;  // said already
};

}  // namespace v0
}  // namespace switchyard
