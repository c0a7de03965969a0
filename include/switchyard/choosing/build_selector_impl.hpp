// SPDX-License-Identifier: MIT
// The bodies of build_selector.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/search.hpp>
#include <switchyard/base/stable_order.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/candidate_ids.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/find_exceeded.hpp>
#include <switchyard/choosing/index_groups.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/hardware/target.hpp>
#include <switchyard/problem/added_axes.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION selector_builder::selector_builder(const selector_sources& sources,
                                                       std::vector<std::string>& warned)
    : sources_{sources}, warned_{warned}, out_{std::make_shared<selector>()} {}

SWITCHYARD_FUNCTION std::shared_ptr<const selector> selector_builder::build() {
  out_->op = sources_.op;
  out_->device = sources_.device;
  out_->limits = sources_.limits;
  out_->manifests = sources_.manifests;
  add_candidates();
  const std::function<bool(const std::string&)> is_installed =
      sources_.is_installed != nullptr ? sources_.is_installed
                                       : [this](const std::string& id) { return has_variant(id); };
  candidate_ids ids{*out_, is_installed, warned_};
  const std::vector<ranked_table> ranked = rank_tables(sources_.device, sources_.overlays, sources_.tables);
  for (const ranked_table& entry : ranked) {
    out_->tables.push_back(entry.source);
    if (entry.overlay) ++out_->overlay_count;
  }
  add_denials_and_pins(ids, ranked);
  group_indexer indexer{*out_, ids, ranked, warned_};
  out_->groups = indexer.index();
  out_->silent = indexer.take_silent();
  ids.count_unknown();
  add_force(ids);
  return out_;
}

SWITCHYARD_FUNCTION void selector_builder::add_candidates() {
  struct fitting {
    int fit;
    const manifest* from;
  };
  std::vector<fitting> fitting_manifests;
  for (const auto& file : sources_.manifests) {
    if (const auto fit = target_fit(sources_.device, file->target.backend, file->target.arch)) {
      fitting_manifests.push_back({*fit, file.get()});
    }
  }
  const auto fits_better = [](const fitting& a, const fitting& b) { return a.fit > b.fit; };
  for (const std::uint32_t number : stable_order(fitting_manifests, fits_better)) {
    const manifest& offered = *fitting_manifests[number].from;
    for (const variant& variant : offered.variants) {
      if (has_axes(*sources_.op, variant.type)) out_->candidates.push_back(make_candidate(variant, offered));
    }
  }
  std::unordered_map<std::string, std::uint32_t> classes;
  for (std::uint32_t i = 0; i < out_->candidates.size(); ++i) {
    const variant& variant = *out_->candidates[i].variant;
    std::string key;
    for (const axis_value& value : variant.type) {
      key += std::to_string(value.axis) + '=' + std::to_string(value.value) + ' ';
    }
    const auto [found, is_new] = classes.try_emplace(key, static_cast<std::uint32_t>(out_->classes.size()));
    if (is_new) out_->classes.push_back({variant.type, {}});
    out_->classes[found->second].candidates.push_back(i);
  }
}

SWITCHYARD_FUNCTION bool selector_builder::has_variant(const std::string& id) {
  if (installed_.empty()) {
    for (const auto& file : sources_.manifests) {
      for (const variant& variant : file->variants) installed_.insert(variant.id);
    }
  }
  return installed_.contains(id);
}

SWITCHYARD_FUNCTION candidate selector_builder::make_candidate(const variant& served,
                                                               const manifest& from) const {
  candidate out;
  out.variant = &served;
  out.from = &from;
  if (!served.workspace.empty()) out.max_workspace = sources_.limits.workspace_bytes;
  out.fits = detail::find_exceeded(sources_.limits, served).empty();
  out.max_shared = sources_.device.attribute("shared_bytes_per_block");
  if (out.max_shared == 0) return out;  // not known
  for (const launch& launch : served.launches) {
    if (launch.is_fill) continue;
    if (!launch.shared_bytes.is_constant()) {
      out.shared.push_back(&launch.shared_bytes);
    } else if (launch.shared_bytes.evaluate({}).value > out.max_shared) {
      out.shared.push_back(&launch.shared_bytes);  // `fits` is false of other classes, too
      out.fits = false;
    }
  }
  return out;
}

SWITCHYARD_FUNCTION void selector_builder::add_denials_and_pins(candidate_ids& ids,
                                                                const std::vector<ranked_table>& ranked) {
  for (const ranked_table& entry : ranked) {
    if (entry.rank != table_rank::this_device) continue;
    for (const denial& denied : entry.source->denials) {
      if (!has_axes(*sources_.op, denied.type)) continue;
      const auto* const found = ids.find(denied.variant);
      if (found == nullptr) {
        ids.warn_unknown(entry.source->path, denied.variant, "a denial");
        continue;
      }
      const auto index = static_cast<std::uint32_t>(out_->denials.size());
      out_->denials.push_back({denied.type, denied.reason, entry.source->path});
      for (const std::uint32_t i : *found) out_->candidates[i].denials.push_back(index);
    }
    for (const pin& pinned : entry.source->pins) {
      if (!has_axes(*sources_.op, pinned.type)) continue;
      const auto* const found = ids.find(pinned.variant);
      if (found == nullptr) {
        ids.warn_unknown(entry.source->path, pinned.variant, "a pin");
        continue;
      }
      out_->pins.push_back(
          {*found, pinned.type, pinned.at, pinned.variant, pinned.reason, entry.source->path});
    }
  }
}

SWITCHYARD_COLD void selector_builder::add_force(const candidate_ids& ids) {
  if (sources_.force.empty()) return;
  out_->is_forced = true;
  out_->force_text = sources_.force;
  if (const auto* const found = ids.find(sources_.force)) {
    out_->forced = *found;
    return;
  }
  const auto wanted = split_config(sources_.force);
  for (std::uint32_t i = 0; i < out_->candidates.size() && !wanted.empty(); ++i) {
    const variant& variant = *out_->candidates[i].variant;
    const bool all = detail::all_of(wanted.begin(), wanted.end(), [&variant](const auto& pair) {
      return detail::any_of(variant.config.begin(), variant.config.end(), [&pair](const config_entry& entry) {
        return entry.name == pair.first && std::to_string(entry.value) == pair.second;
      });
    });
    if (all) out_->forced.push_back(i);
  }
}

SWITCHYARD_COLD std::vector<std::pair<std::string, std::string>> selector_builder::split_config(
    const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return {};
    out.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    begin = end + 1;
  }
  return out;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
