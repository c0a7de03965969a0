// SPDX-License-Identifier: MIT
#include "tables/gathered_group.hpp"

#include <algorithm>
#include <utility>

#include <switchyard/error.hpp>
#include <switchyard/files/add_measured.hpp>
#include <switchyard/tune/tables/ties.hpp>

#include "tables/table_files.hpp"

namespace sy = switchyard;

namespace tool {

namespace {

[[nodiscard]] bool faster(const sy::measured_time& a, const sy::measured_time& b) {
  return a.microseconds < b.microseconds;
}

/// The median; of two times the mean, so that neither shard is preferred.
[[nodiscard]] double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

}  // namespace

bool gathered_group::is(const sy::row_group& of) const {
  return of.type == type_ && of.timed == timed_ &&
         std::is_permutation(of.axes.begin(), of.axes.end(), axes_.begin(), axes_.end());
}

void gathered_group::add(const sy::row_group& from, const std::string& path, merge_counts& counted) {
  for (std::size_t i = 0; i < from.ids.size(); ++i) add_blob(from, i, path, counted);
  for (const sy::measured_values& values : from.measured_with)
    sy::add_measured(measured_with_, values.axis, values.values);
  for (std::size_t row = 0; row < from.row_count(); ++row) {
    std::vector<std::int64_t> at;
    for (const std::uint32_t axis : axes_) {
      const auto place = std::find(from.axes.begin(), from.axes.end(), axis);
      at.push_back(from.coordinates(row)[static_cast<std::size_t>(place - from.axes.begin())]);
    }
    gathered_row& into = rows_[at];
    ++into.tables;
    // The newer row replaces the older one with all its variants.
    if (rules_.newest) {
      into.times.clear();
      into.builds.clear();
    }
    const double uncertainty = from.row_uncertainty(row);
    into.uncertainty = rules_.newest ? uncertainty : std::max(into.uncertainty, uncertainty);
    const auto measured = from.row_times(row);
    const auto fastest = std::min_element(measured.begin(), measured.end(), faster);
    const bool prefers = measured.front().microseconds > fastest->microseconds;
    into.preferred = prefers ? from.ids[measured.front().variant] : std::string{};
    for (const sy::measured_time& time : measured) {
      const std::string& id = from.ids[time.variant];
      into.times[id].push_back(static_cast<double>(time.microseconds));
      const bool has_blob = time.variant < from.blobs.size() && !from.blobs[time.variant].empty();
      if (has_blob) into.builds[id] = builds_.at(id).size() - 1;
    }
  }
}

sy::row_group gathered_group::finish(merge_counts& counted) const {
  sy::row_group out;
  out.type = type_;
  out.axes = axes_;
  out.measured_with = measured_with_;
  out.timed = timed_;
  std::map<std::string, std::uint32_t, std::less<>> ids;
  for (const auto& [at, row] : rows_) {
    const auto& times = row.times;
    if (times.empty()) continue;
    out.at.insert(out.at.end(), at.begin(), at.end());
    const std::size_t begin = out.times.size();
    for (const auto& [id, samples] : times) {
      const auto [found, is_new] = ids.try_emplace(id, static_cast<std::uint32_t>(ids.size()));
      if (is_new) out.ids.push_back(id);
      out.times.push_back({found->second, static_cast<float>(median(samples))});
      const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
      if (timed_ && *high / *low > counted.widest) {  // else they are made up
        counted.widest = *high / *low;
        sy::row_group one;
        one.type = type_;
        one.axes = axes_;
        one.at = at;
        counted.widest_at = id + " at " + format_row(op_, one, 0);
      }
    }
    const auto first = out.times.begin() + static_cast<std::ptrdiff_t>(begin);
    std::stable_sort(first, out.times.end(), faster);
    // The newest table's preference among indistinguishable variants, if it still holds.
    const double reach = sy::tune::tied_up_to(first->microseconds, row.uncertainty);
    const auto preferred = std::find_if(
        first, out.times.end(), [&out, &wanted = row.preferred, reach](const sy::measured_time& time) {
          return out.ids[time.variant] == wanted && static_cast<double>(time.microseconds) <= reach;
        });
    if (preferred != out.times.end()) std::rotate(first, preferred, preferred + 1);
    if (row.uncertainty > 0) {
      out.uncertainty.resize(out.row_count());
      out.uncertainty.push_back(static_cast<float>(row.uncertainty));
    }
    out.first_time.push_back(static_cast<std::uint32_t>(out.times.size()));
    ++counted.rows;
    if (row.tables > 1) ++counted.repeated;
  }
  for (const std::string& id : out.ids)
    out.blobs.push_back(rules_.with_blobs ? blob_of(id, counted) : std::string{});
  return out;
}

void gathered_group::add_blob(const sy::row_group& from, std::size_t id, const std::string& path,
                              merge_counts& counted) {
  if (id >= from.blobs.size() || from.blobs[id].empty()) return;
  std::vector<std::string>& known = builds_[from.ids[id]];
  if (!known.empty() && known.back() == from.blobs[id]) return;
  if (!known.empty() && !rules_.newest) {
    throw sy::file_error{sy::error_code::blob_hash_differs,
                         path + ": variant '" + from.ids[id] +
                             "' was measured with another build of its kernel (" + from.blobs[id] +
                             ") than in the table before it (" + known.back() +
                             "); measure with one build, or pass --conflict newest to drop the older times"};
  }
  if (!known.empty() && !rules_.keep_stale) {  // a changed blob is another kernel
    for (auto& [at, row] : rows_) counted.stale += row.times.erase(from.ids[id]);
  }
  known.push_back(from.blobs[id]);
}

std::string gathered_group::blob_of(const std::string& id, merge_counts& counted) const {
  const auto known = builds_.find(id);
  if (known == builds_.end()) return {};
  const std::vector<std::string>& builds = known->second;
  std::size_t oldest = builds.size() - 1;
  for (const auto& [at, row] : rows_) {
    const auto build = row.builds.find(id);
    if (!row.times.contains(id) || build == row.builds.end() || builds[build->second] == builds.back())
      continue;  // a change that was taken back is none
    ++counted.kept_stale;
    oldest = std::min(oldest, build->second);
  }
  return builds[oldest];
}

}  // namespace tool
