// SPDX-License-Identifier: MIT
// Reads how the rows of a tuning table were measured. Nothing in it can be an error: what an older version
// wrote as a text becomes a note, and what a newer version wrote is kept as it is.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/measurement.hpp>

namespace switchyard {
inline namespace v0 {

/// The runs that measured a table, given as its JSON document: the most recent one first, if any is stated.
[[nodiscard]] std::vector<measurement> read_measurements(const nlohmann::json& table);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_measurement_impl.hpp>
#endif
