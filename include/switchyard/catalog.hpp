// Everything found on disk: manifests and tables of the search path. The header that pays for JSON; one unit
// of an engine includes it.
//
// A root folder holds kernels/<operator>/<target>/*.json beside their blobs, and tables/<operator>/*.json.
// Roots are those of SWITCHYARD_PATH, then ../share/switchyard beside the program's folder,
// /usr/local/share/switchyard and /usr/share/switchyard. Files of an operator are parsed when the first
// dispatcher asks for it, and again only when they change. Any thread may call any function.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
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
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/launching/binding.hpp>
#include <switchyard/launching/module.hpp>
#include <switchyard/observing/environment.hpp>

namespace switchyard {
inline namespace v0 {

/// How a catalog is opened.
struct catalog_options {
  std::vector<std::string> roots;   ///< searched before those of the environment
  std::vector<std::string> tables;  ///< overlays, before those of the environment: files or folders
  bool default_roots = true;        ///< whether the environment's and the installed roots are searched
  environment settings = environment::read();
  std::size_t plan_capacity = default_plan_capacity;  ///< plans each dispatcher keeps for a device
  /// Tells a stream's device; null: stream_router::of_machine().
  std::shared_ptr<stream_router> streams = nullptr;
};

/// What a reload found.
struct reload_report {
  std::vector<std::string> changed;  ///< files read anew, or gone
  std::vector<std::string> refused;  ///< messages of files that are not taken; what they replace still serves
};

class catalog final : public binding_source {
 public:
  explicit catalog(catalog_options options = {})
      : options_{std::move(options)},
        messages_{options_.settings.open_log()},
        record_{options_.settings.open_recorder()} {
    if (options_.default_roots) add_default_roots();
    drop_repeated_roots();
  }
  catalog(const catalog&) = delete;
  catalog& operator=(const catalog&) = delete;
  /// Dispatchers are destroyed before their catalog.
  ~catalog() override { stop_watching(); }

  /// The folders that are searched.
  [[nodiscard]] const std::vector<std::string>& roots() const noexcept { return options_.roots; }

  /// Operators that have manifests, sorted.
  [[nodiscard]] std::vector<std::string> operators() const {
    std::set<std::string> names;
    for (const std::string& root : options_.roots) {
      std::error_code problem;
      for (std::filesystem::directory_iterator at{root + "/kernels", problem}, end; !problem && at != end;
           at.increment(problem)) {
        if (is_folder(*at)) names.insert(at->path().filename().string());
      }
    }
    return {names.begin(), names.end()};
  }

  /// The rules of an operator on a device, which need not be present.
  [[nodiscard]] std::shared_ptr<const selector> rules(const operator_description& op,
                                                      const device_properties& device) {
    const std::scoped_lock lock{mutex_};
    reload_report ignored;
    return make_selector(op, device, refresh(op, ignored));
  }

  /// The files of an operator that serve now.
  struct contents {
    std::vector<std::shared_ptr<const manifest>> manifests;
    std::vector<std::shared_ptr<const table>> overlays;
    std::vector<std::shared_ptr<const table>> tables;
  };
  [[nodiscard]] contents files(const operator_description& op) {
    const std::scoped_lock lock{mutex_};
    reload_report ignored;
    return refresh(op, ignored);
  }

  /// Reads what has changed on disk and gives every dispatcher concerned a new binding. A file that cannot be
  /// taken leaves its predecessor serving, with a warning.
  reload_report reload() {
    const std::scoped_lock lock{mutex_};
    reload_report report;
    std::map<const operator_description*, contents> fresh;
    std::map<const operator_description*, bool> changed;
    for (const use& each : uses_) {
      if (fresh.contains(each.op)) continue;
      const std::size_t before = report.changed.size();
      fresh.emplace(each.op, refresh(*each.op, report));
      changed[each.op] = report.changed.size() > before;
    }
    for (const use& each : uses_) {
      if (changed[each.op]) each.user->adopt(make_binding(each, fresh[each.op]));
    }
    return report;
  }

  /// Looks for changes at an interval, on a thread of its own, and reloads. Files are compared by time, size
  /// and inode, so it works on network file systems as well.
  void watch(std::chrono::milliseconds interval = std::chrono::milliseconds{500}) {
    stop_watching();
    const std::scoped_lock lock{watch_mutex_};
    stop_ = false;
    watcher_ = std::thread{[this, interval] {
      std::unique_lock waiting{watch_mutex_};
      while (!wake_.wait_for(waiting, interval, [this] { return stop_; })) {
        waiting.unlock();
        try {
          reload();
        } catch (const std::exception& problem) {
          messages_->warn(std::string{"watching for changes: "} + problem.what());
        }
        waiting.lock();
      }
    }};
  }

  void stop_watching() noexcept {
    std::thread ended;
    {
      const std::scoped_lock lock{watch_mutex_};
      stop_ = true;
      ended.swap(watcher_);
    }
    wake_.notify_all();
    if (ended.joinable()) ended.join();
  }

  void attach(const operator_description& op, const device& where, binding_user& user) override {
    const std::scoped_lock lock{mutex_};
    reload_report ignored;
    const use mine{&op, where, &user};
    user.adopt(make_binding(mine, refresh(op, ignored)));
    uses_.push_back(mine);
  }

  void detach(binding_user& user) noexcept override {
    const std::scoped_lock lock{mutex_};
    uses_.erase(
        std::remove_if(uses_.begin(), uses_.end(), [&user](const use& each) { return each.user == &user; }),
        uses_.end());
  }

  [[nodiscard]] std::shared_ptr<stream_router> streams() override {
    const std::scoped_lock lock{mutex_};
    if (options_.streams == nullptr) options_.streams = stream_router::of_machine();
    return options_.streams;
  }

 private:
  void add_default_roots() {
    for (const std::string& each : options_.settings.path) options_.roots.push_back(each);
    for (const std::string& each : options_.settings.tables) options_.tables.push_back(each);
    std::error_code ignored;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
    if (!ignored)
      options_.roots.push_back((program.parent_path().parent_path() / "share/switchyard").string());
    options_.roots.emplace_back("/usr/local/share/switchyard");
    options_.roots.emplace_back("/usr/share/switchyard");
  }

  /// A folder that is named twice, say by SWITCHYARD_PATH and by the program's place, would have every
  /// variant twice.
  void drop_repeated_roots() {
    std::set<std::filesystem::path> seen;
    std::erase_if(options_.roots, [&seen](const std::string& each) {
      std::error_code unknown;
      const std::filesystem::path folder = std::filesystem::weakly_canonical(each, unknown);
      return !seen.insert(unknown ? std::filesystem::path{each} : folder).second;
    });
  }

  struct use {
    const operator_description* op;
    device where;
    binding_user* user;
  };

  /// When a file was last read, so that it is not read again before it changes.
  struct signature {
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    std::int64_t size = -1;
    std::uint64_t inode = 0;

    friend bool operator==(const signature&, const signature&) = default;
  };

  template <class Content>
  struct parsed {
    signature seen;
    std::shared_ptr<const Content> content;  // null: never read well, or of another operator
  };
  template <class Content>
  using parsed_files = std::map<std::string, parsed<Content>>;

  struct operator_files {
    parsed_files<manifest> manifests;
    parsed_files<table> overlays;
    parsed_files<table> tables;
    std::set<std::string> unreadable;
  };

  [[nodiscard]] static signature sign(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {found.st_mtim.tv_sec, found.st_mtim.tv_nsec, found.st_size, found.st_ino};
  }

  /// Whether it is a folder that is searched: those whose names begin with a dot are not.
  [[nodiscard]] static bool is_folder(const std::filesystem::directory_entry& at) {
    std::error_code unknown;
    return at.is_directory(unknown) && !at.path().filename().string().starts_with('.');
  }

  /// The JSON files of a folder, sorted by name. A folder that is not there has none.
  void list_json(const std::string& folder, operator_files& of, std::vector<std::string>& out) {
    std::error_code problem;
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator at{folder, problem}, end; !problem && at != end;
         at.increment(problem)) {
      if (at->path().extension() == ".json") found.push_back(at->path().string());
    }
    note_unreadable(folder, problem, of);
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }

  void note_unreadable(const std::string& folder, const std::error_code& problem, operator_files& of) {
    if (!problem || problem == std::errc::no_such_file_or_directory) {
      of.unreadable.erase(folder);
    } else if (of.unreadable.insert(folder).second) {
      messages_->warn("[switchyard.101] " + folder + ": cannot be searched: " + problem.message() +
                      ". What lies in it is not used: correct its permissions");
    }
  }

  [[nodiscard]] std::vector<std::string> manifest_paths(std::string_view op, operator_files& of) {
    std::vector<std::string> out;
    for (const std::string& root : options_.roots) {
      const std::string folder = root + "/kernels/" + std::string{op};
      std::vector<std::string> targets;
      std::error_code problem;
      for (std::filesystem::directory_iterator at{folder, problem}, end; !problem && at != end;
           at.increment(problem)) {
        if (is_folder(*at)) targets.push_back(at->path().string());
      }
      note_unreadable(folder, problem, of);
      std::sort(targets.begin(), targets.end());
      for (const std::string& each : targets) list_json(each, of, out);
    }
    return out;
  }

  [[nodiscard]] std::vector<std::string> table_paths(std::string_view op, operator_files& of) {
    std::vector<std::string> out;
    for (const std::string& root : options_.roots) list_json(root + "/tables/" + std::string{op}, of, out);
    return out;
  }

  [[nodiscard]] std::vector<std::string> overlay_paths(std::string_view op, operator_files& of) {
    std::vector<std::string> out;
    for (const std::string& each : options_.tables) {
      std::error_code problem;
      if (std::filesystem::is_directory(each, problem)) {
        list_json(each, of, out);
        list_json(each + "/" + std::string{op}, of, out);
      } else {
        out.push_back(each);
      }
    }
    return out;
  }

  /// Brings one kind of an operator's files up to date and lists those that serve, in search order.
  template <class Content, class Reader>
  [[nodiscard]] std::vector<std::shared_ptr<const Content>> refresh(parsed_files<Content>& known,
                                                                    const std::vector<std::string>& paths,
                                                                    const Reader& read,
                                                                    reload_report& report) {
    std::vector<std::shared_ptr<const Content>> out;
    parsed_files<Content> kept;
    for (const std::string& path : paths) {
      if (kept.contains(path)) continue;
      const signature now = sign(path);
      auto entry = known.extract(path);
      const bool is_new = entry.empty();
      parsed<Content> current = is_new ? parsed<Content>{} : std::move(entry.mapped());
      if (now == signature{} && current.content != nullptr) {  // an overlay that was named, and is gone
        current = {};
        report.changed.push_back(path);
      } else if (is_new || now != current.seen) {
        warnings warned;
        try {
          current.content = read(path, warned);
          report.changed.push_back(path);
        } catch (const error& problem) {
          report.refused.emplace_back(problem.what());
          messages_->warn(problem.what() + std::string{current.content != nullptr
                                                           ? " (what this file said before still serves)"
                                                           : " (the file is not used)"});
        }
        current.seen = now;
        for (const std::string& message : warned.messages) messages_->warn(message);
        if (warned.left_out > 0)
          messages_->warn(path + ": " + std::to_string(warned.left_out) + " more warnings");
      }
      if (current.content != nullptr) out.push_back(current.content);
      kept.emplace(path, std::move(current));
    }
    for (const auto& [path, gone] : known) {
      if (gone.content != nullptr) report.changed.push_back(path);
    }
    known = std::move(kept);
    return out;
  }

  [[nodiscard]] contents refresh(const operator_description& op, reload_report& report) {
    operator_files& files = files_[std::string{op.name}];
    contents out;
    out.manifests = refresh(
        files.manifests, manifest_paths(op.name, files),
        [&op](const std::string& path, warnings& warned) {
          return std::make_shared<const manifest>(read_manifest(path, op, warned));
        },
        report);
    out.tables = refresh(
        files.tables, table_paths(op.name, files),
        [&op](const std::string& path, warnings& warned) {
          return std::make_shared<const table>(read_table(path, op, warned));
        },
        report);
    out.overlays = refresh(
        files.overlays, overlay_paths(op.name, files),
        [&op](const std::string& path, warnings& warned) -> std::shared_ptr<const table> {
          try {
            return std::make_shared<const table>(read_table(path, op, warned));
          } catch (const file_error& problem) {
            if (problem.code() == error_code::unknown_operator)
              return nullptr;  // an overlay of another operator
            throw;
          }
        },
        report);
    return out;
  }

  [[nodiscard]] std::shared_ptr<const selector> make_selector(const operator_description& op,
                                                              const device_properties& device,
                                                              const contents& from) {
    std::vector<std::string> warned;
    auto out = build_selector(
        {&op, device, from.manifests, from.overlays, from.tables, options_.settings.forced_for(op.name)},
        warned);
    for (const std::string& each : warned) {
      if (warned_.size() < 10'000 && warned_.insert(each).second) messages_->warn(each);
    }
    return out;
  }

  [[nodiscard]] std::unique_ptr<binding> make_binding(const use& mine, const contents& from) {
    const std::shared_ptr<device_driver>& driver = mine.where.driver();
    std::shared_ptr<module_store> store = stores_[driver.get()].lock();
    if (store == nullptr) {
      store = std::make_shared<module_store>(driver);
      stores_[driver.get()] = store;
    }
    return std::make_unique<binding>(make_selector(*mine.op, driver->properties(), from), std::move(store),
                                     messages_, record_, options_.plan_capacity);
  }

  catalog_options options_;
  std::shared_ptr<log> messages_;
  std::shared_ptr<recorder> record_;
  std::mutex mutex_;
  std::map<std::string, operator_files, std::less<>> files_;
  std::map<const device_driver*, std::weak_ptr<module_store>> stores_;
  std::set<std::string> warned_;  // said once
  std::vector<use> uses_;

  std::mutex watch_mutex_;
  std::condition_variable wake_;
  std::thread watcher_;
  bool stop_ = false;
};

}  // namespace v0
}  // namespace switchyard
