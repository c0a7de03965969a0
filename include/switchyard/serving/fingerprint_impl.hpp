// SPDX-License-Identifier: MIT
// The bodies of fingerprint.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/serving/file_selectors.hpp>
#include <switchyard/serving/fingerprint.hpp>
#include <switchyard/serving/made_choice.hpp>
#include <switchyard/version.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline std::string hash_of_text(std::string_view text) {
  return sha256(std::as_bytes(std::span{text.data(), text.size()}));
}

/// All bits of a number, the same in every locale.
[[nodiscard]] inline std::string text_of_bits(double value) {
  return std::to_string(std::bit_cast<std::uint64_t>(value));
}

inline constexpr std::string_view choice_prefix = "choice of ";

[[nodiscard]] inline bool is_choice(const fingerprint_part& part) noexcept {
  return part.name.starts_with(choice_prefix);
}

/// Moves the choices out of the parts.
[[nodiscard]] inline std::vector<fingerprint_part> take_choices(fingerprint& from) {
  std::vector<fingerprint_part> out;
  for (const fingerprint_part& part : from.parts) {
    if (is_choice(part)) out.push_back(part);
  }
  std::erase_if(from.parts, is_choice);
  return out;
}

/// Names the first problem of which two hosts chose differently; empty: none.
[[nodiscard]] inline std::string describe_other_choice(const std::vector<fingerprint_part>& here,
                                                       const std::vector<fingerprint_part>& there) {
  std::multimap<std::string_view, std::string_view> others;
  for (const fingerprint_part& part : there) others.emplace(part.name, part.hash);
  for (const fingerprint_part& part : here) {
    const auto [first, last] = others.equal_range(part.name);
    const auto is_same = [&part](const auto& other) { return other.second == part.hash; };
    if (first == last || detail::any_of(first, last, is_same)) continue;
    return part.name + " differs: " + part.hash + " here, " + std::string{first->second} + " there";
  }
  return {};
}

/// The end of a path from a folder on; the file's name where the folder is not on it.
[[nodiscard]] inline std::string path_from(std::string_view path, std::string_view folder) {
  std::string between{"/"};
  between.append(folder).append("/");
  std::size_t at = path.rfind(between);
  if (at == std::string_view::npos) at = path.rfind('/');
  return std::string{at == std::string_view::npos ? path : path.substr(at + 1)};
}

SWITCHYARD_FUNCTION void add_operator(fingerprint& to, const operator_description& op,
                                      const device_properties& device, const operator_files& files,
                                      const std::string& forced) {
  const std::string name{op.name};
  const auto add = [&to](std::string what, std::string_view text) {
    to.parts.push_back({std::move(what), hash_of_text(text).substr(0, 16)});
  };
  if (!forced.empty()) add("SWITCHYARD_FORCE " + name, forced);
  for (const auto& file : files.manifests) {
    if (file->is_read() && target_fit(device, file->target().backend, file->target().arch))
      add(path_from(file->path(), "kernels"), file->outline().text());
  }
  const bool has_canary = !files.canary.empty() && files.canary_share > 0;
  if (has_canary) add("share of the canary of " + name, text_of_bits(files.canary_share));
  for (const auto* list : {&files.canary, &files.overlays, &files.tables}) {
    if (list == &files.canary && !has_canary) continue;
    for (const std::shared_ptr<const table_file>& file : *list) {
      if (!file->is_read() || file->head().device.backend != device.backend) continue;
      add((list == &files.overlays ? "overlay of " + name + " "
           : list == &files.canary ? "canary of " + name + " "
                                   : std::string{}) +
              path_from(file->path(), "tables"),
          file->outline().text());
    }
  }
}

SWITCHYARD_FUNCTION fingerprint begin_fingerprint(const device_properties& device) {
  std::string text = device.backend + " " + device.arch + " " + device.name;
  for (const std::int64_t attribute : device.attributes) text.append(" ").append(std::to_string(attribute));
  fingerprint out;
  const std::string version = std::to_string(SWITCHYARD_VERSION_MAJOR) + "." +
                              std::to_string(SWITCHYARD_VERSION_MINOR) + "." +
                              std::to_string(SWITCHYARD_VERSION_PATCH);
  out.parts.push_back({"switchyard " + version, hash_of_text(version).substr(0, 16)});
  out.parts.push_back({"device " + device.name, hash_of_text(text).substr(0, 16)});
  return out;
}

SWITCHYARD_COLD void add_choices(fingerprint& to, std::vector<made_choice> choices) {
  std::sort(choices.begin(), choices.end(), [](const made_choice& a, const made_choice& b) {
    return a.problem != b.problem ? a.problem < b.problem : a.variant < b.variant;
  });
  for (const made_choice& choice : choices) {
    fingerprint_part part{std::string{choice_prefix} + choice.problem,
                          hash_of_text(choice.variant).substr(0, 16)};
    const bool is_known =
        !to.parts.empty() && to.parts.back().name == part.name && to.parts.back().hash == part.hash;
    if (!is_known) to.parts.push_back(std::move(part));
  }
}

SWITCHYARD_COLD void add_limits(fingerprint& to, const choice_limits& limits) {
  if (limits.is_none()) return;
  const std::string text = std::to_string(limits.workspace_bytes) + " " + text_of_bits(limits.max_error) +
                           " " + limits.reproducible;
  to.parts.push_back({"limits", hash_of_text(text).substr(0, 16)});
}

SWITCHYARD_FUNCTION void finish(fingerprint& of) {
  std::string text;
  for (const fingerprint_part& part : of.parts) text += part.hash + " " + part.name + "\n";
  of.hash = hash_of_text(text);
}

}  // namespace detail

SWITCHYARD_FUNCTION std::string to_string(const fingerprint& of) {
  std::string out;
  for (const fingerprint_part& part : of.parts) out += part.hash + " " + part.name + "\n";
  return out;
}

SWITCHYARD_FUNCTION fingerprint parse_fingerprint(std::string_view text) {
  constexpr std::size_t digits = 16;
  fingerprint out;
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool is_part =
        line.size() > digits + 1 && line[digits] == ' ' &&
        detail::all_of(line.begin(), line.begin() + digits, [](char character) {
          return (character >= '0' && character <= '9') || (character >= 'a' && character <= 'f');
        });
    if (!is_part)
      throw call_error{error_code::invalid_argument,
                       "line " + std::to_string(number) + " of a fingerprint is not a hash and a name"};
    out.parts.push_back({std::string{line.substr(digits + 1)}, std::string{line.substr(0, digits)}});
    begin = end + 1;
  }
  detail::finish(out);
  return out;
}

SWITCHYARD_FUNCTION std::string describe_difference(const fingerprint& here, const fingerprint& there) {
  const auto find = [](const fingerprint& in, const std::string& name) {
    return detail::find_if(in.parts.begin(), in.parts.end(),
                           [&name](const fingerprint_part& part) { return part.name == name; });
  };
  if (detail::any_of(here.parts.begin(), here.parts.end(), detail::is_choice) ||
      detail::any_of(there.parts.begin(), there.parts.end(), detail::is_choice)) {
    fingerprint mine = here;
    fingerprint other = there;
    const std::vector<fingerprint_part> chosen = detail::take_choices(mine);
    const std::vector<fingerprint_part> chosen_there = detail::take_choices(other);
    std::string out = describe_difference(mine, other);
    return out.empty() ? detail::describe_other_choice(chosen, chosen_there) : out;
  }
  for (std::size_t i = 0; i < std::max(here.parts.size(), there.parts.size()); ++i) {
    if (i >= here.parts.size()) return there.parts[i].name + " is only there";
    const fingerprint_part& mine = here.parts[i];
    if (i < there.parts.size() && there.parts[i].name == mine.name) {
      if (there.parts[i].hash == mine.hash) continue;
      return mine.name + " differs: " + mine.hash + " here, " + there.parts[i].hash + " there";
    }
    if (find(there, mine.name) == there.parts.end()) return mine.name + " is only here";
    if (find(here, there.parts[i].name) == here.parts.end()) return there.parts[i].name + " is only there";
    return mine.name + " comes earlier here";
  }
  return {};
}

}  // namespace v0
}  // namespace switchyard
