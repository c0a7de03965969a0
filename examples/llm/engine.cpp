// SPDX-License-Identifier: MIT
#include "engine.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace llm {

engine::engine(forward& model, kv_cache& cache, const tokenizer& text, step_limits limits,
               std::int64_t context)
    : model_{model}, cache_{cache}, text_{text}, limits_{limits}, context_{context} {}

/// Tokens that a sequence may come to hold. The last one that is generated is not run.
std::int64_t engine::max_cached(const generation_request& request) const {
  return std::min(static_cast<std::int64_t>(request.prompt.size()) + request.max_tokens - 1, context_);
}

void engine::add(generation_request request) {
  if (request.prompt.empty()) throw std::invalid_argument{"the prompt has no tokens"};
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (length >= context_) {
    throw std::invalid_argument{"the prompt has " + std::to_string(length) +
                                " tokens, but the context holds " + std::to_string(context_) +
                                " and an answer needs some: a larger context is needed"};
  }
  if (kv_cache::pages_for(max_cached(request)) > cache_.pages()) {
    throw std::invalid_argument{"the prompt and its answer may have " + std::to_string(max_cached(request)) +
                                " tokens, but the cache holds " +
                                std::to_string(cache_.pages() * kv_cache::page_size) +
                                "; a larger cache or a shorter answer is needed"};
  }
  waiting_.push_back(std::move(request));
}

/// In the order of arrival: a long prompt is not overtaken for ever.
void engine::admit() {
  std::size_t admitted = 0;
  while (admitted < waiting_.size() && static_cast<std::int64_t>(running_.size()) < limits_.sequences) {
    generation_request& next = waiting_[admitted];
    const std::int64_t pages = kv_cache::pages_for(max_cached(next));
    if (pages > cache_.free_pages()) break;
    sampler pick{next.sampling};
    running_.push_back({std::move(next), std::move(pick), cache_.take(pages)});
    ++admitted;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(admitted));
}

std::vector<engine::share> engine::plan() {
  std::vector<share> out;
  std::int64_t left = limits_.tokens;
  for (sequence& running : running_) {
    if (running.prompt_left() > 0 || left == 0) continue;
    out.push_back({&running, 1});
    --left;
  }
  for (sequence& running : running_) {
    if (running.prompt_left() <= 0 || left == 0) continue;
    const std::int64_t tokens = std::min(left, running.prompt_left());
    out.push_back({&running, tokens});
    left -= tokens;
  }
  return out;
}

batch engine::make_batch(const std::vector<share>& shares) const {
  batch out;
  out.pages_stride = limits_.pages;
  for (const auto& [of, tokens] : shares) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t position = of->cached + i;
      const bool is_prompt = of->prompt_left() > 0;
      out.ids.push_back(is_prompt ? of->request.prompt[static_cast<std::size_t>(position)] : of->last);
      out.positions.push_back(position);
      out.slots.push_back(kv_cache::slot_of(of->pages, position));
    }
    if (of->prompt_left() <= tokens) out.wanted.push_back(static_cast<std::int32_t>(out.tokens() - 1));
    out.starts.push_back(static_cast<std::int32_t>(out.tokens()));
    out.used.push_back(static_cast<std::int32_t>(of->cached + tokens));
    std::vector<std::int32_t> pages = of->pages;
    pages.resize(static_cast<std::size_t>(limits_.pages));
    out.pages.insert(out.pages.end(), pages.begin(), pages.end());
  }
  return out;
}

void engine::finish(sequence& of, finish_reason why) {
  cache_.give_back(of.pages);
  of.is_done = true;
  if (of.request.on_finish) of.request.on_finish(why);
}

/// Takes the next token of a sequence.
void engine::accept(sequence& of, std::span<const float> logits) {
  of.last = of.pick.sample(logits);
  if (text_.is_end_of_generation(of.last)) return finish(of, finish_reason::end_token);
  ++of.generated;
  ++totals_.generated_tokens;
  if (of.request.on_token) of.request.on_token(of.last);
  if (of.generated >= of.request.max_tokens) return finish(of, finish_reason::max_tokens);
  if (of.cached >= context_) return finish(of, finish_reason::context_full);
}

bool engine::step() {
  admit();
  if (running_.empty()) return false;
  const std::vector<share> shares = plan();
  const std::span<const float> logits = model_.run(make_batch(shares));
  ++totals_.steps;
  std::size_t rows = 0;
  for (const auto& [of, tokens] : shares) rows += of->prompt_left() <= tokens ? 1U : 0U;
  const std::size_t width = rows > 0 ? logits.size() / rows : 0;
  std::size_t row = 0;
  for (const auto& [of, tokens] : shares) {
    const bool is_wanted = of->prompt_left() <= tokens;
    if (of->prompt_left() > 0) totals_.prompt_tokens += tokens;
    of->cached += tokens;
    // A model may have more logits than its vocabulary has tokens.
    if (is_wanted) accept(*of, logits.subspan(width * row++, std::min(width, text_.size())));
  }
  std::erase_if(running_, [](const sequence& running) { return running.is_done; });
  return !running_.empty() || !waiting_.empty();
}

}  // namespace llm
