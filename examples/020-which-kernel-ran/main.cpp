// SPDX-License-Identifier: MIT
// Which kernel runs, and why: for a call on this machine, and for devices that are not present.
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <switchyard/switchyard.hpp>

namespace {

namespace sy = switchyard;
using sy::operators::softmax;

/// Chooses for a device that is only described. Nothing is loaded.
void explain_for(sy::catalog& catalog, const softmax::arguments& call, const std::string& name,
                 const std::vector<const char*>& features) {
  sy::device_properties device{.backend = "host", .arch = "x86_64", .name = name};
  device.set("multiprocessors", 8);
  for (const char* feature : features) device.set(feature, 1);
  const auto rules = catalog.make_selector(sy::describe<softmax>(), device);
  const auto problem = sy::make_problem<softmax>(call);
  const sy::explanation why = sy::explain(*rules, problem, rules->select(problem));
  std::printf("%-16s %s\n", name.c_str(), why.variant.c_str());
}

}  // namespace

int main() {
  sy::catalog catalog;
  sy::dispatcher<softmax> run{catalog, sy::device::host()};
  std::vector<float> x(64'000, 1.0F);
  const sy::tensor rows{std::span{x}, {64, 1000}};
  const softmax::arguments call = softmax::call(rows, rows);

  // The choice as data. SWITCHYARD_DEBUG=1 prints the same when the call runs.
  const sy::explanation why = run.explain(call);
  std::printf("operator  %s\nproblem   %s\nvariant   %s {%s}\nreason    %s\n", why.operator_name.c_str(),
              why.problem.c_str(), why.variant.c_str(), why.config.c_str(), sy::format_reason(why).c_str());

  // A candidate of this call's type, with the first rule that excludes it. Others of its name serve other
  // types.
  for (const sy::candidate_report& candidate : why.candidates) {
    if (candidate.variant != "baseline_s4") continue;
    std::printf("candidate %s: %s\n", candidate.variant.c_str(),
                candidate.admissible ? "may serve this call" : candidate.obstacle.c_str());
  }

  std::printf("\nThe same call on other CPUs:\n");
  explain_for(catalog, call, "plain x86-64", {});
  explain_for(catalog, call, "with AVX2", {"avx2", "fma", "f16c"});
  explain_for(catalog, call, "with AVX-512",
              {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"});
}
