// SPDX-License-Identifier: MIT
// The workbench of an operator: the bench of its workload, its reference and the catalog's files.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/error.hpp>
#include <switchyard/serving/module_store.hpp>
#include <switchyard/tune/arena.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/checked_extent.hpp>
#include <switchyard/tune/measuring/bench.hpp>
#include <switchyard/tune/measuring/cache_bytes.hpp>
#include <switchyard/tune/measuring/measure.hpp>
#include <switchyard/tune/measuring/smaller_call.hpp>
#include <switchyard/tune/sampler.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <operator_type Operator>
class operator_bench final : public bench {
 public:
  operator_bench(catalog& files, switchyard::device device, check_options options = {})
      : files_{files.files(describe<Operator>())},
        device_{std::move(device)},
        options_{options},
        memory_{device_.properties().backend == "host" ? device_.driver()
                                                       : std::make_shared<arena>(device_.driver())},
        modules_{std::make_shared<module_store>(device_.driver())},
        sampler_{device_.driver()} {
    std::vector<std::string> ignored;
    // Tables take no part: denied variants are measured like all others.
    rules_ = build_selector({&described(), device_.properties(), files_.manifests, {}, {}, {}}, ignored);
  }

  [[nodiscard]] const operator_description& description() const noexcept override { return described(); }

  bench_problem set_up(const request& want, cache_state cache, std::uint64_t seed, bool checked) override {
    judge_.reset();
    varied_.clear();
    asked_.reset();
    unchecked_.reset();
    reduced_.reset();
    for (const auto& [id, entry] : forced_) entry->forget_problem();
    calls_.clear();
    calls_.reserve(max_copies);
    calls_.push_back(workload<Operator>::make(memory_, want, seed));
    const std::string unread = want.find_unread(
        [this](std::string_view name) { return find_axis(described(), name) < described().axes.size(); });
    if (!unread.empty()) {
      throw call_error{error_code::invalid_argument, "'" + unread + "' is no axis of " +
                                                         std::string{Operator::name} +
                                                         ", and its workload takes none of that name"};
    }
    const double size = calls_[0].bytes;
    if (const std::string wrong = illegal<Operator>(calls_[0].arguments); !wrong.empty())
      throw call_error{error_code::invalid_argument, wrong};
    bench_problem out;
    const auto problem = problem_of_call(calls_[0].arguments);
    out.problem = problem;
    out.bytes = size;
    out.flops = calls_[0].flops;
    std::vector<std::string> seen;
    for (std::uint32_t i = 0; i < rules_->candidates.size(); ++i) {
      if (!rules_->admissible(i, problem, {})) continue;
      const switchyard::variant& variant = *rules_->candidates[i].variant;
      // The same id for a less specific target is never chosen over the first.
      if (std::find(seen.begin(), seen.end(), variant.id) != seen.end()) continue;
      seen.push_back(variant.id);
      out.variants.push_back({variant.id, blob_fingerprint(variant), variant.type});
    }
    checked_ = {};
    if (checked) {
      checked_ = prepare_check(want, seed);
    } else {
      unchecked_ = {want, seed};
    }
    out.checked = checked_;
    asked_ = {want, seed};
    const double cached = cache_bytes(device_.properties());
    const double copies = cache == cache_state::rotating && size > 0 ? std::ceil(cached / size) : 1;
    while (static_cast<double>(calls_.size()) < copies && calls_.size() < max_copies)
      calls_.push_back(workload<Operator>::make(memory_, want, seed));
    return out;
  }

  [[nodiscard]] std::string check(const std::string& variant, std::size_t runs) override {
    largest_error_ = 0;
    if (unchecked_) {
      checked_ = prepare_check(unchecked_->first, unchecked_->second);
      unchecked_.reset();
    }
    if (!judge_) return "no problem is set up";
    auto& call = reduced_ ? *reduced_ : calls_[0];
    if (reduced_ && !serves(variant, call.arguments)) {
      throw call_error{error_code::no_variant,
                       "cannot be checked: the problem is too large for the reference, and the variant does "
                       "not serve the smaller one, " +
                           format_problem(described(), problem_of_call(call.arguments))};
    }
    dispatcher<Operator>& run = forced(variant).run;
    stated_ = run.explain(call.arguments);
    if (runs == 1) return run_once(run, call.arguments, *judge_, old_content::nan);
    if (std::string wrong = run_often(run, call.arguments, *judge_, runs); !wrong.empty()) return wrong;
    if (asked_) prepare_variations(asked_->first, asked_->second);
    asked_.reset();
    for (const std::unique_ptr<varied_call>& varied : varied_) {
      if (!serves(variant, varied->call.arguments)) continue;
      if (std::string wrong = run_often(run, varied->call.arguments, *varied->wanted, least_runs);
          !wrong.empty())
        return varied->text + ": " + wrong;
    }
    return {};
  }

  [[nodiscard]] double largest_error() const noexcept override { return largest_error_; }

  [[nodiscard]] checked_extent checked() const override { return checked_; }

  [[nodiscard]] double sample(const std::string& variant, const sample_options& options) override {
    if (calls_.empty()) throw call_error{error_code::invalid_argument, "no problem is set up"};
    forced_variant& measured = forced(variant);
    // Workspace that is kept: the driver gives its own back whenever the host waits, and takes long to make
    // it anew, which is no property of the variant.
    const std::size_t bytes = measured.run.workspace_bytes(calls_[0].arguments);
    if (bytes > scratch_.bytes()) {
      scratch_ = {};  // before the larger one is made
      scratch_ = device_buffer{device_.driver(), bytes};
    }
    const workspace kept = bytes > 0 ? workspace{scratch_.data(), bytes} : workspace{};
    const auto call = [&](stream on) { measured.run(on, calls_[next_++ % calls_.size()].arguments, kept); };
    if (!measured.ready) {  // its kernels are loaded, and its plan is made
      call({});
      if (const status result = device_.driver()->synchronize({}); result != 0)
        throw driver_error{error_code::launch_failed, device_.driver()->describe(result)};
      measured.ready = true;
    }
    sample_options how = options;
    if (how.launches == launch_mode::graph && !measured.recordable) how.launches = launch_mode::device;
    try {
      if (how.launches == launch_mode::graph) sampler_.keep_recorded(how, call, measured.graph);
    } catch (const driver_error&) {  // some launches cannot be recorded
      measured.recordable = false;
      how.launches = launch_mode::device;
    }
    return sampler_.sample(how, call, measured.graph);
  }

 private:
  static constexpr std::size_t max_copies = 16;
  static constexpr double max_varied_bytes = 16 * 1024.0 * 1024.0;
  static constexpr double max_varied_work = 2e7;  ///< of the reference, for each variation
  static constexpr std::size_t least_runs = 6;    // each old content twice
  static constexpr double judging_seconds = 0.5;
  using arguments = typename Operator::arguments;

  /// A call as a variation has it, and its judge.
  struct varied_call {
    prepared_call<Operator> call;
    std::unique_ptr<judge> wanted;
    std::string text;
  };

  [[nodiscard]] std::string run_once(dispatcher<Operator>& run, const arguments& call, judge& by,
                                     old_content old) {
    by.reset(old);
    by.hold_to(stated_.max_error);
    run(stream{}, call);
    if (const status result = device_.driver()->synchronize({}); result != 0) {
      throw driver_error{error_code::launch_failed, device_.driver()->describe(result)};
    }
    std::string wrong = by.verdict();
    largest_error_ = std::max(largest_error_, by.largest_error());
    return wrong;
  }

  [[nodiscard]] std::string run_often(dispatcher<Operator>& run, const arguments& call, judge& by,
                                      std::size_t runs) {
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    const auto spent = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
    std::size_t first = 0;  // the bits of its results, where they matter
    for (std::size_t i = 0; i < runs && (i < least_runs || spent() < judging_seconds); ++i) {
      const auto old = static_cast<old_content>(i % 3);
      if (std::string wrong = run_once(run, call, by, old); !wrong.empty()) {
        return wrong + (old == old_content::nan      ? ""
                        : old == old_content::finite ? " (results held finite numbers before the run)"
                                                     : " (results held those of an earlier run)");
      }
      if (stated_.reproducible.empty()) {
        if (i == 0) by.keep_results();
        continue;
      }
      const std::size_t now = by.bits();
      if (i == 0) {
        by.keep_results();
        first = now;
      } else if (now != first) {
        return "results have other bits than those of the first run, though the manifest states the "
               "reproducible "
               "class '" +
               stated_.reproducible + "'";
      }
    }
    return {};
  }

  /// The calls that the workload's variations make of a problem, or of a smaller one where it is large. Most
  /// variants come to them, so that they are made when the first one does.
  void prepare_variations(const request& want, std::uint64_t seed) {
    if constexpr (requires { workload<Operator>::variations; }) {
      check_options less = options_;
      less.max_work = max_varied_work;
      less.max_bytes = max_varied_bytes;
      less.max_row_work = max_varied_work;
      request smaller = want;
      std::unique_ptr<varied_call> made;
      // What the problem leaves no memory for is not judged.
      const auto has_room = [](auto&& make) {
        try {
          make();
        } catch (const error& problem) {
          if (problem.code() != error_code::out_of_memory) throw;
          return false;
        }
        return true;
      };
      if (!has_room(
              [&] { static_cast<void>(smaller_call<Operator>(calls_[0], smaller, less, memory_, seed)); }))
        return;
      for (const variation& variation : workload<Operator>::variations) {
        smaller.vary(variation);
        if (!has_room([&] {
              made = std::make_unique<varied_call>(
                  varied_call{workload<Operator>::make(memory_, smaller, seed + 100), nullptr, {}});
              if (illegal<Operator>(made->call.arguments).empty())
                made->wanted = make_judge(made->call, seed, less).first;
            }) ||
            made->wanted == nullptr)
          continue;
        made->text = "with values up to " + text::number(static_cast<double>(variation.spread)) +
                     (variation.apart > 0 ? ", rows apart" : "") +
                     (variation.options ? ", options off defaults" : "") +
                     (variation.shifted ? ", unaligned" : "");
        varied_.push_back(std::move(made));
      }
    }
  }

  /// A judge of a call, and the rows that it compares.
  [[nodiscard]] std::pair<std::unique_ptr<judge>, checked_extent> make_judge(prepared_call<Operator>& call,
                                                                             std::uint64_t seed,
                                                                             const check_options& options) {
    host_copies copies{call.memory};
    const arguments on_host = copies.template translated<Operator>(call.arguments);
    const std::int64_t rows = workload<Operator>::rows(on_host);
    const double work = std::max(1.0, workload<Operator>::row_work(on_host));
    const auto affordable = static_cast<std::int64_t>(options.max_work / work);
    const row_sample sample{rows, std::max(options.least_rows, affordable), seed};
    expectation wanted;
    workload<Operator>::expect(on_host, sample, wanted);
    return {std::make_unique<judge>(call.memory, std::move(copies), std::move(wanted)),
            checked_extent{static_cast<std::int64_t>(sample.rows().size()), rows, {}}};
  }

  /// A dispatcher that runs one variant.
  struct forced_variant {
    forced_variant(const catalog::contents& files, const std::string& name,
                   const std::shared_ptr<module_store>& modules, const switchyard::device& device)
        : source{files, name, modules}, run{source, device} {}

    void forget_problem() noexcept {
      ready = false;
      graph = {};
    }

    forced_source source;
    dispatcher<Operator> run;
    recorded_graph graph;  ///< of the problem's calls
    bool ready = false;    ///< it has run for the problem
    bool recordable = true;
  };

  /// Kept from problem to problem: candidates are timed in turns.
  [[nodiscard]] forced_variant& forced(const std::string& variant) {
    std::unique_ptr<forced_variant>& out = forced_[variant];
    if (!out) out = std::make_unique<forced_variant>(files_, variant, modules_, device_);
    return *out;
  }

  /// The operator with the axes that its files add.
  [[nodiscard]] const operator_description& described() const noexcept {
    return files_.described != nullptr ? *files_.described : describe<Operator>();
  }

  /// A call's problem, with what files added.
  [[nodiscard]] std::vector<std::int64_t> problem_of_call(const arguments& call) const {
    const auto own = make_problem<Operator>(call);
    const call_problem problem{described(), own, device_.properties().attributes, &call};
    return {problem.all().begin(), problem.all().end()};
  }

  [[nodiscard]] bool serves(const std::string& id, const arguments& call) const {
    const auto problem = problem_of_call(call);
    for (std::uint32_t i = 0; i < rules_->candidates.size(); ++i) {
      if (rules_->candidates[i].variant->id == id && rules_->admissible(i, problem, {})) return true;
    }
    return false;
  }

  /// Computes what belongs into the results of the first call, or of a smaller problem of the same type.
  checked_extent prepare_check(const request& want, std::uint64_t seed) {
    request smaller = want;
    reduced_ = smaller_call<Operator>(calls_[0], smaller, options_, memory_, seed);
    auto& call = reduced_ ? *reduced_ : calls_[0];
    auto [made, out] = make_judge(call, seed, options_);
    judge_ = std::move(made);
    if (reduced_) out.smaller = format_problem(described(), problem_of_call(call.arguments));
    return out;
  }

  catalog::contents files_;
  device device_;
  check_options options_;
  std::shared_ptr<device_driver> memory_;  ///< tensors are of it
  std::shared_ptr<module_store> modules_;
  sampler sampler_;
  std::shared_ptr<const selector> rules_;
  std::vector<prepared_call<Operator>> calls_;
  std::unique_ptr<prepared_call<Operator>> reduced_;
  std::unique_ptr<judge> judge_;
  double largest_error_ = 0;  ///< in the last check()
  explanation stated_;        ///< what the manifest says of the variant that is judged
  checked_extent checked_;
  std::vector<std::unique_ptr<varied_call>> varied_;
  std::optional<std::pair<request, std::uint64_t>> asked_;      ///< whose variations are not made yet
  std::optional<std::pair<request, std::uint64_t>> unchecked_;  ///< whose reference is not computed yet
  device_buffer scratch_;
  std::size_t next_ = 0;  ///< of the calls
  std::map<std::string, std::unique_ptr<forced_variant>> forced_;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
