// SPDX-License-Identifier: MIT
// What merging tables does with the rows of one group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <switchyard/files/table.hpp>
#include <switchyard/operator.hpp>

namespace tool {

/// What becomes of rows that several tables have, and of times of kernels that were rebuilt.
struct merge_rules {
  bool newest = false;      ///< the newest row of the same sizes is used; else each variant's median
  bool keep_stale = false;  ///< times of older builds stay in rows that no newer table has
  bool with_blobs = true;
};

struct merge_counts {
  std::size_t rows = 0;
  std::size_t repeated = 0;  ///< rows that several tables measured
  double widest = 1;         ///< largest ratio of two times of one variant in one row
  std::string widest_at;
  std::size_t stale = 0;       ///< times of blobs that a newer table has replaced, dropped
  std::size_t kept_stale = 0;  ///< the same, kept
};

/// One group of the result, being collected: times by sizes and variant, oldest first.
class gathered_group {
 public:
  gathered_group(const switchyard::operator_description& op, const switchyard::row_group& like,
                 merge_rules rules)
      : op_{op}, type_{like.type}, axes_{like.axes}, rules_{rules}, timed_{like.timed} {}

  [[nodiscard]] bool is(const switchyard::row_group& of) const;

  /// Adds the rows of a newer table, whose path messages name. Throws switchyard::file_error if it was
  /// measured with another build of a kernel, unless the newest rows are used.
  void add(const switchyard::row_group& from, const std::string& path, merge_counts& counted);

  [[nodiscard]] switchyard::row_group finish(merge_counts& counted) const;

 private:
  struct gathered_row {
    std::size_t tables = 0;
    std::map<std::string, std::vector<double>, std::less<>> times;
    std::map<std::string, std::size_t, std::less<>> builds;  ///< of each time's kernel, an index into builds_
    double uncertainty = 0;
    std::string preferred;  ///< the variant that the newest row names though another is faster; may be empty
  };

  void add_blob(const switchyard::row_group& from, std::size_t id, const std::string& path,
                merge_counts& counted);

  /// The blob that a variant's times are of. Where some are of older builds, the oldest, so that all of them
  /// are marked stale until the last one was measured again.
  [[nodiscard]] std::string blob_of(const std::string& id, merge_counts& counted) const;

  const switchyard::operator_description& op_;
  std::vector<switchyard::axis_value> type_;
  std::vector<std::uint32_t> axes_;
  merge_rules rules_;
  bool timed_;
  std::vector<switchyard::measured_values> measured_with_;
  std::map<std::vector<std::int64_t>, gathered_row> rows_;
  std::map<std::string, std::vector<std::string>, std::less<>> builds_;  ///< blobs of a variant, oldest first
};

}  // namespace tool
