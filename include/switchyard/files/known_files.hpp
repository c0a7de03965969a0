// SPDX-License-Identifier: MIT
// Files of one kind, with the content of their last valid version.
//
// A file is read again only when it changes. If it cannot be read or parsed, its previous content stays in
// use. It is forgotten only when it is known to be gone.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/reload_report.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/io/file_signature.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

/// Files whose content may be of any type: compiled once for all kinds.
class known_contents {
 public:
  using content = std::shared_ptr<const void>;

  /// See known_files::refresh().
  class reader {
   public:
    reader() = default;
    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;
    [[nodiscard]] virtual content read(const std::string& path, const content& known) const = 0;
    virtual void warn(const std::string& text) const = 0;

   protected:
    ~reader() = default;
  };

  [[nodiscard]] std::vector<content> refresh(const file_listing& found, const reader& from,
                                             reload_report& report);

 private:
  struct entry {
    file_signature seen;
    content known;            // null: never read well, or of another operator
    bool is_refused = false;  // this version is; the content is of an earlier one
    bool is_foreign = false;  // it was read well, and is of another operator
  };

  /// The files to look at. While a folder cannot be read, its files keep their places among the others.
  [[nodiscard]] std::vector<std::string> in_order(const file_listing& found) const;

  void update(const std::string& path, entry& current, bool is_new, const reader& from,
              reload_report& report);

  static void refuse(const error& problem, entry& current, reload_report& report, const reader& from);

  /// Once for each time that a place becomes unreadable.
  void say_obstacle(const std::string& path, const std::error_code& problem, const reader& from);

  std::map<std::string, entry> entries_;
  std::vector<std::string> order_;   // of the entries
  std::set<std::string> obstacles_;  // said already
};

}  // namespace detail

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
    class typed final : public detail::known_contents::reader {
     public:
      explicit typed(const Reader& from) : from_{from} {}
      [[nodiscard]] detail::known_contents::content read(
          const std::string& path, const detail::known_contents::content& known) const override {
        return from_.read(path, std::static_pointer_cast<const Content>(known));
      }
      void warn(const std::string& text) const override { from_.warn(text); }

     private:
      const Reader& from_;
    };
    contents out;
    for (const auto& content : known_.refresh(found, typed{reader}, report))
      out.push_back(std::static_pointer_cast<const Content>(content));
    return out;
  }

 private:
  detail::known_contents known_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/known_files_impl.hpp>
#endif
