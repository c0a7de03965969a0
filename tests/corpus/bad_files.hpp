// SPDX-License-Identifier: MIT
// The bad files of the corpus: those in its folders as they are, the others made from the sound file of their
// kind.
#pragma once

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "unit/temporary.hpp"

namespace test {

/// The corpus in its folder; a case is an entry of its list, with the fields that its README names.
class bad_files {
 public:
  explicit bad_files(std::string folder) : folder_{std::move(folder)} {}

  [[nodiscard]] nlohmann::ordered_json cases() const {
    return nlohmann::ordered_json::parse(slurp(folder_ + "/cases.json"));
  }

  /// Writes a case's file below a folder, under its name in the list, and returns its path.
  [[nodiscard]] std::string write(const nlohmann::ordered_json& sample, const std::string& below) const {
    const std::filesystem::path path = std::filesystem::path{below} / sample.at("file").get<std::string>();
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path, std::ios::binary} << content(sample);
    return path.string();
  }

 private:
  [[nodiscard]] std::string content(const nlohmann::ordered_json& sample) const {
    const bool made = sample.contains("patch") || sample.contains("text") || sample.contains("grow");
    if (!made) return slurp(folder_ + "/" + sample.at("file").get<std::string>());
    std::string sound = slurp(folder_ + "/" + sample.at("kind").get<std::string>() + ".json");
    if (sample.contains("text")) {
      const std::string part = sample.at("text").at(0);
      return sound.replace(sound.find(part), part.size(), sample.at("text").at(1).get<std::string>());
    }
    auto document = nlohmann::ordered_json::parse(sound);
    if (sample.contains("patch")) document = document.patch(sample.at("patch"));
    if (sample.contains("grow")) grow(document, sample.at("grow"));
    return document.dump(1);
  }

  static void grow(nlohmann::ordered_json& document, const nlohmann::ordered_json& how) {
    auto& grown = document.at(nlohmann::ordered_json::json_pointer{how.at("at").get<std::string>()});
    for (int n = how.at("times"); n > 0; --n) {
      if (grown.is_string()) {
        grown.get_ref<std::string&>() += how.at("append").get<std::string>();
      } else {
        grown.push_back(how.at("append"));
      }
    }
  }

  std::string folder_;
};

}  // namespace test
