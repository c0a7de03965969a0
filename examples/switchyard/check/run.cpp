// SPDX-License-Identifier: MIT
#include "check/run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>

#include "tune/benches.hpp"
#include "tune/measure.hpp"
#include "tune/problems.hpp"
#include "tune/process.hpp"

namespace sy = switchyard;
namespace fs = std::filesystem;

namespace tool {

namespace {

/// A root with links to one manifest and the files beside it, so that nothing else serves. Removed with the
/// object.
class lone_root {
 public:
  explicit lone_root(const sy::manifest& of) {
    std::string made = (fs::temp_directory_path() / "switchyard-check-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) {
      throw sy::file_error{sy::error_code::unreadable_file,
                           made + ": cannot be made: " + std::generic_category().message(errno) +
                               "; set TMPDIR to a folder that can be written"};
    }
    path_ = made;
    const fs::path folder = path_ / "kernels" / of.operator_name / "lone";
    fs::create_directories(folder);
    const fs::path manifest = fs::absolute(of.path);
    for (const fs::directory_entry& entry : fs::directory_iterator{manifest.parent_path()}) {
      if (entry.path().filename() != "manifest.json")
        fs::create_symlink(entry.path(), folder / entry.path().filename());
    }
    fs::create_symlink(manifest, folder / "manifest.json");
  }
  lone_root(const lone_root&) = delete;
  lone_root& operator=(const lone_root&) = delete;
  ~lone_root() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

/// The device that runs the kernels of a backend; empty if this machine has none.
[[nodiscard]] std::optional<device_place> place_of(const std::string& backend) {
  if (backend == "host") return device_place{"host", 0};
  for (const device_place& place : require_devices("all")) {
    if (place.backend == backend) return place;
  }
  return std::nullopt;
}

/// Runs the variants of one manifest.
class manifest_run {
 public:
  manifest_run(const sy::operator_description& op, const sy::manifest& of, const run_settings& settings,
               const session& session, report& out)
      : op_{op}, manifest_{of}, asked_{settings.at}, out_{out} {
    how_.cache = "warm";  // one copy of the tensors
    how_.limit_seconds = settings.limit_seconds;
    const auto place = place_of(of.target.backend);
    if (!place) {
      out.add(severity::warning, of.path,
              "no variant was run: it is for " + of.target.backend + ", and this machine has no such device");
      counts_.not_run = of.variants.size();
      return;
    }
    const lone_root root{of};
    tool::session alone = session;
    alone.roots = {root.path()};
    alone.tables.clear();
    worker_process process{alone, std::string{op.name}, *place, interrupted()};
    measuring_worker worker{op, how_, process, interrupted(), std::nullopt, [] {}};
    for (const auto& [type, ids] : by_type()) {
      std::set<std::string> open{ids.begin(), ids.end()};
      // Variants of several types may share an id.
      faulty_.clear();
      why_not_.clear();
      errors_.clear();
      for (const tuning_problem& problem : problems_of(type)) {
        if (problem.weight == 0 && open.empty()) break;  // only for variants that no other problem has served
        judge_all(worker, problem, ids, open);
      }
      for (const variant_error& error : errors_) keep_error(counts_.errors, error);
      for (const std::string& id : open) {
        ++counts_.not_run;
        const auto why = why_not_.find(id);
        out_.add(severity::warning, manifest_.path,
                 "variant '" + id + "' was not run: " +
                     (why != why_not_.end() ? why->second : "it serves no problem that was tried") +
                     "; name one that it serves with --at axis=value");
      }
    }
  }

  [[nodiscard]] const run_counts& counts() const noexcept { return counts_; }

 private:
  using type_values = std::vector<std::pair<std::uint32_t, std::int64_t>>;

  [[nodiscard]] std::map<type_values, std::vector<std::string>> by_type() const {
    std::map<type_values, std::vector<std::string>> out;
    for (const sy::variant& variant : manifest_.variants) {
      type_values type;
      for (const sy::axis_value& axis : variant.type) type.emplace_back(axis.axis, axis.value);
      out[type].push_back(variant.id);
    }
    return out;
  }

  /// The requested problems, or by default two small ones and, with weight 0, a single long sequence and the
  /// workload's usual problem.
  [[nodiscard]] std::vector<tuning_problem> problems_of(const type_values& type) const {
    std::vector<tuning_problem> out;
    if (!asked_.empty()) {
      problem_list list{op_};
      list.add_grid(asked_);
      for (tuning_problem problem : list.problems()) {
        bool agrees = true;
        for (const auto& [axis, value] : type)
          agrees = problem.axes.emplace(axis, value).first->second == value && agrees;
        if (agrees) out.push_back(std::move(problem));
      }
      return out;
    }
    tuning_problem usual;
    for (const auto& [axis, value] : type) usual.axes[axis] = value;
    usual.weight = 0;
    struct sizes {
      std::int64_t batch, heads, heads_kv, seqlen_q, seqlen_k, in_features, other;
      double weight;
    };
    for (const sizes& shape : {sizes{2, 4, 2, 67, 67, 256, 67, 1}, sizes{2, 4, 4, 3, 64, 512, 64, 1},
                               sizes{1, 2, 2, 1, 2048, 256, 16, 0}}) {
      tuning_problem small = usual;
      small.weight = shape.weight;
      for (std::uint32_t i = 0; i < op_.axes.size(); ++i) {
        if (op_.axes[i].kind != sy::axis_kind::size) continue;
        const std::string_view name = op_.axes[i].name;
        small.axes[i] = name == "batch"         ? shape.batch
                        : name == "heads"       ? shape.heads
                        : name == "heads_kv"    ? shape.heads_kv
                        : name == "seqlen_q"    ? shape.seqlen_q
                        : name == "seqlen_k"    ? shape.seqlen_k
                        : name == "in_features" ? shape.in_features
                                                : shape.other;
      }
      out.push_back(std::move(small));
    }
    out.push_back(std::move(usual));
    return out;
  }

  /// Keeps the larger error of each variant.
  static void keep_error(std::vector<variant_error>& errors, const variant_error& error) {
    const auto known = std::find_if(errors.begin(), errors.end(),
                                    [&](const variant_error& of) { return of.variant == error.variant; });
    if (known == errors.end()) {
      errors.push_back(error);
    } else if (error.share > known->share) {
      *known = error;
    }
  }

  /// Judges the variants of a type that serve a problem, and removes them from `open`.
  void judge_all(measuring_worker& worker, const tuning_problem& problem, const std::vector<std::string>& ids,
                 std::set<std::string>& open) {
    if (interrupted()) return;
    const std::string text = problem.text(op_);
    try {
      worker.begin(problem);
    } catch (const left_out& why) {
      for (const std::string& id : open) why_not_.emplace(id, "at " + text + ": " + why.what());
      return;
    }
    const std::vector<serving> serves = worker.variants();
    for (const serving& variant : serves) {
      if (std::find(ids.begin(), ids.end(), variant.id) == ids.end() || faulty_.contains(variant.id))
        continue;
      try {
        keep_error(errors_, {manifest_.path, variant.id, worker.judge(variant), text});
        if (open.erase(variant.id) > 0) ++counts_.judged;
      } catch (const worker_lost& lost) {
        if (lost.why() == worker_lost::kind::interrupted) return;
        if (open.erase(variant.id) > 0) ++counts_.judged;
        ++counts_.faulty;
        faulty_.insert(variant.id);
        std::erase_if(errors_, [&](const variant_error& of) { return of.variant == variant.id; });
        out_.add(severity::error, manifest_.path,
                 "variant '" + variant.id + "', run at " + text + ", " + lost.what() +
                     "; fix its kernel, or deny the variant in a table");
      } catch (const not_measured& why) {
        why_not_.insert_or_assign(variant.id, "at " + text + ": " + why.what());
      }
    }
  }

  const sy::operator_description& op_;
  const sy::manifest& manifest_;
  const std::vector<std::string>& asked_;
  report& out_;
  measure_settings how_;
  run_counts counts_;
  std::set<std::string> faulty_;
  std::map<std::string, std::string> why_not_;
  std::vector<variant_error> errors_;  ///< of a type's variants that are right so far
};

}  // namespace

run_counts run_variants(const checked_files& files, const run_settings& settings, const session& session,
                        report& out) {
  catch_signals();
  run_counts all;
  for (const auto& [known, of_operator] : files.operators) {
    for (const auto& manifest : of_operator.manifests) {
      if (interrupted() || of_operator.borrowed) break;
      const sy::operator_description& op = *known->description;
      if (find_bench(op.name) == nullptr) {
        all.not_run += manifest->variants.size();
        out.add(
            severity::warning, manifest->path,
            "no variant was run: this program has no workload of operator '" + std::string{op.name} + "'");
        continue;
      }
      run_counts one = manifest_run{op, *manifest, settings, session, out}.counts();
      all.judged += one.judged;
      all.faulty += one.faulty;
      all.not_run += one.not_run;
      std::move(one.errors.begin(), one.errors.end(), std::back_inserter(all.errors));
    }
  }
  return all;
}

}  // namespace tool
