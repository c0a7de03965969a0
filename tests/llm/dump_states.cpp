// SPDX-License-Identifier: MIT
// Runs tokens through a model and writes what it computed, for comparison with another implementation:
//
//   dump_states MODEL OUT exact|int8 CHUNK ID...
//
// OUT: f32, the hidden states [tokens, width] before each layer and after the last one, then the logits
// [tokens, vocabulary]. The prompt is run in chunks of so many tokens.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>
#include <switchyard/tune/reference/element.hpp>

#include "loaded_model.hpp"

namespace sy = switchyard;

namespace {

/// A prompt's pieces as an engine makes them, but with the logits of every token.
[[nodiscard]] llm::batch piece_of(const std::vector<std::int32_t>& ids, std::int64_t first,
                                  std::int64_t count, const std::vector<std::int32_t>& pages,
                                  std::int64_t pages_stride) {
  llm::batch out;
  out.pages_stride = pages_stride;
  for (std::int64_t i = first; i < first + count; ++i) {
    out.ids.push_back(ids[static_cast<std::size_t>(i)]);
    out.positions.push_back(i);
    out.slots.push_back(llm::kv_cache::slot_of(pages, i));
    out.wanted.push_back(static_cast<std::int32_t>(i - first));
  }
  out.starts.push_back(static_cast<std::int32_t>(count));
  out.used.push_back(static_cast<std::int32_t>(first + count));
  out.pages = pages;
  return out;
}

void run(const std::vector<std::string>& words) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 4; i < words.size(); ++i) ids.push_back(std::stoi(words[i]));
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t chunk = std::stoll(words[3]);
  sy::catalog catalog;
  llm::load_options options;
  options.context = tokens;
  options.step_tokens = options.sequences = chunk;
  options.int8_activations = words[2] == "int8";
  llm::loaded_model model{catalog, sy::device::host(), words[0], options};
  std::vector<std::vector<float>> hidden(static_cast<std::size_t>(model.config().layers) + 1);
  model.model().set_probe([&hidden](std::size_t layer, const sy::const_tensor& states) {
    for (std::int64_t i = 0; i < states.count(); ++i)
      hidden[layer].push_back(static_cast<float>(sy::reference::load(states.dtype(), states.data(), i)));
  });
  std::vector<std::int32_t> pages = model.cache().take(model.limits().pages);
  std::vector<float> logits;
  for (std::int64_t first = 0; first < tokens; first += chunk) {
    const auto found =
        model.model().run(piece_of(ids, first, std::min(chunk, tokens - first), pages, model.limits().pages));
    logits.insert(logits.end(), found.begin(), found.end());
  }
  std::ofstream out{words[1], std::ios::binary};
  const auto write = [&out](const std::vector<float>& values) {
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
  };
  for (const auto& state : hidden) write(state);
  write(logits);
}

}  // namespace

int main(int count, char** words) {
  if (count < 6) {
    std::fputs("usage: dump_states MODEL OUT exact|int8 CHUNK ID...\n", stderr);
    return 64;
  }
  try {
    run({words + 1, words + count});
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "dump_states: %s\n", problem.what());
    return 1;
  }
}
