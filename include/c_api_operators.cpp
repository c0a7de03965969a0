// SPDX-License-Identifier: MIT
// Operators, described and called, of the shared library behind switchyard/c_api.h. No exception leaves it.
#include "c_api_operators.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/c_api.h>
#include <switchyard/switchyard.hpp>

#include "c_api_catalog.hpp"
#include "c_api_function.hpp"

namespace sy = switchyard;
using namespace switchyard::c_api;

namespace {

/// Runs a function for an operator, which must not be null.
template <class Function>
[[nodiscard]] int with_operator(const switchyard_operator* op, const Function& run) noexcept {
  return guarded([&] {
    require(op, "op");
    run();
  });
}

[[nodiscard]] std::vector<sy::axis_span> spans_of(const switchyard_range* ranges, std::size_t count) {
  if (count > 0) require(ranges, "ranges");
  std::vector<sy::axis_span> out;
  for (std::size_t i = 0; i < count; ++i) {
    const switchyard_range& range = ranges[i];
    const std::string name = "ranges[" + std::to_string(i) + "]";
    if (range.size < sizeof range) fail_size(name, "switchyard_range", range.size);
    require(range.axis, (name + ".axis").c_str());
    out.push_back({range.axis, range.first, range.last});
  }
  return out;
}

}  // namespace

int switchyard_describe(const char* name, switchyard_description* out) {
  return guarded([&] {
    const sy::operator_description& op = find(name);
    fill(out, {0, op.name.data(), op.argument_bytes, op.fields.size(), op.axes.size()},
         "switchyard_description");
  });
}

int switchyard_describe_field(const char* name, std::uint64_t index, switchyard_field* out) {
  return guarded([&] {
    const sy::operator_description& op = find(name);
    if (index >= op.fields.size()) fail(std::string{op.name} + " has no field " + std::to_string(index));
    const sy::field_description& field = op.fields[index];
    fill(out, {0, field.name.data(), field.name.size(), static_cast<std::uint32_t>(field.kind), field.offset},
         "switchyard_field");
  });
}

int switchyard_describe_axis(const char* name, std::uint64_t index, switchyard_axis* out) {
  return guarded([&] {
    const sy::operator_description& op = find(name);
    if (index >= op.axes.size()) fail(std::string{op.name} + " has no axis " + std::to_string(index));
    const sy::axis_description& axis = op.axes[index];
    fill(out,
         {0, axis.name.data(), axis.name.size(), axis.kind == sy::axis_kind::size ? 1 : 0,
          axis.is_flag ? 1 : 0},
         "switchyard_axis");
  });
}

int switchyard_operator_open(switchyard_catalog* catalog, const char* name, const char* device,
                             switchyard_operator** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(catalog, "catalog");
    *out = open_operator(catalog->of, name, device, nullptr).release();
  });
}

int switchyard_operator_open_limited(switchyard_catalog* catalog, const char* name, const char* device,
                                     const switchyard_limits* limits, switchyard_operator** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(catalog, "catalog");
    require(limits, "limits");
    if (limits->size < sizeof *limits) fail_size("limits", "switchyard_limits", limits->size);
    sy::choice_limits wanted;
    if (limits->workspace_bytes >= 0) wanted.workspace_bytes = limits->workspace_bytes;
    if (limits->max_error != 0) wanted.max_error = limits->max_error;
    if (limits->reproducible != nullptr) wanted.reproducible = limits->reproducible;
    *out = open_operator(catalog->of, name, device, &wanted).release();
  });
}

void switchyard_operator_close(switchyard_operator* op) {
  delete op;
}

int switchyard_call(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                    std::size_t count) {
  return with_operator(op, [&] { op->call(sy::stream{stream}, arguments, count, {}); });
}

int switchyard_call_with_workspace(switchyard_operator* op, void* stream,
                                   const switchyard_argument* arguments, std::size_t count, void* workspace,
                                   std::size_t workspace_bytes) {
  return with_operator(op, [&] {
    require(workspace, "workspace");
    op->call(sy::stream{stream}, arguments, count, {workspace, workspace_bytes});
  });
}

int switchyard_workspace_bytes(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                               std::size_t count, std::size_t* bytes) {
  return with_operator(op, [&] {
    require(bytes, "bytes");
    *bytes = op->workspace_bytes(sy::stream{stream}, arguments, count);
  });
}

int switchyard_workspace_bytes_of_ranges(switchyard_operator* op, void* stream,
                                         const switchyard_argument* arguments, std::size_t count,
                                         const switchyard_range* ranges, std::size_t range_count,
                                         std::size_t* bytes) {
  return with_operator(op, [&] {
    require(bytes, "bytes");
    *bytes = op->workspace_bytes(sy::stream{stream}, arguments, count, spans_of(ranges, range_count));
  });
}

int switchyard_prepare(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                       std::size_t count) {
  return with_operator(op, [&] { op->prepare(sy::stream{stream}, arguments, count); });
}

int switchyard_prepare_ranges(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                              std::size_t count, const switchyard_range* ranges, std::size_t range_count) {
  return with_operator(
      op, [&] { op->prepare(sy::stream{stream}, arguments, count, spans_of(ranges, range_count)); });
}

int switchyard_explain(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                       std::size_t count, char* text, std::size_t capacity, std::size_t* length) {
  return with_operator(
      op, [&] { give(op->explain(sy::stream{stream}, arguments, count), text, capacity, length); });
}

int switchyard_compare_live(switchyard_operator* op, void* stream, const switchyard_argument* arguments,
                            std::size_t count, std::uint32_t runner_up, std::int32_t* outcome, char* text,
                            std::size_t capacity, std::size_t* length) {
  return with_operator(op, [&] {
    if (runner_up == 0) fail("runner_up is 0, but must be 1 or more");
    sy::live_compare_options options;
    options.runner_up = runner_up;
    const sy::live_comparison found = op->compare(sy::stream{stream}, arguments, count, options);
    if (outcome != nullptr) *outcome = static_cast<std::int32_t>(found.outcome);
    give(found.text, text, capacity, length);
  });
}
