// SPDX-License-Identifier: MIT
// Looks for the libraries and symbols that a shared object needs, as the system's loader would. It reads the
// libraries and loads nothing.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/devices/host/shared_object.hpp>
#include <switchyard/error.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/object_files/elf_sections.hpp>

#include "check/findings.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

/// A library of this machine.
struct library {
  std::vector<std::string> needed;
  std::unordered_set<std::string> exported;
};

/// The folders that the loader searches, as far as the system's files name them.
[[nodiscard]] std::vector<std::string> library_folders() {
  std::vector<std::string> out;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here writes the environment
  if (const char* const own = std::getenv("LD_LIBRARY_PATH"); own != nullptr) {
    std::string_view rest = own;
    while (!rest.empty()) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      if (!folder.empty()) out.emplace_back(folder);
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    }
  }
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator{"/etc/ld.so.conf.d", problem}) {
    std::ifstream in{entry.path()};
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with('/')) out.push_back(line);
    }
  }
  for (const char* const folder :
       {"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"})
    out.emplace_back(folder);
  return out;
}

/// Libraries by name, each read once.
class library_finder {
 public:
  /// Null if the machine has no library of this name.
  [[nodiscard]] const library* find(const std::string& name) {
    const auto [at, is_new] = known_.try_emplace(name);
    if (is_new) at->second = search(name);
    return at->second ? &*at->second : nullptr;
  }

 private:
  [[nodiscard]] std::optional<library> search(const std::string& name) const {
    if (name.find('/') != std::string::npos) return read(name);
    for (const std::string& folder : folders_) {
      std::error_code unknown;
      const std::string path = folder + "/" + name;
      if (!fs::is_regular_file(path, unknown)) continue;
      if (auto found = read(path)) return found;
    }
    return std::nullopt;
  }

  [[nodiscard]] static std::optional<library> read(const std::string& path) {
    constexpr std::size_t max_bytes = std::size_t{1} << 28U;
    try {
      const std::string text = sy::read_file(path, max_bytes);
      const auto image = std::as_bytes(std::span{text});
      const sy::host::shared_object content{image};
      if (!content.problem().empty()) return std::nullopt;
      library out;
      out.needed = content.libraries();
      sy::elf::find_symbol(image, sy::elf::section_dynamic_symbols, [&out](const sy::elf::symbol& symbol) {
        if (symbol.section != 0) out.exported.emplace(symbol.name);
        return false;
      });
      return out;
    } catch (const sy::error&) {
      return std::nullopt;
    }
  }

  std::vector<std::string> folders_ = library_folders();
  std::map<std::string, std::optional<library>> known_;
};

/// Whether a symbol is of a sanitizer's runtime, which is part of the program.
[[nodiscard]] bool is_of_sanitizer(std::string_view symbol) {
  for (const std::string_view prefix : {"__asan_", "__ubsan_", "__tsan_", "__msan_", "__sanitizer_"}) {
    if (symbol.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

void check_libraries(const std::string& blob, const sy::tool::loading_needs& needs, const std::string& from,
                     report& out) {
  static library_finder libraries;  // the tool has one thread, and every blob needs the same few
  std::vector<std::string> all = needs.libraries;
  std::vector<std::string> absent;
  std::set<std::string> seen{all.begin(), all.end()};
  std::vector<const library*> found;
  const auto add_found = [&](const std::string& name) {
    const library* const loaded = libraries.find(name);
    if (loaded == nullptr) return false;
    found.push_back(loaded);
    for (const std::string& further : loaded->needed) {
      if (seen.insert(further).second) all.push_back(further);
    }
    return true;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = all[i];  // add_found() lengthens the list
    if (!add_found(name)) absent.push_back(sy::text::shortened(name, 80));
  }
  if (!absent.empty()) {
    out.add(severity::warning, sy::error_code::blob_not_loadable, blob,
            "needs " + sy::text::join(absent, 4) + ", which " + (absent.size() > 1 ? "are" : "is") +
                " not on this machine, so it cannot be loaded here (" + from + " names it)");
    return;  // they may have the symbols
  }
  // Libraries that every program that loads kernels has.
  for (const char* const name : {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}) {
    if (seen.insert(name).second) (void)add_found(name);
  }
  std::vector<std::string> undefined;
  for (const std::string& symbol : needs.symbols) {
    const bool is_defined = std::any_of(found.begin(), found.end(), [&symbol](const library* loaded) {
      return loaded->exported.contains(symbol);
    });
    if (!is_defined && !is_of_sanitizer(symbol))
      undefined.push_back("'" + sy::text::shortened(symbol, 80) + "'");
  }
  if (undefined.empty()) return;
  out.add(severity::error, sy::error_code::blob_not_loadable, blob,
          "needs " + sy::text::join(undefined, 4) +
              ", which neither it nor a library that it needs defines, so it cannot be loaded (" + from +
              " names it)");
}

}  // namespace tool
