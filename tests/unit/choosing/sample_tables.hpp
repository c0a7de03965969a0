// SPDX-License-Identifier: MIT
// A device, manifests and tables of the sample operator, made in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/files/manifest.hpp>
#include <switchyard/files/table.hpp>
#include <switchyard/hardware/device_properties.hpp>

#include "../sample_operator.hpp"

namespace sample_tables {

using namespace switchyard;

inline device_properties card() {
  device_properties out;
  out.backend = "cuda";
  out.arch = "sm_90";
  out.name = "Card 90";
  return out;
}

inline std::shared_ptr<const manifest> manifest_with(const std::vector<std::string>& ids) {
  auto out = std::make_shared<manifest>();
  out->path = "manifest.json";
  out->target = {"cuda", "sm_90a"};
  for (const std::string& id : ids) {
    variant made;
    made.id = id;
    made.launches.resize(1);
    out->variants.push_back(std::move(made));
  }
  return out;
}

/// A table over rows and columns in the logarithmic metric.
inline std::shared_ptr<table> empty_table(const std::vector<std::string>& ids) {
  auto out = std::make_shared<table>();
  out->path = "table.json";
  out->device = card();
  out->match.axes.assign(sample::description().axes.size(), axis_rule{});
  row_group group;
  group.axes = {5, 6};
  group.ids = ids;
  group.blobs.resize(ids.size());
  out->groups.push_back(group);
  return out;
}

/// A row that has these times, the fastest first, of some variants.
inline void add_times(row_group& group, std::int64_t rows, std::int64_t columns,
                      const std::vector<measured_time>& times) {
  group.at.push_back(rows);
  group.at.push_back(columns);
  group.times.insert(group.times.end(), times.begin(), times.end());
  group.first_time.push_back(static_cast<std::uint32_t>(group.times.size()));
  group.source_row.push_back(static_cast<std::uint32_t>(group.source_row.size()));
}

/// A row that has a time of every variant.
inline void add_row(row_group& group, std::int64_t rows, std::int64_t columns,
                    const std::vector<float>& times) {
  std::vector<measured_time> sorted;
  for (std::size_t i = 0; i < times.size(); ++i) sorted.push_back({static_cast<std::uint32_t>(i), times[i]});
  std::stable_sort(sorted.begin(), sorted.end(), [](const measured_time& a, const measured_time& b) {
    return a.microseconds < b.microseconds;
  });
  add_times(group, rows, columns, sorted);
}

}  // namespace sample_tables
