// SPDX-License-Identifier: MIT
// The bodies of file_selectors.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/choosing/type_signatures.hpp>
#include <switchyard/files/entry_cache.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest_file.hpp>
#include <switchyard/files/outlined_file.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/table_file.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/serving/file_selectors.hpp>
#include <switchyard/serving/operator_selectors.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION file_selectors::file_selectors(const operator_description& op, device_properties running,
                                                   const operator_files& files, std::string force,
                                                   listener told, choice_limits limits)
    : operator_selectors{files.described != nullptr ? *files.described : op, std::move(running)},
      files_{files},
      force_{std::move(force)},
      limits_{std::move(limits)},
      told_{std::move(told)},
      signatures_{op.own_axes()} {
  for (const auto& file : files_.manifests) {
    if (!file->is_read() || !target_fit(device(), file->target().backend, file->target().arch)) continue;
    fitting_.push_back(file);
    variant_count_ += file->outline().entries().size();
    add_types(file->outline());
  }
  const auto is_foreign = [this](const auto& file) {
    const std::string& backend = file->head().device.backend;
    return !file->is_read() || (!backend.empty() && backend != device().backend);
  };
  std::erase_if(files_.overlays, is_foreign);
  std::erase_if(files_.tables, is_foreign);
  for (const auto* const list : {&files_.overlays, &files_.tables}) {
    for (const auto& file : *list) {
      add_types(file->outline());
      for (const denial& denied : file->head().denials) signatures_.add(denied.type);
      for (const pin& pinned : file->head().pins) signatures_.add(pinned.type);
    }
  }
}

SWITCHYARD_FUNCTION std::shared_ptr<const selector> file_selectors::read(
    const type_signature& signature) const {
  return build([&](const outlined_file& file) { return entries_of(file, signature); }, signature);
}

SWITCHYARD_FUNCTION std::shared_ptr<const selector> file_selectors::read_nearest(problem_view problem) const {
  const type_signature signature = signature_of(problem);
  // A configuration may be any variant's.
  const bool is_config = force_.find('=') != std::string::npos;
  std::size_t found = 0;
  auto out = build(
      [&](const outlined_file& file) {
        entry_list picked;
        for (std::uint32_t i = 0; i < file.entries().size(); ++i) {
          const outlined_file::entry& entry = file.entries()[i];
          const bool is_forced = !force_.empty() && (is_config || file.id_of(entry) == force_);
          if (is_forced || signatures_.holds(file.types()[entry.type], signature)) picked.push_back(i);
        }
        found += picked.size();
        return picked;
      },
      signature);
  return found > 0 ? out : build(nearest_to(problem), signature);
}

SWITCHYARD_FUNCTION std::string file_selectors::explain_failure(problem_view problem, const selector& from,
                                                                unusable_flags unusable) const {
  failure_context context{variant_count_, targets(), {}, {}, {}};
  if (told_.of_failing) told_.of_failing(context);
  if (!(from.is_forced ? from.forced.empty() : from.candidates.empty()))
    return switchyard::explain_failure(from, problem, unusable, context);
  const auto nearest = read_nearest(problem);
  if (nearest->candidates.empty()) context.fault = first_fault();
  return switchyard::explain_failure(*nearest, problem, {}, context);
}

SWITCHYARD_FUNCTION std::string file_selectors::first_fault() const {
  for (const auto& file : fitting_) {
    warnings found;  // said when the file was read, but not kept
    try {
      (void)read_manifest(file->path(), op(), found);
    } catch (const error& problem) {
      return problem.what();
    }
    if (!found.messages.empty()) return found.messages.front();
  }
  return {};
}

SWITCHYARD_FUNCTION entry_list file_selectors::entries_of(const outlined_file& file,
                                                          const type_signature& signature) const {
  std::vector<bool> holds(file.types().size());
  for (std::size_t i = 0; i < holds.size(); ++i) holds[i] = signatures_.holds(file.types()[i], signature);
  entry_list out;
  for (std::uint32_t i = 0; i < file.entries().size(); ++i) {
    if (holds[file.entries()[i].type]) out.push_back(i);
  }
  return out;
}

SWITCHYARD_FUNCTION file_selectors::picker file_selectors::nearest_to(problem_view problem) const {
  const auto differing = [problem](const std::vector<axis_value>& type) {
    return static_cast<std::size_t>(std::count_if(type.begin(), type.end(), [&](const axis_value& wanted) {
      return problem[wanted.axis] != wanted.value;
    }));
  };
  std::size_t fewest = max_axes;
  for (const auto& file : fitting_) {
    for (const std::vector<axis_value>& type : file->outline().types())
      fewest = std::min(fewest, differing(type));
  }
  return [differing, fewest, left = max_near](const outlined_file& file) mutable {
    entry_list out;
    for (std::uint32_t i = 0; i < file.entries().size() && left > 0; ++i) {
      if (differing(file.types()[file.entries()[i].type]) != fewest) continue;
      out.push_back(i);
      --left;
    }
    return out;
  };
}

SWITCHYARD_FUNCTION std::shared_ptr<const selector> file_selectors::build(
    const picker& pick, const type_signature& signature) const {
  selector_sources sources{
      &op(),  device(), {}, {}, {}, force_, [this](const std::string& id) { return is_installed(id); },
      limits_};
  for (const auto& file : fitting_) sources.manifests.push_back(parse(*file, pick(file->outline())));
  for (const auto& file : files_.overlays)
    sources.overlays.push_back(parse(*file, entries_of(file->outline(), signature)));
  for (const auto& file : files_.tables)
    sources.tables.push_back(parse(*file, entries_of(file->outline(), signature)));
  std::vector<std::string> warned;
  auto out = build_selector(sources, warned);
  told_.of_building(warned);
  return out;
}

SWITCHYARD_FUNCTION bool file_selectors::is_installed(const std::string& id) const {
  for (const auto& file : files_.manifests) {
    if (file->has_variant(id)) return true;
  }
  return false;
}

SWITCHYARD_FUNCTION std::vector<std::string> file_selectors::targets() const {
  std::vector<std::string> out;
  for (const auto& file : files_.manifests) out.push_back(file->target().backend + " " + file->target().arch);
  return out;
}

}  // namespace v0
}  // namespace switchyard
