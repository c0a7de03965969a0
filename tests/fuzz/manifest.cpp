// SPDX-License-Identifier: MIT
// Arbitrary bytes as a manifest; what is read of it is asked for choices.
#include <cstddef>
#include <cstdint>

#include <switchyard/files/json.hpp>
#include <switchyard/files/manifest_file.hpp>

#include "rules.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fuzz;
  static const std::string path = "fuzz/manifest.json";
  static const auto measured = [] {
    sy::warnings warned;
    return std::make_shared<const sy::table>(sy::parse_table(
        R"({"schema": "switchyard.table/1", "operator": "rotary",
            "device": {"backend": "host", "arch": "any", "name": "corpus"},
            "groups": [{"type": {"dtype": "f32"}, "axes": ["batch", "seqlen"],
                        "rows": [{"at": [1, 128], "times_us": {"good": 3, "bad": 2}},
                                 {"at": [4, 128], "times_us": {"good": 12, "bad": 13}}]}]})",
        "table.json", rotary(), warned));
  }();
  begin_run();
  try {
    sy::warnings warned;
    const auto kernels = std::make_shared<const sy::manifest>(
        sy::parse_manifest({reinterpret_cast<const char*>(data), size}, path, rotary(), warned));
    for (const std::string& message : warned.messages) require(message.size() < 2000);
    choose(kernels, nullptr, measured, "");
    // Read entry by entry it says the same.
    sy::warnings of_outlined;
    const sy::manifest_file outlined{
        {reinterpret_cast<const char*>(data), size}, path, rotary(), of_outlined};
    require(outlined.read_all(of_outlined)->variants.size() == kernels->variants.size());
    require(of_outlined.messages.size() == warned.messages.size());
    if (size % 4 == 0) choose(kernels, nullptr, measured, size % 8 == 0 ? "good" : "tile=64");
  } catch (const sy::file_error& problem) {
    check_refusal(problem, path);
  }
  return 0;
}
