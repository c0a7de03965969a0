// The rules that the files of a search path make: what would run for a problem, on any device, present or
// not. Nothing is loaded and no driver is asked. A catalog adds devices and bindings to it.
//
// Files of an operator are parsed when it is first asked for, and again only when they change. Any thread may
// enter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/known_files.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// The files of an operator that serve now.
struct operator_contents {
  std::vector<std::shared_ptr<const manifest>> manifests;
  std::vector<std::shared_ptr<const table>> overlays;
  std::vector<std::shared_ptr<const table>> tables;
  std::uint64_t version = 0;  ///< grows whenever one of them changes
};

class rule_catalog {
 public:
  /// `forced_for` gives SWITCHYARD_FORCE's part for an operator; `warn` takes warnings, from any thread.
  rule_catalog(search_path path, std::function<std::string(std::string_view)> forced_for, warning_sink warn)
      : path_{std::move(path)}, forced_for_{std::move(forced_for)}, warn_{std::move(warn)} {}

  [[nodiscard]] const search_path& path() const noexcept { return path_; }

  /// Reads what is new on disk; what cannot be read leaves its previous version in use, with a warning.
  [[nodiscard]] operator_contents refresh(const operator_description& op, reload_report& report) {
    const std::scoped_lock lock{mutex_};
    files& known = files_[std::string{op.name}];
    operator_contents fresh;
    fresh.manifests = known.manifests.refresh(
        list_manifests(path_, op.name), [&](const std::string& path) { return read_one_manifest(path, op); },
        report, warn_);
    fresh.tables = known.tables.refresh(
        list_tables(path_, op.name), [&](const std::string& path) { return read_one_table(path, op); },
        report, warn_);
    fresh.overlays = known.overlays.refresh(
        list_overlays(path_, op.name),
        [&](const std::string& path) -> std::shared_ptr<const table> {
          try {
            return read_one_table(path, op);
          } catch (const file_error& problem) {
            if (problem.code() == error_code::unknown_operator)
              return nullptr;  // an overlay of another operator
            throw;
          }
        },
        report, warn_);
    keep_last_manifests(op, known, fresh);
    // Compared by what is served: a change that was read before an exception stopped a refresh is not lost.
    const operator_contents& served = known.serving;
    const bool differs = fresh.manifests != served.manifests || fresh.tables != served.tables ||
                         fresh.overlays != served.overlays;
    fresh.version = served.version + (differs ? 1 : 0);
    known.serving = fresh;
    return fresh;
  }

  /// The rules that files make on a device.
  [[nodiscard]] std::shared_ptr<const selector> make_selector(const operator_description& op,
                                                              const device_properties& device,
                                                              const operator_contents& from) {
    std::vector<std::string> warnings;
    auto out = build_selector({&op, device, from.manifests, from.overlays, from.tables, forced_for_(op.name)},
                              warnings);
    const std::scoped_lock lock{warned_mutex_};
    for (const std::string& each : warnings) {
      if (warned_.size() < most_warned && warned_.insert(each).second) warn_(each);
    }
    return out;
  }

 private:
  static constexpr std::size_t most_warned = 10'000;

  struct files {
    known_files<manifest> manifests;
    known_files<table> overlays;
    known_files<table> tables;
    operator_contents serving;
    bool lost_manifests = false;
  };

  /// Reads a file by `reader(warnings&)`, passing its warnings on.
  template <class Reader>
  [[nodiscard]] auto read(const std::string& path, const Reader& reader) const {
    warnings warned;
    auto out = reader(warned);
    for (const std::string& message : warned.messages) warn_(message);
    if (warned.left_out > 0) warn_(path + ": " + std::to_string(warned.left_out) + " more warnings");
    return out;
  }
  [[nodiscard]] std::shared_ptr<const manifest> read_one_manifest(const std::string& path,
                                                                  const operator_description& op) const {
    return read(path, [&](warnings& warned) {
      return std::make_shared<const manifest>(read_manifest(path, op, warned));
    });
  }
  [[nodiscard]] std::shared_ptr<const table> read_one_table(const std::string& path,
                                                            const operator_description& op) const {
    return read(
        path, [&](warnings& warned) { return std::make_shared<const table>(read_table(path, op, warned)); });
  }

  /// An engine that runs keeps what it runs: the manifests that were there last stay when all are gone.
  void keep_last_manifests(const operator_description& op, files& known, operator_contents& fresh) const {
    if (!fresh.manifests.empty()) {
      known.lost_manifests = false;
      return;
    }
    if (known.serving.manifests.empty()) return;
    fresh.manifests = known.serving.manifests;
    if (!std::exchange(known.lost_manifests, true)) {
      warn_("[switchyard.302] " + std::string{op.name} +
            ": its last manifest was removed; its variants stay in use. Install manifests again, or "
            "restart the program to remove them");
    }
  }

  search_path path_;
  std::function<std::string(std::string_view)> forced_for_;
  warning_sink warn_;
  std::mutex mutex_;
  std::map<std::string, files, std::less<>> files_;
  std::mutex warned_mutex_;
  std::set<std::string> warned_;  // said once
};

}  // namespace v0
}  // namespace switchyard
