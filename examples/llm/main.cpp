// SPDX-License-Identifier: MIT
// Writes text with a model from a GGUF file.
//
//   llm MODEL.gguf "prompt"...            continues prompts, all at once
//   llm MODEL.gguf --chat "message"...    answers messages; without a message, a conversation on the terminal
//   llm MODEL.gguf --bench                measures tokens a second
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/switchyard.hpp>

#include "bench.hpp"
#include "chat.hpp"
#include "loaded_model.hpp"
#include "sampler.hpp"

namespace sy = switchyard;

namespace {

struct settings {
  std::string model;
  std::vector<std::string> prompts;
  bool chat = false;
  bool bench = false;
  bool quiet = false;
  std::string system;
  std::string device = "auto";
  std::string kv;
  std::size_t threads = 0;

  llm::load_options load;
  llm::sampling_options sampling;
  std::int64_t tokens = 256;
  llm::bench_options points;
};

/// The GPU where there is one with kernels for the model's linear layers, else the CPU.
[[nodiscard]] sy::device find_device(sy::catalog& catalog) {
  sy::device found = sy::device::current();
  try {
    const auto rules =
        catalog.make_selector(sy::describe<sy::operators::matmul_quantized>(), found.driver()->properties());
    if (!rules->candidates.empty()) return found;
  } catch (const sy::error&) {  // no kernels of it are installed
  }
  return sy::device::host();
}

[[nodiscard]] sy::device open_device(sy::catalog& catalog, const settings& with) {
  if (with.device == "auto" && with.threads == 0) return find_device(catalog);
  if (with.device == "cuda") return sy::device{sy::cuda::current()};
  if (with.device == "hip") return sy::device{sy::hip::current()};
  if (with.threads > 0) return sy::device{std::make_shared<sy::host::driver>(with.threads)};
  return sy::device::host();
}

[[nodiscard]] double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Runs requests to their end. One is shown as it is written, several when they are done.
class writer {
 public:
  writer(llm::loaded_model& model, const settings& with)
      : model_{model}, settings_{with}, engine_{model.make_engine()} {}

  void add(std::vector<llm::token_id> prompt, bool streams) {
    outputs_.push_back(std::make_unique<output>(output{llm::decoder{model_.text()}, {}}));
    output& mine = *outputs_.back();
    llm::generation_request request;
    request.prompt = std::move(prompt);
    request.sampling = settings_.sampling;
    request.sampling.seed += outputs_.size() - 1;  // prompts that are alike get answers of their own
    request.max_tokens = settings_.tokens;
    request.on_token = [&mine, streams](llm::token_id token) {
      const std::string text = mine.text.push(token);
      mine.written += text;
      if (streams) show(text);
    };
    request.on_finish = [&mine, streams](llm::finish_reason) {
      const std::string rest = mine.text.finish();
      mine.written += rest;
      if (streams) show(rest);
    };
    engine_.add(std::move(request));
  }

  void run() {
    const auto begin = std::chrono::steady_clock::now();
    while (engine_.step()) {
    }
    seconds_ = seconds_since(begin);
  }

  [[nodiscard]] const std::string& written(std::size_t index) const { return outputs_[index]->written; }
  void report() const {
    const auto& totals = engine_.totals();
    std::fprintf(stderr, "%lld prompt tokens, %lld generated, %lld steps, %.2f s\n",
                 static_cast<long long>(totals.prompt_tokens),
                 static_cast<long long>(totals.generated_tokens), static_cast<long long>(totals.steps),
                 seconds_);
  }

 private:
  struct output {
    llm::decoder text;
    std::string written;
  };

  llm::loaded_model& model_;
  const settings& settings_;
  llm::engine engine_;
  std::vector<std::unique_ptr<output>> outputs_;
  double seconds_ = 0;
};

[[nodiscard]] std::vector<llm::chat_message> begin_chat(const settings& with) {
  if (with.system.empty()) return {};
  return {{llm::chat_role::system, with.system}};
}

[[nodiscard]] std::vector<llm::token_id> encode_messages(const llm::loaded_model& model,
                                                         const std::vector<llm::chat_message>& messages) {
  return llm::encode_chat(model.text(), llm::render_chat(llm::find_chat_family(model.file()), messages));
}

void converse(llm::loaded_model& model, const settings& with) {
  std::vector<llm::chat_message> messages = begin_chat(with);
  const bool prompts = ::isatty(STDIN_FILENO) == 1;  // what a pipe asks needs no prompt
  const auto show_prompt = [prompts] {
    if (prompts) show("> ");
  };
  for (std::string line; show_prompt(), std::getline(std::cin, line);) {
    if (line.empty()) continue;
    messages.push_back({llm::chat_role::user, line});
    writer answer{model, with};
    answer.add(encode_messages(model, messages), true);
    answer.run();
    show("\n");
    messages.push_back({llm::chat_role::assistant, answer.written(0)});
  }
  if (prompts) show("\n");
}

void write(llm::loaded_model& model, const settings& with) {
  writer texts{model, with};
  const bool streams = with.prompts.size() == 1;
  for (const std::string& prompt : with.prompts) {
    if (with.chat) {
      std::vector<llm::chat_message> messages = begin_chat(with);
      messages.push_back({llm::chat_role::user, prompt});
      texts.add(encode_messages(model, messages), streams);
    } else {
      texts.add(model.text().encode(prompt, {.parse_special = false, .add_bos = model.text().add_bos()}),
                streams);
    }
  }
  texts.run();
  for (std::size_t i = 0; !streams && i < with.prompts.size(); ++i)
    show("[" + std::to_string(i + 1) + "] " + texts.written(i) + "\n");
  if (streams) show("\n");
  if (!with.quiet) texts.report();
}

int run(const settings& with) {
  sy::catalog catalog;
  catalog.watch(std::chrono::milliseconds{200});  // a table or kernel that is replaced serves at once
  const sy::device device = open_device(catalog, with);
  const auto begin = std::chrono::steady_clock::now();
  const bool shows_progress = !with.quiet && ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](double share) {
    if (shows_progress) std::fprintf(stderr, "\rloading %s: %3.0f %%", with.model.c_str(), 100 * share);
  };
  llm::loaded_model model{catalog, device, with.model, with.load, progress};
  if (!with.quiet) {
    std::fprintf(stderr, "%sloaded %s for %s in %.2f s\n", shows_progress ? "\r" : "", with.model.c_str(),
                 device.driver()->properties().name.c_str(), seconds_since(begin));
  }
  if (with.bench) {
    llm::run_bench(catalog, model, with.points);
  } else if (with.prompts.empty()) {
    converse(model, with);
  } else {
    write(model, with);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  settings with;
  with.load.sequences = 0;
  CLI::App app{"Writes text with a model from a GGUF file."};
  app.add_option("model", with.model, "The GGUF file: Llama 3, SmolLM2, Qwen2.5 or Qwen3")->required();
  app.add_option("prompt", with.prompts, "Texts to continue; with --chat, messages to answer");
  app.add_flag("--chat", with.chat,
               "Use the model's chat template; without a message, read them from the terminal");
  app.add_option("--system", with.system, "The system message of a chat");
  app.add_flag("--bench", with.bench, "Measure tokens a second instead: prompts, and generation");
  app.add_option("--bench-prompt", with.points.prompts, "Tokens of the prompts to measure; 0: none")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
  app.add_option("--bench-sequences", with.points.sequences, "Sequences to measure at a time")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app.add_option("--bench-context", with.points.contexts,
                 "Tokens before those that are generated; default: the first prompt's")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
  app.add_option("--bench-runs", with.points.runs, "Runs of each measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--bench-swap", with.points.swap,
                 "Replace the second file by a copy of the first, a table, while generating")
      ->expected(2);
  app.add_option("--json", with.points.json, "Append what is measured to this file, a JSON object a line");
  app.add_option("-n,--tokens", with.tokens, "Most tokens to generate for each prompt, or to measure")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--temperature", with.sampling.temperature, "0 takes the most probable token")
      ->capture_default_str();
  app.add_option("--top-k", with.sampling.top_k, "Choose among so many; 0: all")->capture_default_str();
  app.add_option("--top-p", with.sampling.top_p, "Choose among the most probable that sum to this")
      ->capture_default_str();
  app.add_option("--seed", with.sampling.seed, "Of the first prompt; the next ones count up")
      ->capture_default_str();
  app.add_option("--device", with.device, "Where to run")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "hip"}))
      ->capture_default_str();
  app.add_option("--threads", with.threads, "Of the CPU; 0: one for each processor")->capture_default_str();
  app.add_option("--kv", with.kv, "How keys and values are kept; default: f16 on the CPU, else bf16")
      ->check(CLI::IsMember({"f16", "bf16", "f8_e4m3"}));
  app.add_option("--context", with.load.context, "Tokens that a sequence may have")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app.add_option("--cache", with.load.cache_tokens,
                 "Tokens of all sequences that the cache holds; default: a context for each")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--chunk", with.load.step_tokens,
                 "Most tokens of a step; longer prompts take several; default: 512 on the CPU, else 2048")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app.add_option("--sequences", with.load.sequences,
                 "Most prompts that are answered at a time; default: all, up to 16")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24));
  app.add_flag("--int8", with.load.int8_activations,
               "Let linear layers with quantised weights round activations to 8 bits: faster, less exact");
  app.add_flag_callback(
      "--no-graphs", [&with] { with.load.gpu.graphs = false; },
      "Launch the kernels of every step one by one");
  app.add_flag_callback(
      "--no-cublaslt", [&with] { with.load.gpu.cublaslt = false; },
      "Run all linear layers with Switchyard's kernels");
  app.add_flag("-q,--quiet", with.quiet, "Print the text only");
  CLI11_PARSE(app, count, words);
  try {
    if (with.prompts.empty() && !with.chat && !with.bench) {
      std::fputs("llm: give a prompt, or --chat for a conversation, or --bench\n", stderr);
      return 64;
    }
    static_cast<void>(
        llm::sampler{with.sampling});  // refuses what is out of range, before the model is loaded
    if (!with.kv.empty())
      with.load.kv_dtype = with.kv == "f16"    ? sy::dtype::f16
                           : with.kv == "bf16" ? sy::dtype::bf16
                                               : sy::dtype::f8_e4m3;
    if (with.bench) {
      llm::check_files(with.points);
      with.points.tokens = with.tokens;
      llm::fit_limits(with.points, app.count("--context") > 0, with.load);
    } else if (with.load.sequences == 0) {
      with.load.sequences = std::clamp<std::int64_t>(static_cast<std::int64_t>(with.prompts.size()), 1, 16);
    }
    return run(with);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "llm: %s\n", problem.what());
    return 1;
  }
}
