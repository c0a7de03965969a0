// The rules that the files of a search path make: what would run for a problem, on any device, present or
// not. Nothing is loaded and no driver is asked. A catalog adds devices and bindings to it.
//
// Files of an operator are read when it is first asked for, and again only when they change; of files for
// devices that nobody asked for, only the beginning. Any thread may enter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/file.hpp>
#include <switchyard/base/lock.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/file_rules.hpp>
#include <switchyard/choosing/rule_book.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/json_document.hpp>
#include <switchyard/files/known_files.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/outline_json.hpp>
#include <switchyard/files/search_path.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/argument_axes.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/target.hpp>

namespace switchyard {
inline namespace v0 {

/// What the files of an operator that serve now say, in full.
struct operator_contents {
  std::vector<std::shared_ptr<const manifest>> manifests;
  std::vector<std::shared_ptr<const table>> overlays;
  std::vector<std::shared_ptr<const table>> tables;
  /// The operator with the axes that they add; null: as it is.
  const operator_description* described = nullptr;
};

class rule_catalog {
 public:
  /// Why the backend of a target ("cuda sm_90a") cannot be used; empty: it can.
  using backend_probe = std::function<std::string(std::string_view target)>;

  /// `forced_for` gives SWITCHYARD_FORCE's part for an operator; `warn` takes warnings, from any thread.
  /// `why_absent` is asked when nothing serves a call on the CPU.
  rule_catalog(search_path path, std::function<std::string(std::string_view)> forced_for, warning_sink warn,
               backend_probe why_absent = {})
      : path_{std::move(path)},
        forced_for_{std::move(forced_for)},
        why_absent_{std::move(why_absent)},
        said_{std::make_shared<said_messages>(std::move(warn))} {}

  [[nodiscard]] const search_path& path() const noexcept { return path_; }

  /// Reads what is new on disk and may serve a device, or any device; what cannot be read leaves its previous
  /// version in use, with a warning.
  [[nodiscard]] operator_files refresh(const operator_description& op, const device_properties* device,
                                       reload_report& report) {
    const std::scoped_lock lock{mutex_};
    known_of_operator& known = files_[std::string{op.name}];
    known.ask_for(device);
    argument_axes& arguments = known.arguments_of(op);
    const operator_description& reading = arguments.reading();
    const auto warn_of = [this, &op](const char* kind) {
      return [this, who = std::string{op.name} + kind](const std::string& message) {
        said_->add_shared(who, message);
      };
    };
    operator_files fresh;
    fresh.manifests = known.manifests.refresh(
        list_manifests(path_, op.name),
        [&](const std::string& path, const std::shared_ptr<const manifest_file>& same) {
          return read_manifest(path, reading, known, same);
        },
        report, warn_of(" manifests"));
    fresh.tables = known.tables.refresh(
        list_tables(path_, op.name),
        [&](const std::string& path, const std::shared_ptr<const table_file>& same) {
          return read_table(path, reading, known, same);
        },
        report, warn_of(" tables"));
    fresh.overlays = known.overlays.refresh(
        list_overlays(path_, op.name),
        [&](const std::string& path, const std::shared_ptr<const table_file>& same) {
          return read_overlay(path, reading, known, same);
        },
        report, warn_of(" overlays"));
    keep_last_manifests(op, known, fresh);
    // Compared by what is served: a change that was read before an exception stopped a refresh is not lost.
    const operator_files& served = known.serving;
    const bool differs = differ(fresh.manifests, served.manifests) || differ(fresh.tables, served.tables) ||
                         differ(fresh.overlays, served.overlays);
    fresh.version = served.version + (differs ? 1 : 0);
    fresh.described = &arguments.now();
    operator_files serving = fresh;  // whole, before anything is replaced
    known.serving = std::move(serving);
    return fresh;
  }

  /// All that the files say.
  [[nodiscard]] operator_contents read_all(const operator_files& from) const {
    operator_contents out;
    const auto add = [this](const auto& list, auto& to) {
      for (const auto& each : list) {
        if (!each->is_read()) continue;  // it could not be
        warnings warned;
        to.push_back(each->read_all(warned));
        said_->add(warned, each->path());
      }
    };
    add(from.manifests, out.manifests);
    add(from.overlays, out.overlays);
    add(from.tables, out.tables);
    out.described = from.described;
    if (out.described != nullptr && out.described->arguments != nullptr)
      out.described = &out.described->arguments->now();  // with what only groups of rows name
    return out;
  }

  /// The rules that files make on a device, given kind by kind.
  [[nodiscard]] std::shared_ptr<const rule_book> make_rules(const operator_description& op,
                                                            const device_properties& device,
                                                            const operator_files& from) const {
    return std::make_shared<const file_rules>(
        op, device, from, forced_for_(op.name),
        file_rules::listener{
            [said = said_](const warnings& warned, const std::string& path) { said->add(warned, path); },
            [said = said_](const std::vector<std::string>& warned) { said->add_once(warned); },
            [roots = path_.roots,
             probe = device.backend == "host" ? why_absent_ : backend_probe{}](failure_context& context) {
              context.searched = roots;
              for (std::string& each : context.searched) each += describe_root(each);
              for (const std::string& each : context.targets) {
                if (probe && context.absent.empty()) context.absent = probe(each);
              }
            }});
  }

  /// The rules for problems of all kinds.
  [[nodiscard]] std::shared_ptr<const selector> make_selector(const operator_description& op,
                                                              const device_properties& device,
                                                              const operator_contents& from) const {
    std::vector<std::string> warned;
    const operator_description& described = from.described != nullptr ? *from.described : op;
    auto out = build_selector(
        {&described, device, from.manifests, from.overlays, from.tables, forced_for_(op.name)}, warned);
    said_->add_once(warned);
    return out;
  }

 private:
  /// Passes warnings on. Rules that are read later than their catalog was asked for them use it too.
  class said_messages {
   public:
    explicit said_messages(warning_sink warn) : warn_{std::move(warn)} {}

    void warn(const std::string& message) const { warn_(message); }
    /// A new version of a file is about to be read: whatever is wrong with it is said.
    void forget(const std::string& path) {
      const std::scoped_lock lock{mutex_};
      of_files_.erase(path);
    }
    /// What was found while a file, or some of its entries, was read. One mistake of many entries is said
    /// once for each version of the file.
    void add(const warnings& warned, const std::string& path) {
      const std::scoped_lock lock{mutex_};
      std::set<std::string>& said = of_files_[path];
      for (const group_of_same& each : group_same(warned.messages, path)) {
        if (said.size() >= most_known || !said.insert(each.kind).second) continue;
        warn_(each.first + (each.more == 0 ? std::string{}
                                           : " (the same in " + std::to_string(each.more) +
                                                 (each.more == 1 ? " more entry)" : " more entries)")));
      }
      if (warned.left_out > 0) warn_(path + ": " + std::to_string(warned.left_out) + " more warnings");
    }
    /// What was found while rules were built, which happens again and again.
    void add_once(const std::vector<std::string>& warned) {
      const std::scoped_lock lock{mutex_};
      for (const std::string& each : warned) {
        if (known_.size() < most_known && known_.insert(each).second) warn_(each);
      }
    }

    /// What is wrong with a file or folder. Overlays and roots are read again for every operator and kind of
    /// file: the first reader says it for all, and what goes wrong again is said again.
    void add_shared(const std::string& reader, const std::string& message) {
      const std::scoped_lock lock{mutex_};
      if (shared_.size() == most_known && !shared_.contains(message)) return warn_(message);
      said_times& times = shared_[message];
      const std::size_t mine = ++times.by_reader[reader];
      if (mine <= times.in_all) return;
      warn_(message);
      times.in_all = mine;
    }

   private:
    static constexpr std::size_t most_known = 10'000;

    struct said_times {
      std::size_t in_all = 0;
      std::map<std::string, std::size_t> by_reader;  // how often it found this
    };

    warning_sink warn_;
    switchyard::mutex mutex_;
    std::set<std::string> known_;
    std::map<std::string, said_times> shared_;
    std::map<std::string, std::set<std::string>> of_files_;  // what was said, by file
  };

  [[nodiscard]] static std::string describe_root(const std::string& folder) {
    std::error_code problem;
    const bool is_there = std::filesystem::is_directory(folder, problem);
    if (problem && !detail::is_absent(problem)) return " (" + problem.message() + ")";
    return is_there ? "" : " (does not exist)";
  }

  struct known_of_operator {
    known_files<manifest_file> manifests;
    known_files<table_file> overlays;
    known_files<table_file> tables;
    operator_files serving;
    bool lost_manifests = false;
    argument_axes* arguments = nullptr;            // what all files were read with
    std::unique_ptr<argument_axes> own_arguments;  // where no describer keeps them
    std::vector<device_properties> devices;        // that were asked for
    bool for_all_devices = false;

    /// Where axes that files add are kept: by whoever described the operator, or here.
    [[nodiscard]] argument_axes& arguments_of(const operator_description& op) {
      if (arguments == nullptr && op.arguments == nullptr)
        own_arguments = std::make_unique<argument_axes>(op);
      if (arguments == nullptr) arguments = op.arguments != nullptr ? op.arguments : own_arguments.get();
      return *arguments;
    }

    void ask_for(const device_properties* device) {
      if (device == nullptr) {
        for_all_devices = true;
      } else if (std::none_of(devices.begin(), devices.end(), [device](const device_properties& each) {
                   return each.backend == device->backend && each.arch == device->arch;
                 })) {
        devices.push_back(*device);
      }
    }
    /// Whether a file may say something of a device that was asked for.
    template <class Test>
    [[nodiscard]] bool concerns(const Test& test) const {
      return for_all_devices || std::any_of(devices.begin(), devices.end(), test);
    }
  };

  /// How much of a file is looked at first: what it is for stands at its beginning.
  static constexpr std::size_t head_bytes = std::size_t{64} << 10U;

  /// A member of an object in the text of a file's beginning; empty: it is not there.
  [[nodiscard]] static std::string peek(const std::string& text, std::string_view object, const char* key) {
    const json_document parsed = json_document::try_parse(find_member(text, object));
    const nlohmann::json& found = parsed.value();
    if (!found.is_object()) return {};
    const auto member = found.find(key);
    return member != found.end() && member->is_string() ? member->get<std::string>() : std::string{};
  }

  [[nodiscard]] static std::string read_rest(std::string beginning, const std::string& path) {
    return beginning.size() < head_bytes ? std::move(beginning) : read_file(path, max_json_bytes);
  }

  [[nodiscard]] std::shared_ptr<const manifest_file> read_manifest(
      const std::string& path, const operator_description& op, const known_of_operator& known,
      const std::shared_ptr<const manifest_file>& same) const {
    const auto is_wanted = [&](const target& of) {
      return known.concerns(
          [&of](const device_properties& each) { return target_fit(each, of.backend, of.arch).has_value(); });
    };
    if (same != nullptr && (same->is_read() || !is_wanted(same->target()))) return same;
    std::string text = read_file(path, max_json_bytes, head_bytes);
    const target of{peek(text, "target", "backend"), peek(text, "target", "arch")};
    const manifest_file* const before = serving_manifest(path, known);
    if (!of.backend.empty() && !of.arch.empty() && !is_wanted(of)) {
      if (before != nullptr)
        fail_useless(path, "it is for " + of.backend + " " + of.arch + ", and was for " +
                               before->target().backend + " " + before->target().arch);
      return std::make_shared<const manifest_file>(path, of);
    }
    warnings warned;
    text = read_rest(std::move(text), path);
    if (before != nullptr) require_variants(text, path, op);
    said_->forget(path);
    auto out = std::make_shared<const manifest_file>(std::move(text), path, op, warned);
    said_->add(warned, path);
    return out;
  }

  /// The version of a manifest that serves now; null: none does.
  [[nodiscard]] static const manifest_file* serving_manifest(const std::string& path,
                                                             const known_of_operator& known) noexcept {
    for (const auto& each : known.serving.manifests) {
      if (each->path() == path && each->is_read()) return each.get();
    }
    return nullptr;
  }

  /// A manifest of which no variant can be used must not take the place of one that serves. Throws
  /// file_error.
  static void require_variants(const std::string& text, const std::string& path,
                               const operator_description& op) {
    warnings warned;
    const manifest_file fresh{text, path, op, warned};
    if (!fresh.read_all(warned)->variants.empty()) return;
    fail_useless(path, warned.messages.empty() ? "it has no variants"
                                               : "none of its variants is valid: " + warned.messages.front());
  }

  [[noreturn]] static void fail_useless(const std::string& path, const std::string& why) {
    throw file_error{error_code::invalid_entry, path + ": nothing of it can be used: " + why};
  }

  [[nodiscard]] std::shared_ptr<const table_file> read_table(
      const std::string& path, const operator_description& op, const known_of_operator& known,
      const std::shared_ptr<const table_file>& same) const {
    const auto is_wanted = [&](const std::string& backend) {
      return known.concerns([&backend](const device_properties& each) { return each.backend == backend; });
    };
    if (same != nullptr && (same->is_read() || !is_wanted(same->head().device.backend))) return same;
    std::string text = read_file(path, max_json_bytes, head_bytes);
    std::string backend = peek(text, "device", "backend");
    if (!backend.empty() && !is_wanted(backend))
      return std::make_shared<const table_file>(path, std::move(backend));
    warnings warned;
    said_->forget(path);
    auto out = std::make_shared<const table_file>(read_rest(std::move(text), path), path, op, warned);
    said_->add(warned, path);
    return out;
  }

  /// Null for an overlay of another operator.
  [[nodiscard]] std::shared_ptr<const table_file> read_overlay(
      const std::string& path, const operator_description& op, const known_of_operator& known,
      const std::shared_ptr<const table_file>& same) const {
    try {
      return read_table(path, op, known, same);
    } catch (const file_error& problem) {
      if (problem.code() == error_code::unknown_operator) return nullptr;
      throw;
    }
  }

  /// Whether files serve that did not. One of which only the beginning was read served nobody; whoever asks
  /// for it now is served by it from the start.
  template <class File>
  [[nodiscard]] static bool differ(const std::vector<std::shared_ptr<const File>>& fresh,
                                   const std::vector<std::shared_ptr<const File>>& served) {
    return !std::equal(
        fresh.begin(), fresh.end(), served.begin(), served.end(),
        [](const auto& a, const auto& b) { return a == b || (a->path() == b->path() && !b->is_read()); });
  }

  /// An engine that runs keeps what it runs: the manifests that were there last stay when all are gone.
  void keep_last_manifests(const operator_description& op, known_of_operator& known,
                           operator_files& fresh) const {
    if (!fresh.manifests.empty()) {
      known.lost_manifests = false;
      return;
    }
    if (known.serving.manifests.empty()) return;
    fresh.manifests = known.serving.manifests;
    if (known.lost_manifests) return;
    said_->warn("[switchyard.302] " + std::string{op.name} +
                ": its last manifest was removed; its variants stay in use. Install manifests again, or "
                "restart the program to remove them");
    known.lost_manifests = true;
  }

  search_path path_;
  std::function<std::string(std::string_view)> forced_for_;
  backend_probe why_absent_;
  std::shared_ptr<said_messages> said_;
  switchyard::mutex mutex_;
  std::map<std::string, known_of_operator, std::less<>> files_;
};

}  // namespace v0
}  // namespace switchyard
