// SPDX-License-Identifier: MIT
// The reproducible classes of attention: a query's results have the same bits in a prompt and while decoding,
// alone, in a batch and packed, whatever pages its keys lie in, by every variant of a class, on the CPU and,
// where there is one, on the GPU.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>

#include "attention_sequences.hpp"
#include "catch.hpp"
#include "environment.hpp"
#include "gpu/attention/tested_gpu.hpp"

namespace {

namespace sy = switchyard;
using namespace sy::test;

/// Dispatchers that are limited to a class, one for each of its variants.
template <class Operator>
class class_members {
 public:
  explicit class_members(sy::device on) : on_{std::move(on)}, free_{catalog_, on_} {}

  /// The variants that may serve a call, by class.
  [[nodiscard]] std::map<std::string, std::set<std::string>> serving(const typename Operator::arguments& a) {
    std::map<std::string, std::set<std::string>> out;
    for (const sy::candidate_report& report : free_.explain(a).candidates) {
      if (report.admissible && !report.reproducible.empty()) out[report.reproducible].insert(report.variant);
    }
    return out;
  }

  [[nodiscard]] sy::dispatcher<Operator>& forced(const std::string& of_class, const std::string& variant) {
    auto& entry = forced_[{of_class, variant}];
    if (entry == nullptr) {
      entry = std::make_unique<one>(variant, on_, of_class);
      sy::test::record_variant(Operator::name, variant);
    }
    return entry->dispatcher;
  }

 private:
  struct one {
    one(const std::string& variant, const sy::device& on, const std::string& of_class)
        : catalog{[&] {
            sy::catalog_options options;
            options.settings.forced = {{std::string{Operator::name}, variant}};
            return options;
          }()},
          dispatcher{catalog, on, {.reproducible = of_class}} {}
    sy::catalog catalog;
    sy::dispatcher<Operator> dispatcher;
  };
  sy::device on_;
  sy::catalog catalog_;
  sy::dispatcher<Operator> free_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<one>> forced_;
};

/// The results of a class for each query of sequences, in whatever call it was.
class class_results {
 public:
  class_results(const attention_sequences& of, const sy::device& on) : of_{of}, on_{on} {}

  /// Makes a call by each variant that may serve it, and holds all results to those known of their class.
  template <class Operator>
  void compare(class_members<Operator>& members, const asked_rows& asked) {
    const auto serving =
        of_.template with_arguments<Operator>(asked, on_, [&](const auto& a) { return members.serving(a); });
    for (const auto& [of_class, variants] : serving) {
      for (const std::string& variant : variants) {
        INFO(of_.text() << ", " << Operator::name << ' ' << variant << " of " << of_class << ", "
                        << asked.sequences.size() << " sequences, " << asked.queries << " queries, layout "
                        << static_cast<int>(asked.in) << ", " << asked.hidden << " keys hidden");
        const auto rows = of_.run<Operator>(asked, on_, members.forced(of_class, variant));
        std::size_t other = 0;
        for (std::size_t b = 0; b < rows.size(); ++b) {
          const std::size_t sequence = asked.sequences[b];
          const std::int32_t used = std::max(0, of_.keys[sequence] - asked.hidden);
          for (std::size_t i = 0; i < rows[b].size(); ++i) {
            const auto position =
                static_cast<std::int32_t>(i) + used - static_cast<std::int32_t>(rows[b].size());
            if (position < 0) continue;
            const auto [known, is_new] = known_[of_class].try_emplace({sequence, position}, rows[b][i]);
            ++(is_new ? made_ : compared_)[of_class];
            if (is_new && made_[of_class] % 8 == 1) {
              CHECK(of_.error(sequence, position, rows[b][i]) <
                    (of_.type == sy::dtype::bf16 ? 0x1p-6 : 0x1p-9));
            }
            if (rows[b][i] != known->second) ++other;
          }
        }
        CHECK(other == 0);
      }
    }
  }

  /// How many results were held to others, by class.
  [[nodiscard]] const std::map<std::string, int>& compared() const { return compared_; }

 private:
  const attention_sequences& of_;
  const sy::device& on_;
  std::map<std::string, std::map<std::pair<std::size_t, std::int32_t>, row_bits>> known_;
  std::map<std::string, int> made_, compared_;
};

/// For each class the results that were compared. `longest`: queries of a prompt; `kinds`: of calls, for each
/// pair of types.
[[nodiscard]] std::map<std::string, int> check_classes(const sy::device& on, std::int64_t longest,
                                                       int kinds) {
  const std::uint32_t seed = fresh_seed();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  class_members<attention_forward> forward{on};
  class_members<attention_decode> decode{on};
  std::map<std::string, int> compared;
  using enum layout;
  const std::vector<asked_rows> both{{{0}, 1},
                                     {{0}, 2, paged},
                                     {{0}, 16},
                                     {{2, 0, 1, 3}, 1, paged},
                                     {{3, 0}, 5},
                                     {{0}, 1, dense, 1},
                                     {{0}, 1, dense, 9},
                                     {{1, 0}, 1, paged, 17, 24},
                                     {{2}, 1, dense, 66},
                                     {{3}, 4, paged, 100, 7}};
  const std::vector<asked_rows> prompts{{{0}, 40},         {{0}, longest, paged},
                                        {{0, 3}, longest}, {{3, 1, 0, 2}, 19, packed},
                                        {{2}, 129},        {{0, 2}, 129, packed}};
  const std::pair<sy::dtype, sy::dtype> types[] = {{sy::dtype::f32, sy::dtype::f32},
                                                   {sy::dtype::f16, sy::dtype::f16},
                                                   {sy::dtype::bf16, sy::dtype::bf16},
                                                   {sy::dtype::f16, sy::dtype::f8_e4m3},
                                                   {sy::dtype::bf16, sy::dtype::f8_e4m3}};
  for (const auto& [type, kv_type] : types) {
    const bool has_odd = type == sy::dtype::f16 && kv_type == type;  // also in the smaller set of kernels
    for (int kind = has_odd ? -1 : 0; kind < kinds; ++kind) {
      const attention_sequences sequences{random, type, kv_type, {2100, 1, 129, 640}, kind < 0};
      class_results results{sequences, on};
      for (const asked_rows& asked : both) {
        results.compare(forward, asked);
        if (type != sy::dtype::f32) results.compare(decode, asked);
      }
      for (const asked_rows& asked : prompts) results.compare(forward, asked);
      for (const auto& [of_class, count] : results.compared()) compared[of_class] += count;
    }
  }
  return compared;
}

}  // namespace

TEST_CASE("attention's classes on the CPU give a query the same bits in whatever call it is", "[host]") {
  const auto compared = check_classes(sy::device::host(), 640, 1);
  REQUIRE(compared.contains("baseline_tile_n128"));  // it runs everywhere
  CHECK(compared.at("baseline_tile_n128") > 1000);
  REQUIRE(compared.contains("baseline_rows_n128"));
  CHECK(compared.at("baseline_rows_n128") > 100);
}

/// SWITCHYARD_TEST_CALLS: of how many kinds calls are made, for each pair of types.
TEST_CASE("attention's class on the GPU gives a query the same bits in whatever call it is", "[gpu]") {
  if (tests_cuda() && !raw::available()) return;  // the case on the CPU counts
  const bool is_emulated = number("SWITCHYARD_TEST_SMALL", 0) != 0;
  const auto compared = check_classes(tested_gpu(), is_emulated ? 70 : 640,
                                      static_cast<int>(number("SWITCHYARD_TEST_CALLS", 4)));
  REQUIRE(compared.contains("batch_invariant"));
  CHECK(compared.at("batch_invariant") > 1000);
}
