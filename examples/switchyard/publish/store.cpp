// SPDX-License-Identifier: MIT
#include "publish/store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/sha256.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/io/write_file.hpp>

namespace sy = switchyard;
namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace tool {

namespace {

constexpr const char* release_schema = "switchyard.release/1";
constexpr std::size_t max_file_bytes = std::size_t{1} << 30U;  // of a blob

[[noreturn]] void fail_store(const fs::path& path, const std::string& problem, int why) {
  throw sy::file_error{sy::error_code::unreadable_file,
                       path.string() + ": " + problem + ": " + std::generic_category().message(why), why};
}

[[noreturn]] void fail_store(const fs::path& path, const std::string& problem) {
  throw sy::file_error{sy::error_code::invalid_entry, path.string() + ": " + problem};
}

[[nodiscard]] std::string published_hash(std::string_view bytes) {
  return sy::sha256(std::as_bytes(std::span{bytes}));
}

/// Writes a file's or a folder's content to the disk.
void sync_to_disk(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_store(path, "cannot be opened", errno);
  const int problem = ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (problem != 0 && problem != EINVAL)
    fail_store(path, "cannot be written", problem);  // EINVAL: it cannot sync
}

void move_over(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_store(to, "cannot be replaced", errno);
}

/// The path at which a release is written before it is renamed.
[[nodiscard]] fs::path partial_name(const fs::path& folder, std::string_view what) {
  return folder / ("." + std::string{what} + "-" + std::to_string(::getpid()));
}

/// Whether a file carries a serial number and, where there is a key, a signature of its own.
[[nodiscard]] bool is_stamped(std::string_view name, std::string_view text) {
  if (!name.ends_with(".json")) return false;
  const ordered_json parsed = ordered_json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("schema") || !parsed["schema"].is_string()) return false;
  const auto& schema = parsed["schema"].get_ref<const std::string&>();
  return schema.starts_with("switchyard.table/") || schema.starts_with("switchyard.manifest/");
}

/// The files below a folder, as paths in it, sorted. Links are followed.
[[nodiscard]] std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> out;
  constexpr auto follow = fs::directory_options::follow_directory_symlink;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator{folder, follow}) {
    if (entry.is_regular_file()) out.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Copies a release's files, stamped and signed; returns their hashes.
[[nodiscard]] std::map<std::string, std::string> copy_files(const fs::path& root, const fs::path& to,
                                                            const provenance& from, const signing_key* key) {
  std::map<std::string, std::string> hashes;
  const auto add = [&](const std::string& name, std::string_view bytes) {
    fs::create_directories((to / name).parent_path());
    sy::write_file((to / name).string(), bytes);
    hashes[name] = published_hash(bytes);
  };
  for (const char* const part : {"kernels", "tables"}) {
    if (!fs::is_directory(root / part)) continue;
    for (const std::string& below : files_below(root / part)) {
      const std::string name = std::string{part} + "/" + below;
      if (below.ends_with(".sig")) continue;  // signs the text without this release's stamp
      std::string bytes = sy::read_file((root / name).string(), max_file_bytes);
      const bool has_stamp = is_stamped(below, bytes);
      // A table or manifest that does not parse is useless.
      if (below.ends_with(".json") && !ordered_json::accept(bytes))
        throw sy::file_error{sy::error_code::malformed_json, (root / name).string() + ": is not JSON"};
      if (has_stamp) bytes = stamped(bytes, from, (root / name).string());
      add(name, bytes);
      if (has_stamp && key != nullptr) add(name + ".sig", key->sign(bytes));
    }
  }
  if (hashes.empty()) fail_store(root, "has no files in tables/ or kernels/, so there is nothing to publish");
  return hashes;
}

void sync_folders(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator{folder}) {
    if (entry.is_directory()) sync_to_disk(entry.path());
  }
  sync_to_disk(folder);
}

/// 0 if the name is no serial number.
[[nodiscard]] std::int64_t serial_of(const std::string& name) {
  constexpr std::size_t max_digits = 18;
  if (name.empty() || name.size() > max_digits || name.find_first_not_of("0123456789") != std::string::npos)
    return 0;
  return std::stoll(name);
}

}  // namespace

class release_store::lock {
 public:
  explicit lock(const fs::path& store)
      : file_{::open((store / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)} {
    if (file_ < 0) fail_store(store / ".lock", "cannot be opened", errno);
    while (::flock(file_, LOCK_EX) != 0) {  // the system gives it back when a process ends
      if (errno != EINTR) fail_store(store / ".lock", "cannot be locked", errno);
    }
  }
  lock(const lock&) = delete;
  lock& operator=(const lock&) = delete;
  ~lock() { ::close(file_); }

 private:
  int file_;
};

release_store::release_store(fs::path folder) : folder_{std::move(folder)} {
  if (!fs::is_directory(folder_ / "versions")) {
    throw sy::file_error{sy::error_code::unreadable_file,
                         folder_.string() + ": is no store of releases: it has no folder versions"};
  }
}

release_store release_store::make(const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder / "versions", problem);
  if (problem) fail_store(folder / "versions", "cannot be made", problem.value());
  return release_store{folder};
}

std::vector<std::int64_t> release_store::serials() const {
  std::vector<std::int64_t> out;
  for (const fs::directory_entry& entry : fs::directory_iterator{folder_ / "versions"}) {
    if (const std::int64_t serial = serial_of(entry.path().filename().string()); serial > 0)
      out.push_back(serial);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::int64_t release_store::current() const {
  std::error_code problem;
  const fs::path to = fs::read_symlink(folder_ / "current", problem);
  return problem ? 0 : serial_of(to.filename().string());
}

fs::path release_store::folder_of(std::int64_t serial) const {
  constexpr std::size_t digits = 8;  // so that names sort as numbers do
  std::string name = std::to_string(serial);
  if (name.size() < digits) name.insert(0, digits - name.size(), '0');
  return folder_ / "versions" / name;
}

std::int64_t release_store::publish(const fs::path& root, provenance from, const signing_key* key,
                                    std::size_t keep) {
  const lock mine{folder_};
  clean();
  const std::vector<std::int64_t> known = serials();
  const std::int64_t before = current();
  // Serials of releases that were removed while current, or never became current, are not reused.
  from.serial = std::max(known.empty() ? 0 : known.back(), before) + 1;
  const fs::path partial = partial_name(folder_ / "versions", "partial");
  try {
    fs::create_directory(partial);
    const auto hashes = copy_files(root, partial, from, key);
    ordered_json release{{"schema", release_schema}};
    release.update(to_json(from));
    release["files"] = hashes;
    const std::string text = release.dump(2) + "\n";
    sy::write_file((partial / "release.json").string(), text);
    if (key != nullptr) sy::write_file((partial / "release.json.sig").string(), key->sign(text));
    sync_folders(partial);
    move_over(partial, folder_of(from.serial));
    sync_to_disk(folder_ / "versions");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
  make_current(from.serial);
  prune(keep, before);
  return from.serial;
}

std::int64_t release_store::roll_back(std::int64_t serial, const signing_key* key) {
  const lock mine{folder_};
  clean();
  const std::int64_t now = current();
  const std::vector<std::int64_t> known = serials();
  if (serial == 0) {
    for (const std::int64_t version : known) {
      if (version < now) serial = version;
    }
    if (serial == 0)
      fail_store(folder_, "has no release before the current one (" + std::to_string(now) + ")");
  } else if (std::find(known.begin(), known.end(), serial) == known.end()) {
    fail_store(folder_, "has no release " + std::to_string(serial));
  }
  const std::vector<std::string> wrong = verify(serial, key);
  if (!wrong.empty())
    fail_store(folder_of(serial), "is damaged, so it is not made current: " + wrong.front());
  make_current(serial);
  return serial;
}

std::vector<std::string> release_store::verify(std::int64_t serial, const signing_key* key) const {
  const fs::path folder = folder_of(serial);
  std::vector<std::string> out;
  const auto say = [&out](const fs::path& path, const std::string& what) {
    out.push_back(path.string() + ": " + what);
  };
  const auto check_signature = [&](const fs::path& path, std::string_view bytes) {
    if (key == nullptr) return;
    const std::string signature = path.string() + ".sig";
    if (!fs::exists(signature)) return say(path, "is not signed");
    if (!key->verify(bytes, sy::read_file(signature, max_file_bytes)))
      say(path, "its signature does not fit this key and content");
  };
  try {
    const std::string text = sy::read_file((folder / "release.json").string(), sy::max_json_bytes);
    check_signature(folder / "release.json", text);
    const ordered_json release = ordered_json::parse(text, nullptr, false);
    if (!release.is_object() || release.value("schema", "") != release_schema || !release.contains("files") ||
        !release["files"].is_object()) {
      say(folder / "release.json", std::string{"is not of "} + release_schema);
      return out;
    }
    if (release.value("serial", std::int64_t{0}) != serial)
      say(folder / "release.json", "is of another release than its folder's name says");
    for (const auto& [name, hash] : release["files"].items()) {
      if (!fs::exists(folder / name)) {
        say(folder / name, "is missing");
        continue;
      }
      const std::string bytes = sy::read_file((folder / name).string(), max_file_bytes);
      if (hash != published_hash(bytes)) {
        say(folder / name, "is not what was published: its SHA-256 differs");
      } else if (is_stamped(name, bytes)) {
        check_signature(folder / name, bytes);
      }
    }
    for (const std::string& name : files_below(folder)) {
      if (name != "release.json" && name != "release.json.sig" && !release["files"].contains(name))
        say(folder / name, "was not published");
    }
  } catch (const sy::error& problem) {
    out.emplace_back(problem.message());
  } catch (const nlohmann::json::exception& problem) {
    say(folder / "release.json", problem.what());
  }
  return out;
}

void release_store::make_current(std::int64_t serial) const {
  const fs::path fresh = partial_name(folder_, "current");
  std::error_code problem;
  fs::create_symlink(fs::path{"versions"} / folder_of(serial).filename(), fresh, problem);
  if (problem) fail_store(fresh, "cannot be made", problem.value());
  move_over(fresh, folder_ / "current");
  sync_to_disk(folder_);
}

void release_store::clean() const {
  for (const fs::path& folder : {folder_, folder_ / "versions"}) {
    std::vector<fs::path> left;
    for (const fs::directory_entry& entry : fs::directory_iterator{folder}) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(".partial-") || name.starts_with(".current-") || name.starts_with(".removed-"))
        left.push_back(entry.path());
    }
    for (const fs::path& path : left) {
      std::error_code ignored;  // the next writer tries again
      fs::remove_all(path, ignored);
    }
  }
}

void release_store::prune(std::size_t keep, std::int64_t before) const {
  const std::vector<std::int64_t> known = serials();
  const std::int64_t now = current();
  std::size_t count = known.size();
  for (const std::int64_t version : known) {
    if (count <= keep) return;
    if (version == now || version == before) continue;
    // Renamed first, so that no half of a release has a serial number.
    const fs::path gone = partial_name(folder_ / "versions", "removed");
    move_over(folder_of(version), gone);
    std::error_code ignored;  // the next writer tries again
    fs::remove_all(gone, ignored);
    --count;
  }
}

}  // namespace tool
