// SPDX-License-Identifier: MIT
// Runs models of tests: files that live as long as a test, prompts, greedy answers, logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "loaded_model.hpp"
#include "tests/environment.hpp"
#include "tiny_model.hpp"

namespace switchyard::test {

/// A folder for files of one test, removed with the object.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "llm-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"no folder could be made: " + name};
    path_ = name;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct model_on_disk {
  scratch_folder folder;
  tiny_model made;
  std::string path = folder.file("tiny.gguf");

  explicit model_on_disk(const tiny_shape& shape) : made{shape, fresh_seed()} { made.write(path); }
};

[[nodiscard]] inline std::vector<llm::token_id> prompt_of(std::size_t length, int seed) {
  std::vector<llm::token_id> out;
  for (std::size_t i = 0; i < length; ++i)
    out.push_back(static_cast<llm::token_id>((i * 37 + static_cast<std::size_t>(seed) * 11) % 250));
  return out;
}

[[nodiscard]] inline llm::load_options small_options() {
  llm::load_options out;
  out.context = 160;
  out.step_tokens = 32;
  out.sequences = 4;
  out.cache_tokens = 1024;
  return out;
}

/// Greedy answers to prompts that are given together.
[[nodiscard]] inline std::vector<std::vector<llm::token_id>> answers(
    llm::loaded_model& model, const std::vector<std::vector<llm::token_id>>& prompts, std::int64_t tokens) {
  std::vector<std::vector<llm::token_id>> out(prompts.size());
  llm::engine run = model.make_engine();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    llm::generation_request request;
    request.prompt = prompts[i];
    request.max_tokens = tokens;
    request.on_token = [&out, i](llm::token_id token) { out[i].push_back(token); };
    run.add(std::move(request));
  }
  while (run.step()) {
  }
  return out;
}

/// The logits behind a prompt, run in steps of so many tokens.
[[nodiscard]] inline std::vector<float> logits_of(llm::loaded_model& model,
                                                  const std::vector<llm::token_id>& prompt,
                                                  std::int64_t chunk) {
  const std::vector<std::int32_t> pages = model.cache().take(model.limits().pages);
  std::vector<float> out;
  const auto count = static_cast<std::int64_t>(prompt.size());
  for (std::int64_t first = 0; first < count; first += chunk) {
    llm::batch step;
    step.pages = pages;
    step.pages_stride = model.limits().pages;
    for (std::int64_t i = first; i < std::min(first + chunk, count); ++i) {
      step.ids.push_back(prompt[static_cast<std::size_t>(i)]);
      step.positions.push_back(i);
      step.slots.push_back(llm::kv_cache::slot_of(pages, i));
    }
    step.starts.push_back(static_cast<std::int32_t>(step.tokens()));
    step.used.push_back(static_cast<std::int32_t>(first + step.tokens()));
    step.wanted.push_back(static_cast<std::int32_t>(step.tokens() - 1));
    const auto found = model.model().run(step);
    out.assign(found.begin(), found.end());
  }
  model.cache().give_back(pages);
  return out;
}

/// The largest difference, as a share of how much the wanted values vary.
[[nodiscard]] inline double difference(const std::vector<float>& found, const std::vector<double>& wanted) {
  double mean = 0;
  for (const double value : wanted) mean += value / static_cast<double>(wanted.size());
  double variance = 0;
  double worst = found.size() == wanted.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    variance += (wanted[i] - mean) * (wanted[i] - mean) / static_cast<double>(wanted.size());
    const double off = std::abs(static_cast<double>(found[i]) - wanted[i]);
    if (!(off <= worst)) worst = std::isnan(off) ? HUGE_VAL : off;
  }
  return worst / std::sqrt(variance);
}

}  // namespace switchyard::test
