// SPDX-License-Identifier: MIT
#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>

namespace llm {

namespace {

using clock = std::chrono::steady_clock;

[[nodiscard]] double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

/// Steps of sequences of invented tokens, without sampling.
class stepper {
 public:
  /// `tokens` of each sequence.
  stepper(loaded_model& model, std::int64_t sequences, std::int64_t tokens) : model_{model} {
    const std::int64_t pages = kv_cache::pages_for(tokens);
    if (tokens > model.context()) {
      throw std::invalid_argument{"measuring " + std::to_string(tokens) +
                                  " tokens takes a larger context than " + std::to_string(model.context())};
    }
    if (sequences * pages > model.cache().free_pages() || sequences > model.limits().sequences) {
      throw std::invalid_argument{"measuring " + std::to_string(sequences) + " sequences takes a cache of " +
                                  std::to_string(sequences * pages * kv_cache::page_size) +
                                  " tokens; it has " +
                                  std::to_string(model.cache().pages() * kv_cache::page_size) + ", for " +
                                  std::to_string(model.limits().sequences) + " sequences"};
    }
    for (std::int64_t i = 0; i < sequences; ++i) pages_.push_back(model.cache().take(pages));
  }
  stepper(const stepper&) = delete;
  stepper& operator=(const stepper&) = delete;
  ~stepper() {
    for (const auto& pages : pages_) model_.cache().give_back(pages);
  }

  /// Computes `count` more tokens of every sequence and, if wanted, the logits of each sequence's last token.
  void run(std::int64_t cached, std::int64_t count, bool wants_logits) {
    batch step;
    step.pages_stride = model_.limits().pages;
    for (const std::vector<std::int32_t>& pages : pages_) {
      for (std::int64_t i = cached; i < cached + count; ++i) {
        step.ids.push_back(
            static_cast<std::int32_t>((i * 31 + 7) % static_cast<std::int64_t>(model_.text().size())));
        step.positions.push_back(i);
        step.slots.push_back(kv_cache::slot_of(pages, i));
      }
      if (wants_logits) step.wanted.push_back(static_cast<std::int32_t>(step.tokens() - 1));
      step.starts.push_back(static_cast<std::int32_t>(step.tokens()));
      step.used.push_back(static_cast<std::int32_t>(cached + count));
      step.pages.insert(step.pages.end(), pages.begin(), pages.end());
      step.pages.resize(static_cast<std::size_t>(step.sequences() * step.pages_stride));
    }
    static_cast<void>(model_.model().run(step));
  }

 private:
  loaded_model& model_;
  std::vector<std::vector<std::int32_t>> pages_;
};

}  // namespace

spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

spread measure_prompt(loaded_model& model, std::int64_t tokens, int runs) {
  stepper steps{model, 1, tokens};
  const std::int64_t piece = model.limits().tokens;
  std::vector<double> found;
  for (int run = 0; run <= runs; ++run) {
    const auto begin = clock::now();
    for (std::int64_t at = 0; at < tokens; at += piece)
      steps.run(at, std::min(piece, tokens - at), at + piece >= tokens);
    if (run > 0) found.push_back(static_cast<double>(tokens) / seconds_since(begin));
  }
  return spread_of(std::move(found));
}

decode_speed measure_decode(loaded_model& model, std::int64_t sequences, std::int64_t context,
                            std::int64_t tokens, int runs) {
  stepper steps{model, sequences, context + tokens};
  model.cache().clear();
  const std::int64_t captures = model.model().graphs().captures;
  std::vector<double> found;
  std::vector<double> times;
  // Two warm-up steps: with graphs, a step first runs plainly, is then captured, and replayed from then on.
  for (int run = -1; run <= runs; ++run) {
    const auto begin = clock::now();
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto step = clock::now();
      steps.run(context + i, 1, true);
      if (run > 0) times.push_back(seconds_since(step));
    }
    if (run > 0) found.push_back(static_cast<double>(tokens * sequences) / seconds_since(begin));
  }
  return {spread_of(std::move(found)), spread_of(std::move(times)),
          model.model().graphs().captures - captures};
}

swap_effect measure_swap(loaded_model& model, const switchyard::catalog& catalog, std::int64_t sequences,
                         std::int64_t context, const std::string& table, const std::string& target) {
  stepper steps{model, sequences, context + 1};
  model.cache().clear();
  const std::filesystem::path fresh = std::filesystem::path{target}.parent_path() / ".new";
  std::filesystem::copy_file(table, fresh, std::filesystem::copy_options::overwrite_existing);
  const auto generate = [&](double seconds) {
    std::vector<double> times;
    for (const auto begin = clock::now(); seconds_since(begin) < seconds;) {
      const auto step = clock::now();
      steps.run(context, 1, true);
      times.push_back(seconds_since(step));
    }
    return spread_of(std::move(times));
  };
  static_cast<void>(generate(0.5));  // warms up
  const std::uint64_t generation = catalog.generation();
  swap_effect out;
  const spread before = generate(1);
  const std::int64_t captures = model.model().graphs().captures;
  std::filesystem::rename(fresh, target);
  out.longest_after = generate(3).most;
  out.median = before.median;
  out.longest_before = before.most;
  out.captures = model.model().graphs().captures - captures;
  out.was_taken = catalog.generation() != generation;
  return out;
}

}  // namespace llm
