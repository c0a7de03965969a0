// SPDX-License-Identifier: MIT
#include "call_mode.hpp"

#include <nlohmann/json.hpp>

#include <switchyard/choosing/explain.hpp>

namespace switchyard_torch {

namespace {

thread_local std::string explanations;  // JSON objects, one a line

[[nodiscard]] nlohmann::ordered_json to_json(const switchyard::candidate_report& candidate) {
  return {{"variant", candidate.variant},
          {"target", candidate.target},
          {"config", candidate.config},
          {"reproducible", candidate.reproducible},
          {"admissible", candidate.admissible},
          {"obstacle", candidate.obstacle},
          {"microseconds", candidate.microseconds}};
}

}  // namespace

call_mode& current_call_mode() noexcept {
  thread_local call_mode now = call_mode::launch;
  return now;
}

void keep_explanation(const switchyard::explanation& why) {
  nlohmann::ordered_json out;
  out["operator"] = why.operator_name;
  out["problem"] = why.problem;
  out["device"] = why.device;
  out["variant"] = why.variant;
  out["config"] = why.config;
  out["target"] = why.target;
  out["reason"] = to_string(why.chosen.why);
  out["sentence"] = to_string(why);
  out["microseconds"] = why.chosen.microseconds;
  out["stale"] = why.chosen.stale;
  out["manifest"] = why.manifest;
  out["reproducible"] = why.reproducible;
  out["table"] = why.table;
  out["row"] = why.row_at;
  out["launches"] = why.launches;
  out["candidates"] = nlohmann::ordered_json::array();
  for (const auto& candidate : why.candidates) out["candidates"].push_back(to_json(candidate));
  explanations += out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace switchyard_torch

extern "C" {

/// Sets what the calling thread's calls do: 0 launch, 1 explain, 2 prepare, 3 check.
__attribute__((visibility("default"))) void switchyard_torch_set_call_mode(int value) {
  switchyard_torch::current_call_mode() = static_cast<switchyard_torch::call_mode>(value);
  switchyard_torch::explanations.clear();
}

/// The calling thread's explanations since its call mode was set, one JSON object a line. Valid until the
/// next call of either function on this thread.
__attribute__((visibility("default"))) const char* switchyard_torch_explanations() {
  return switchyard_torch::explanations.c_str();
}
}
