#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace llm {

namespace {

using clock = std::chrono::steady_clock;

[[nodiscard]] double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

[[nodiscard]] double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Steps of sequences whose tokens are made up: sampling takes no part.
class stepper {
 public:
  stepper(loaded_model& model, std::int64_t sequences) : model_{model} {
    const std::int64_t pages = model.limits().pages;
    if (sequences * pages > model.cache().free_pages() || sequences > model.limits().sequences) {
      throw std::invalid_argument{"measuring " + std::to_string(sequences) + " sequences takes a cache of " +
                                  std::to_string(sequences * pages * kv_cache::page_size) + " tokens"};
    }
    for (std::int64_t i = 0; i < sequences; ++i) pages_.push_back(model.cache().take(pages));
  }
  stepper(const stepper&) = delete;
  stepper& operator=(const stepper&) = delete;
  ~stepper() {
    for (const auto& each : pages_) model_.cache().give_back(each);
  }

  /// `count` more tokens of sequences [first, first + sequences), with the logits of the last one of each.
  void run(std::size_t first, std::size_t sequences, std::int64_t cached, std::int64_t count) {
    batch step;
    step.pages_stride = model_.limits().pages;
    for (std::size_t s = first; s < first + sequences; ++s) {
      for (std::int64_t i = cached; i < cached + count; ++i) {
        step.ids.push_back(
            static_cast<std::int32_t>((i * 31 + 7) % static_cast<std::int64_t>(model_.text().size())));
        step.positions.push_back(i);
        step.slots.push_back(kv_cache::slot_of(pages_[s], i));
      }
      step.wanted.push_back(static_cast<std::int32_t>(step.tokens() - 1));
      step.starts.push_back(static_cast<std::int32_t>(step.tokens()));
      step.used.push_back(static_cast<std::int32_t>(cached + count));
      step.pages.insert(step.pages.end(), pages_[s].begin(), pages_[s].end());
    }
    static_cast<void>(model_.model().run(step));
  }

 private:
  loaded_model& model_;
  std::vector<std::vector<std::int32_t>> pages_;
};

}  // namespace

speed measure(loaded_model& model, std::int64_t prompt_tokens, std::int64_t generated_tokens,
              std::int64_t sequences, int runs) {
  if (prompt_tokens + generated_tokens > model.context()) {
    throw std::invalid_argument{"measuring " + std::to_string(prompt_tokens + generated_tokens) +
                                " tokens takes a larger context than " + std::to_string(model.context())};
  }
  stepper steps{model, sequences};
  const std::int64_t chunk = std::min(model.limits().tokens, most_prompt_tokens(model.cache()));
  std::vector<double> prompts;
  std::vector<double> generations;
  for (int run = 0; run <= runs; ++run) {
    const auto begin = clock::now();
    for (std::int64_t s = 0; s < sequences; ++s) {
      for (std::int64_t at = 0; at < prompt_tokens; at += chunk)
        steps.run(static_cast<std::size_t>(s), 1, at, std::min(chunk, prompt_tokens - at));
    }
    const double prompt = seconds_since(begin);
    const auto middle = clock::now();
    for (std::int64_t i = 0; i < generated_tokens; ++i)
      steps.run(0, static_cast<std::size_t>(sequences), prompt_tokens + i, 1);
    if (run == 0) continue;
    prompts.push_back(static_cast<double>(prompt_tokens * sequences) / prompt);
    generations.push_back(static_cast<double>(generated_tokens * sequences) / seconds_since(middle));
  }
  return {prompt_tokens, generated_tokens, sequences, median(prompts), median(generations)};
}

}  // namespace llm
