// SPDX-License-Identifier: MIT
// Reads the files of a search path and makes selectors of them: what would run for a problem, on any device,
// present or not. It loads no kernel and asks no driver; a catalog adds devices and operator states.
//
// An operator's files are read when it is first asked for, and again only when they change. Of files for
// other devices only the beginning is read. Any thread may enter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/known_files.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/files/warning_filter.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/observing/live_records.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/serving/file_selectors.hpp>
#include <switchyard/serving/operator_contents.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Looks at a manifest or a table before it is used: its bytes and its path. Words refuse it; empty: it is
/// used. What it throws refuses it as well. Any thread calls it that reads files, one at a time for an
/// operator.
using file_check = std::function<std::string(std::string_view bytes, const std::string& path)>;

class selector_source {
 public:
  /// Why the backend of a target ("cuda sm_90a") cannot be used; empty: it can.
  using backend_probe = std::function<std::string(std::string_view target)>;

  /// `forced_for` gives SWITCHYARD_FORCE's part for an operator; `warn` takes warnings, from any thread.
  /// `why_absent` is asked when nothing serves a call on the CPU; `accept` is asked of each file, where it is
  /// set.
  selector_source(search_path path, std::function<std::string(std::string_view)> forced_for,
                  warning_sink warn, backend_probe why_absent = {}, file_check accept = {});

  [[nodiscard]] const search_path& path() const noexcept { return path_; }

  /// The share of problems, 0 to 1, that the path's canary decides; 0 at first. A refresh then finds newer
  /// contents. Throws call_error invalid_argument for a share that is none.
  void set_canary_share(double share);
  [[nodiscard]] double canary_share() const;

  /// Takes a variant out of service on devices like this one, as a table of its own does: until a manifest
  /// has another variant in its place. A refresh then finds newer contents.
  void deny(const operator_description& op, const live_denial& denied);

  /// Reads what is new on disk and may serve a device, or any device; what cannot be read leaves its previous
  /// version in use, with a warning.
  [[nodiscard]] operator_files refresh(const operator_description& op, const device_properties* device,
                                       reload_report& report);

  /// All that the files say.
  [[nodiscard]] operator_contents read_all(const operator_files& from) const;

  /// The selectors that files make on a device, one for each type signature.
  [[nodiscard]] std::shared_ptr<const operator_selectors> make_selectors(const operator_description& op,
                                                                         const device_properties& device,
                                                                         const operator_files& from,
                                                                         choice_limits limits = {}) const;

  /// The selector of problems of all types.
  [[nodiscard]] std::shared_ptr<const selector> make_selector(const operator_description& op,
                                                              const device_properties& device,
                                                              const operator_contents& from,
                                                              choice_limits limits = {}) const;

 private:
  [[nodiscard]] static std::string describe_root(const std::string& folder);

  struct known_of_operator {
    known_files<manifest_file> manifests;
    known_files<table_file> overlays;
    known_files<table_file> tables;
    known_files<table_file> canary;
    std::vector<live_denial> denied;
    std::vector<std::shared_ptr<const table_file>> denials;  ///< a table for each of them
    operator_files serving;
    bool lost_manifests = false;
    added_axes* added = nullptr;             // what all files were read with
    std::unique_ptr<added_axes> own_added;   // where no describer keeps them
    std::vector<device_properties> devices;  // that were asked for
    bool for_all_devices = false;

    /// Where axes that files add are kept: by whoever described the operator, or here.
    [[nodiscard]] added_axes& added_axes_of(const operator_description& op);

    void ask_for(const device_properties* device);
    /// Whether a file may say something of a device that was asked for.
    template <class Test>
    [[nodiscard]] bool concerns(const Test& test) const {
      return for_all_devices || detail::any_of(devices.begin(), devices.end(), test);
    }
  };

  using table_files = std::vector<std::shared_ptr<const table_file>>;

  static void put_before(table_files& of, const table_files& first);

  [[nodiscard]] std::shared_ptr<const operator_selectors> make_file_selectors(const operator_description& op,
                                                                              const device_properties& device,
                                                                              const operator_files& from,
                                                                              choice_limits limits) const;

  /// How much of a file is looked at first: what it is for stands at its beginning.
  static constexpr std::size_t head_bytes = std::size_t{64} << 10U;

  /// A member of an object in the text of a file's beginning; empty: it is not there.
  [[nodiscard]] static std::string peek(const std::string& text, std::string_view object, const char* key);

  /// Reads files of one kind for known_files.
  template <class Content>
  struct reader;

  [[nodiscard]] std::shared_ptr<const manifest_file> read_manifest(
      const std::string& path, const operator_description& op, const known_of_operator& known,
      const std::shared_ptr<const manifest_file>& same) const;

  /// The version of a manifest that serves now; null: none does.
  [[nodiscard]] static const manifest_file* serving_manifest(const std::string& path,
                                                             const known_of_operator& known) noexcept;

  /// A manifest of which no variant can be used must not take the place of one that serves. Throws
  /// file_error.
  static void require_variants(const std::string& text, const std::string& path,
                               const operator_description& op);

  [[noreturn]] static void fail_useless(const std::string& path, const std::string& why);

  /// Drops the denials of variants that no manifest has any more.
  void drop_outdated_denials(known_of_operator& known, const operator_files& fresh) const;

  /// Throws file_error refused_file for a file that accept refuses.
  void require_accepted(const std::string& text, const std::string& path) const;

  [[nodiscard]] std::shared_ptr<const table_file> read_table(
      const std::string& path, const operator_description& op, const known_of_operator& known,
      const std::shared_ptr<const table_file>& same) const;

  /// Null for an overlay of another operator.
  [[nodiscard]] std::shared_ptr<const table_file> read_overlay(
      const std::string& path, const operator_description& op, const known_of_operator& known,
      const std::shared_ptr<const table_file>& same) const;

  /// Whether the files that serve have changed. A file of which only the beginning had been read does not
  /// count: it served no dispatcher, and the first that needs it gets its current version.
  template <class File>
  [[nodiscard]] static bool differ(const std::vector<std::shared_ptr<const File>>& fresh,
                                   const std::vector<std::shared_ptr<const File>>& served) {
    return !std::equal(
        fresh.begin(), fresh.end(), served.begin(), served.end(),
        [](const auto& a, const auto& b) { return a == b || (a->path() == b->path() && !b->is_read()); });
  }

  /// If an operator's last manifest is removed, the manifests that served last stay in use, with a warning.
  void keep_last_manifests(const operator_description& op, known_of_operator& known,
                           operator_files& fresh) const;

  search_path path_;
  std::function<std::string(std::string_view)> forced_for_;
  backend_probe why_absent_;
  file_check accept_;
  double canary_share_ = 0;  // guarded by mutex_
  std::shared_ptr<warning_filter> filter_;
  mutable switchyard::mutex mutex_;
  std::map<std::string, known_of_operator, std::less<>> files_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/selector_source_impl.hpp>
#endif
