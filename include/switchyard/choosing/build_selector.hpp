// Builds a selector: the variants that can run on a device, and the rows of the tables that speak about it.
//
// Manifests and tables are shared with the selector, which keeps what it points to. Nothing is read from
// disk; what does not fit together becomes a warning.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/choosing/bound_group.hpp>
#include <switchyard/choosing/build_row_index.hpp>
#include <switchyard/choosing/candidates.hpp>
#include <switchyard/choosing/rank_tables.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/error.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/device_properties.hpp>
#include <switchyard/problem/target.hpp>

namespace switchyard {
inline namespace v0 {

/// What a selector is built from.
struct selector_sources {
  const operator_description* op = nullptr;
  device_properties device;
  std::vector<std::shared_ptr<const manifest>> manifests;  ///< in search order
  std::vector<std::shared_ptr<const table>> overlays;      ///< SWITCHYARD_TABLES: they win over all others
  std::vector<std::shared_ptr<const table>> tables;        ///< in search order
  std::string force;  ///< SWITCHYARD_FORCE's part for this operator; empty: none
};

namespace detail {

class selector_builder {
 public:
  selector_builder(const selector_sources& sources, std::vector<std::string>& warned)
      : sources_{sources}, warned_{warned}, out_{std::make_shared<selector>()} {}

  [[nodiscard]] std::shared_ptr<const selector> build() {
    out_->op = sources_.op;
    out_->device = sources_.device;
    out_->manifests = sources_.manifests;
    add_candidates();
    ranked_ = rank_tables(sources_.device, sources_.overlays, sources_.tables, warned_);
    for (const ranked_table& each : ranked_) out_->tables.push_back(each.source);
    add_denials_and_pins();
    add_groups();
    count_unknown();
    add_force();
    return out_;
  }

 private:
  static constexpr std::size_t most_unknown = 20;  ///< ids of one table that are named one by one

  void add_candidates() {
    struct fitting {
      int fit;
      const manifest* from;
    };
    std::vector<fitting> fitting_manifests;
    for (const auto& each : sources_.manifests) {
      if (const auto fit = target_fit(sources_.device, each->target.backend, each->target.arch)) {
        fitting_manifests.push_back({*fit, each.get()});
      }
    }
    std::stable_sort(fitting_manifests.begin(), fitting_manifests.end(),
                     [](const fitting& a, const fitting& b) { return a.fit > b.fit; });
    for (const fitting& each : fitting_manifests) {
      for (const variant& variant : each.from->variants)
        out_->candidates.push_back(make_candidate(variant, *each.from));
    }
    std::unordered_map<std::string, std::uint32_t> classes;
    for (std::uint32_t i = 0; i < out_->candidates.size(); ++i) {
      const variant& variant = *out_->candidates[i].variant;
      by_id_[variant.id].push_back(i);
      std::string key;
      for (const axis_value& value : variant.type) {
        key += std::to_string(value.axis) + '=' + std::to_string(value.value) + ' ';
      }
      const auto [found, is_new] = classes.try_emplace(key, static_cast<std::uint32_t>(out_->classes.size()));
      if (is_new) out_->classes.push_back({variant.type, {}});
      out_->classes[found->second].candidates.push_back(i);
    }
  }

  [[nodiscard]] candidate make_candidate(const variant& served, const manifest& from) const {
    candidate out;
    out.variant = &served;
    out.from = &from;
    out.most_shared = sources_.device.attribute("shared_bytes_per_block");
    if (out.most_shared == 0) return out;  // not known
    for (const launch& each : served.launches) {
      if (each.is_fill) continue;
      if (!each.shared_bytes.is_constant()) {
        out.shared.push_back(&each.shared_bytes);
      } else if (each.shared_bytes.evaluate({}).value > out.most_shared) {
        out.fits = false;
      }
    }
    return out;
  }

  void unknown_id(const std::string& table, const std::string& id, const char* entry) {
    if (out_->candidates.empty()) return;
    if (installed_.empty()) {
      for (const auto& each : sources_.manifests) {
        for (const variant& variant : each->variants) installed_.insert(variant.id);
      }
    }
    if (installed_.contains(id)) return;  // of another target
    if (++unknown_[table] > most_unknown) return;
    std::vector<std::string_view> known;
    for (const candidate& each : out_->candidates) known.emplace_back(each.variant->id);
    warned_.push_back("[switchyard." + std::to_string(static_cast<int>(error_code::unknown_variant)) + "] " +
                      table + ": " + entry + " names variant '" + id + "', which no manifest of operator '" +
                      std::string{sources_.op->name} + "' has" + text::suggestion(id, known) +
                      "; it is not used. Install the kernels the table was made with, or tune again");
  }

  /// A table may name as many as fit into its file; each is looked up once, and few are worth a line.
  void count_unknown() {
    for (const auto& [table, count] : unknown_) {
      if (count <= most_unknown) continue;
      warned_.push_back("[switchyard." + std::to_string(static_cast<int>(error_code::unknown_variant)) +
                        "] " + table + ": names " + std::to_string(count - most_unknown) +
                        " more variants that no manifest of operator '" + std::string{sources_.op->name} +
                        "' has");
    }
  }

  void add_denials_and_pins() {
    for (const ranked_table& each : ranked_) {
      for (const denial& denied : each.source->denials) {
        const auto found = by_id_.find(denied.variant);
        if (found == by_id_.end()) {
          unknown_id(each.source->path, denied.variant, "a denial");
          continue;
        }
        const auto index = static_cast<std::uint32_t>(out_->denials.size());
        out_->denials.push_back({denied.type, denied.reason, each.source->path});
        for (const std::uint32_t i : found->second) out_->candidates[i].denials.push_back(index);
      }
      if (each.rank != table_rank::this_device) continue;
      for (const pin& pinned : each.source->pins) {
        const auto found = by_id_.find(pinned.variant);
        if (found == by_id_.end()) {
          unknown_id(each.source->path, pinned.variant, "a pin");
          continue;
        }
        out_->pins.push_back(
            {found->second, pinned.type, pinned.at, pinned.variant, pinned.reason, each.source->path});
      }
    }
  }

  // Rows of all tables of this device form one group if type and axes are the same. An overlay thus adds rows
  // without repeating the table under it, and its rows replace those of the same sizes. Times of other
  // devices are not comparable with these or with each other, so their tables are asked one after the other.
  void add_groups() {
    std::unordered_map<std::string, std::size_t> here;  // groups of this device, by type and axes
    for (std::uint32_t t = 0; t < ranked_.size(); ++t) {
      const ranked_table& ranked = ranked_[t];
      for (std::uint32_t g = 0; g < ranked.source->groups.size(); ++g) {
        const row_group& rows = ranked.source->groups[g];
        if (rows.axes.size() > max_dimensions) {
          warned_.push_back(ranked.source->path + ": /groups/" + std::to_string(g) +
                            ": a group has at most " + std::to_string(max_dimensions) +
                            " axes; it is not used");
          continue;
        }
        bound_group* into = nullptr;
        std::size_t number = out_->groups.size();
        if (ranked.rank == table_rank::this_device)
          number = here.try_emplace(kind_of(rows), out_->groups.size()).first->second;
        if (number < out_->groups.size()) {
          into = &out_->groups[number];
        } else {
          ids_.emplace_back();
          into = &out_->groups.emplace_back();
          into->type = rows.type;
          into->axes = rows.axes;
          into->rank = ranked.rank;
          into->neighbours = ranked.source->match.neighbours;
          into->envelope = ranked.source->match.envelope;
          add_dimensions(*into, ranked.source->match);
        }
        add_rows(*into, ids_[number], rows, *ranked.source, t, g);
      }
    }
    std::erase_if(out_->groups, [](const bound_group& each) { return each.row_count() == 0; });
    // Overlays first, then by rank, then in the tables' order. Of one table's groups, those with the more
    // specific type come first.
    std::stable_sort(
        out_->groups.begin(), out_->groups.end(), [this](const bound_group& a, const bound_group& b) {
          const std::uint32_t table_a = a.rank == table_rank::this_device ? 0 : a.origins.front().table;
          const std::uint32_t table_b = b.rank == table_rank::this_device ? 0 : b.origins.front().table;
          const bool overlay_a = ranked_[a.origins.front().table].overlay;
          const bool overlay_b = ranked_[b.origins.front().table].overlay;
          if (overlay_a != overlay_b) return overlay_a;
          if (a.rank != b.rank) return a.rank < b.rank;
          if (table_a != table_b) return table_a < table_b;
          return a.type.size() > b.type.size();
        });
    for (bound_group& each : out_->groups) index(each);
  }

  /// The axes that are not ignored, and the quantities that read only axes of the group's type and rows.
  void add_dimensions(bound_group& into, const match_rule& match) {
    for (const std::uint32_t axis : into.axes) {
      if (match.axes[axis].metric != axis_metric::ignore)
        into.dimensions.push_back({match.axes[axis], axis, {}, {}});
    }
    for (const match_feature& each : match.features) {
      if (into.dimensions.size() == max_dimensions) break;
      if (each.rule.metric != axis_metric::ignore && is_said(into.type, into.axes, each.value))
        into.dimensions.push_back(
            {each.rule, no_index, each.value.fold(into.type, out_->device.attributes), {}});
    }
    // If all are ignored, every row is equally near; an index still needs one dimension.
    if (into.dimensions.empty() && !into.axes.empty())
      into.dimensions.push_back({match.axes[into.axes.front()], into.axes.front(), {}, {}});
  }

  [[nodiscard]] static std::string kind_of(const row_group& rows) {
    std::string out;
    for (const axis_value& value : rows.type)
      out += std::to_string(value.axis) + '=' + std::to_string(value.value) + ' ';
    for (const std::uint32_t axis : rows.axes) out += std::to_string(axis) + ' ';
    return out;
  }

  void add_rows(bound_group& into, std::unordered_map<std::string_view, std::uint32_t>& known,
                const row_group& rows, const table& from, std::uint32_t table_number,
                std::uint32_t group_number) {
    std::vector<std::uint32_t> ids(rows.ids.size());
    for (std::size_t i = 0; i < rows.ids.size(); ++i) {
      const auto [found, is_new] =
          known.try_emplace(rows.ids[i], static_cast<std::uint32_t>(into.ids.size()));
      ids[i] = found->second;
      if (!is_new) continue;
      into.ids.push_back(rows.ids[i]);
      into.named.push_back(name_candidates(rows, i, from));
      add_cost(into, into.named.back());
    }
    for (std::size_t row = 0; row < rows.row_count(); ++row) {
      const auto at = rows.coordinates(row);
      const auto times = rows.row_times(row);
      // A row without an installed variant would only hide others, of its sizes or farther away.
      const bool says_something = std::any_of(times.begin(), times.end(), [&](const measured_time& time) {
        return !into.named[ids[time.variant]].candidates.empty();
      });
      if (!says_something ||
          !into.slots.insert(at, static_cast<std::uint32_t>(into.row_count()), into.at.data()))
        continue;
      into.at.insert(into.at.end(), at.begin(), at.end());
      for (const measured_time& time : times) {
        if (!into.named[ids[time.variant]].candidates.empty()) {
          into.times.push_back({ids[time.variant], time.microseconds, std::log2(time.microseconds), -1});
        }
      }
      into.first_time.push_back(static_cast<std::uint32_t>(into.times.size()));
      add_costs(into, into.row_count() - 1, from);
      into.origins.push_back({table_number, group_number, rows.source_row[row]});
    }
  }

  [[nodiscard]] named_candidates name_candidates(const row_group& rows, std::size_t id, const table& from) {
    named_candidates out;
    const auto found = by_id_.find(rows.ids[id]);
    if (found == by_id_.end()) {
      if (from.device.backend.empty() || has_arch(sources_.device, from.device))
        unknown_id(from.path, rows.ids[id], "a row");
      return out;
    }
    for (const std::uint32_t index : found->second) {
      const variant& variant = *out_->candidates[index].variant;
      if (contradict(variant.type, rows.type)) continue;
      out.candidates.push_back(index);
      out.stale.push_back(!rows.blobs[id].empty() && rows.blobs[id] != blob_fingerprint(variant));
    }
    return out;
  }

  void add_cost(bound_group& into, named_candidates& named) const {
    if (named.candidates.empty()) return;
    const variant& variant = *out_->candidates[named.candidates.front()].variant;
    if (variant.cost.text.empty() || !is_said(into.type, into.axes, variant.cost.value)) return;
    expression cost = variant.cost.value.fold(into.type, out_->device.attributes);
    const auto known = std::find(into.costs.begin(), into.costs.end(), cost);
    named.cost = static_cast<std::uint32_t>(known - into.costs.begin());
    if (known == into.costs.end()) into.costs.push_back(std::move(cost));
  }

  /// Whether an expression reads no axis besides those of a group's type and rows.
  [[nodiscard]] bool is_said(const std::vector<axis_value>& type, const std::vector<std::uint32_t>& axes,
                             const expression& value) const {
    for (std::uint32_t axis = 0; axis < sources_.op->axes.size(); ++axis) {
      if (!value.reads_axis(axis)) continue;
      const bool known =
          std::find(axes.begin(), axes.end(), axis) != axes.end() ||
          std::any_of(type.begin(), type.end(), [axis](const axis_value& has) { return has.axis == axis; });
      if (!known) return false;
    }
    return true;
  }

  /// The costs of a row's variants on the device it was measured on.
  void add_costs(bound_group& into, std::size_t row, const table& from) const {
    // A table names a few attributes of its device; of this device all are known.
    const attribute_values& attributes =
        into.rank == table_rank::this_device ? out_->device.attributes : from.device.attributes;
    std::vector<std::int64_t> problem(sources_.op->axes.size());
    for (const axis_value& each : into.type) problem[each.axis] = each.value;
    for (std::size_t i = 0; i < into.axes.size(); ++i)
      problem[into.axes[i]] = into.at[row * into.axes.size() + i];
    for (std::size_t t = into.first_time[row]; t < into.first_time[row + 1]; ++t) {
      const named_candidates& named = into.named[into.times[t].variant];
      if (named.cost == no_index) continue;
      const expression& cost = out_->candidates[named.candidates.front()].variant->cost.value;
      into.times[t].cost = log_cost(cost.evaluate({problem, attributes, {}, nullptr}));
    }
  }

  void index(bound_group& group) const {
    const std::size_t dimensions = group.dimensions.size();
    std::vector<std::int64_t> problem(sources_.op->axes.size());
    for (const axis_value& each : group.type) problem[each.axis] = each.value;
    const auto go_to = [&](std::size_t row) {
      for (std::size_t i = 0; i < group.axes.size(); ++i)
        problem[group.axes[i]] = group.at[row * group.axes.size() + i];
    };
    for (bound_dimension& along : group.dimensions) {
      if (along.rule.metric != axis_metric::exact) continue;
      for (std::size_t row = 0; row < group.row_count(); ++row) {
        go_to(row);
        along.levels.push_back(along.value(problem));
      }
      std::sort(along.levels.begin(), along.levels.end());
      along.levels.erase(std::unique(along.levels.begin(), along.levels.end()), along.levels.end());
    }
    std::vector<float> points(group.row_count() * dimensions);
    for (std::size_t row = 0; row < group.row_count(); ++row) {
      go_to(row);
      (void)group.place(problem, std::span{points}.subspan(row * dimensions, dimensions));
    }
    group.index = row_index_builder::build(points, dimensions);
  }

  void add_force() {
    if (sources_.force.empty()) return;
    out_->is_forced = true;
    out_->force_text = sources_.force;
    if (const auto found = by_id_.find(sources_.force); found != by_id_.end()) {
      out_->forced = found->second;
      return;
    }
    const auto wanted = split_config(sources_.force);
    for (std::uint32_t i = 0; i < out_->candidates.size() && !wanted.empty(); ++i) {
      const variant& variant = *out_->candidates[i].variant;
      const bool all = std::all_of(wanted.begin(), wanted.end(), [&variant](const auto& pair) {
        return std::any_of(variant.config.begin(), variant.config.end(), [&pair](const config_entry& entry) {
          return entry.name == pair.first && std::to_string(entry.value) == pair.second;
        });
      });
      if (all) out_->forced.push_back(i);
    }
  }

  [[nodiscard]] static std::vector<std::pair<std::string, std::string>> split_config(
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

  const selector_sources& sources_;
  std::vector<std::string>& warned_;
  std::shared_ptr<selector> out_;
  std::vector<ranked_table> ranked_;
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_id_;
  std::vector<std::unordered_map<std::string_view, std::uint32_t>> ids_;  ///< by group, of its tables' ids
  std::unordered_set<std::string_view> installed_;  ///< ids of all manifests, once one is asked for
  std::map<std::string, std::size_t> unknown_;      ///< by table, how many ids no manifest has
};

}  // namespace detail

/// Builds a selector. A variant that a table names and no manifest has becomes a warning.
[[nodiscard]] inline std::shared_ptr<const selector> build_selector(const selector_sources& sources,
                                                                    std::vector<std::string>& warned) {
  return detail::selector_builder{sources, warned}.build();
}

}  // namespace v0
}  // namespace switchyard
