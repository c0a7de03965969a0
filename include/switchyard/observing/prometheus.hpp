// SPDX-License-Identifier: MIT
// Counters in the text format that Prometheus reads, and node_exporter's textfile collector as well.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/observing/counters.hpp>

namespace switchyard {
inline namespace v0 {

/// The exposition format, version 0.0.4: each metric with HELP and TYPE, and one line for each operator.
///     sy::write_file("/var/lib/node_exporter/switchyard.prom", sy::to_prometheus(catalog.counters()));
[[nodiscard]] std::string to_prometheus(const catalog_counters& from);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/observing/prometheus_impl.hpp>
#endif
