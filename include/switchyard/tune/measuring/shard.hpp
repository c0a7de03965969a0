// SPDX-License-Identifier: MIT
// This process's share of the work, if a launcher started several.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Part `index` of `count`: of a list in an order that all processes agree on, every count-th entry.
struct shard {
  std::size_t index = 0;
  std::size_t count = 1;
  std::optional<std::size_t> local;  ///< place among the processes of this host, where that is known
  std::string source;                ///< the variables that said so, "" for the only process

  [[nodiscard]] bool has(std::size_t entry) const noexcept { return entry % count == index; }
  /// "table.json" becomes "table.shard-0-of-4.json".
  [[nodiscard]] std::string file(const std::string& path) const {
    if (count == 1) return path;
    const std::string mark = ".shard-" + std::to_string(index) + "-of-" + std::to_string(count);
    return path.ends_with(".json") ? path.substr(0, path.size() - 5) + mark + ".json" : path + mark;
  }
};

/// Reads the variables of torchrun, Open MPI, MPICH and its kin, and Slurm, in this order. The first complete
/// and valid pair of rank and size wins. `get` is std::getenv or similar.
template <class Get>
[[nodiscard]] shard shard_of(const Get& get) {
  struct names {
    const char* rank;
    const char* size;
    const char* local;
  };
  // Of Slurm's sizes the step's own comes first: in a batch script, the job's counts steps to come.
  constexpr std::array<names, 5> launchers{{
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
  }};
  const auto number = [&get](const char* name) -> std::optional<std::size_t> {
    const char* const text = get(name);
    if (text == nullptr) return std::nullopt;
    const std::string_view digits{text};
    std::size_t value = 0;
    const auto [stop, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem != std::errc{} || stop != digits.data() + digits.size() || digits.empty())
      return std::nullopt;
    return value;
  };
  for (const names& launcher : launchers) {
    const auto rank = number(launcher.rank);
    const auto size = number(launcher.size);
    if (!rank || !size || *size == 0 || *rank >= *size) continue;
    return {*rank, *size, number(launcher.local), std::string{launcher.rank} + " and " + launcher.size};
  }
  return {};
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
