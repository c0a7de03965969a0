// SPDX-License-Identifier: MIT
// Selection from files to sentences: each case of this folder is read, asked, and its answers compared with
// the text beside it. What a case does not name is that of usual/case.json. With SWITCHYARD_UPDATE_GOLDEN=1
// the texts are written instead; read the difference.
#include <algorithm>
#include <catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/base/text.hpp>
#include <switchyard/choosing/build_selector.hpp>
#include <switchyard/choosing/explain.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/files/read_manifest.hpp>
#include <switchyard/files/read_table.hpp>
#include <switchyard/problem/added_axes.hpp>
#include <switchyard/problem/parse_value.hpp>

#include "../environment.hpp"
#include "../unit/sample_operator.hpp"

namespace sy = switchyard;

namespace {

std::string slurp(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// What every manifest or table of a case would repeat.
nlohmann::json completed(nlohmann::json file, const std::string& kind) {
  file["schema"] = "switchyard." + kind + "/1";
  file["operator"] = "scale";
  for (auto& variant : file["variants"]) {
    if (variant.contains("launches")) continue;
    variant["launches"] = {{{"blob", "a.bin"},
                            {"sha256", std::string(64, 'a')},
                            {"kernel", "k"},
                            {"grid", {1}},
                            {"block", {1}},
                            {"shared_bytes", variant.value("shared_bytes", nlohmann::json(0))},
                            {"parameters", nlohmann::json::array()}}};
  }
  return file;
}

std::string answer(const nlohmann::json& asked) {
  sy::selector_sources sources;
  sy::added_axes axes{sample::description()};
  sources.op = &axes.live();
  for (const auto& [name, value] : asked.at("device").items()) {
    if (name == "backend") {
      sources.device.backend = value;
    } else if (name == "arch") {
      sources.device.arch = value;
    } else if (name == "name") {
      sources.device.name = value;
    } else {
      sources.device.set(name, value);
    }
  }
  sources.force = asked.value("force", "");
  sy::warnings warned;
  for (const auto& manifest : asked.at("manifests")) {
    sources.manifests.push_back(std::make_shared<const sy::manifest>(
        sy::parse_manifest(completed(manifest, "manifest").dump(), manifest.value("path", "manifest.json"),
                           *sources.op, warned)));
  }
  for (const char* kind : {"overlays", "tables"}) {
    for (const auto& table : asked.value(kind, nlohmann::json::array())) {
      auto read = std::make_shared<const sy::table>(sy::parse_table(
          completed(table, "table").dump(), table.value("path", "table.json"), *sources.op, warned));
      (std::string{kind} == "tables" ? sources.tables : sources.overlays).push_back(std::move(read));
    }
  }
  std::vector<std::string> of_builder;
  const auto from = sy::build_selector(sources, of_builder);
  std::string out;
  for (const std::string& message : warned.messages) out += "warning: " + message + "\n";
  for (const std::string& message : of_builder) out += "warning: " + message + "\n";

  std::vector<std::atomic<bool>> unusable(from->candidates.size());
  for (const std::string id : asked.value("unusable", nlohmann::json::array())) {
    for (std::size_t i = 0; i < unusable.size(); ++i) {
      if (from->candidates[i].variant->id == id) unusable[i] = true;
    }
  }
  for (const auto& query : asked.at("queries")) {
    std::vector<std::int64_t> problem(sources.op->axes.size());
    std::string shown;
    for (const auto& [name, value] : query.items()) {
      const std::uint32_t axis = sy::find_axis(*sources.op, name);
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      problem.at(axis) = sy::parse_value(sources.op->axes[axis], text).value();
      if (!shown.empty()) shown += ' ';
      shown.append(name).append("=").append(text);
    }
    const sy::choice chosen = from->select(problem, unusable);
    const sy::explanation why = sy::explain(*from, problem, chosen, unusable);
    out += "\n? " + shown + "\n";
    out += "= " + (why.variant.empty() ? std::string{"none"} : why.variant) + " [" + why.target + "] " +
           sy::format_reason(why);
    if (chosen.microseconds > 0)
      out += ", " + sy::text::number(static_cast<double>(chosen.microseconds)) + " us";
    out += "\n";
    if (why.variant.empty()) out += "! " + sy::explain_failure(*from, problem, unusable) + "\n";
    for (const sy::candidate_report& candidate : why.candidates) {
      out += "  " + candidate.variant + " [" + candidate.target + "]";
      if (candidate.microseconds > 0) out += " " + sy::text::number(candidate.microseconds) + " us";
      out += candidate.obstacle.empty() ? "\n" : ": " + candidate.obstacle + "\n";
    }
  }
  return out;
}

}  // namespace

TEST_CASE("files and problems give the choices, grounds and warnings written down for them") {
  const bool update = sy::test::variable("SWITCHYARD_UPDATE_GOLDEN") != nullptr;
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator{SWITCHYARD_GOLDEN}) {
    if (entry.path().extension() == ".json") cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  REQUIRE(cases.size() >= 12);
  for (std::filesystem::path path : cases) {
    INFO(path.filename().string());
    auto asked = nlohmann::json::parse(slurp(SWITCHYARD_GOLDEN "/usual/case.json"));
    asked.update(nlohmann::json::parse(slurp(path)));
    const std::string got = answer(asked);
    path.replace_extension(".txt");
    if (update) std::ofstream{path, std::ios::binary} << got;
    const std::string expected = slurp(path);
    REQUIRE_FALSE(expected.empty());
    CHECK(got == expected);
  }
}
