// SPDX-License-Identifier: MIT
// Arbitrary bytes as a table and as an overlay; what is read of it decides among three variants.
#include <cstddef>
#include <cstdint>

#include <switchyard/files/json.hpp>
#include <switchyard/files/table_file.hpp>

#include "rules.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fuzz;
  static const std::string path = "fuzz/table.json";
  static const auto kernels = [] {
    sy::warnings warned;
    const std::string launches =
        R"json("launches": [{"blob": "a.so", "sha256": ")json" + std::string(64, '0') +
        R"json(", "kernel": "k", "grid": [1], "block": [1], "parameters": []}]})json";
    return std::make_shared<const sy::manifest>(sy::parse_manifest(
        R"({"schema": "switchyard.manifest/1", "operator": "rotary", "target": {"backend": "host", "arch": "any"},
            "variants": [{"id": "picky", "requires": ["seqlen % 128 == 0"], )" +
            launches + R"(, {"id": "good", "type": {"dtype": "f32"}, )" + launches + R"(, {"id": "plain", )" +
            launches + "]}",
        "manifest.json", rotary(), warned));
  }();
  begin_run();
  try {
    sy::warnings warned;
    const auto read = std::make_shared<const sy::table>(
        sy::parse_table({reinterpret_cast<const char*>(data), size}, path, rotary(), warned));
    for (const std::string& message : warned.messages) require(message.size() < 2000);
    for (const sy::row_group& group : read->groups) {
      require(group.at.size() == group.row_count() * group.axes.size());
      require(group.times.size() == group.first_time.back());
      require(group.source_row.size() == group.row_count());
    }
    // Read group by group it says the same.
    sy::warnings of_outlined;
    const sy::table_file outlined{{reinterpret_cast<const char*>(data), size}, path, rotary(), of_outlined};
    require(outlined.read_all(of_outlined)->groups.size() == read->groups.size());
    require(of_outlined.messages.size() == warned.messages.size());
    choose(kernels, nullptr, read, "");
    choose(kernels, read, read, "");
  } catch (const sy::file_error& problem) {
    check_refusal(problem, path);
  }
  return 0;
}
