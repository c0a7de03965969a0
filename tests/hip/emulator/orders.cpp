// SPDX-License-Identifier: MIT
#include "orders.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "counts.hpp"

namespace emulator {

namespace {

enum class policy : std::uint8_t { none, first, all };

policy wanted() {
  const char* const value = std::getenv("HIP_EMULATOR_ORDERS");  // NOLINT(concurrency-mt-unsafe): as hip.cpp
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty() || name == "first") return policy::first;
  if (name == "all") return policy::all;
  if (name == "none") return policy::none;
  throw fault{"HIP_EMULATOR_ORDERS is '" + std::string{name} + "', not first, all or none"};
}

/// What of a launch has more than one order.
struct axes {
  bool waves = false;
  bool workgroups = false;
};

axes axes_of(const grid& where) {
  return {where.threads[0] * where.threads[1] * where.threads[2] > lanes,
          std::uint64_t{where.blocks[0]} * where.blocks[1] * where.blocks[2] > 1};
}

struct {
  std::mutex mutex;
  std::map<std::string, axes> compared;  ///< by image and name
} known;                                 // NOLINT: what a process has one of

std::string key_of(const kernel& what) {
  return what.image + ' ' + what.code->name;
}

bool is_to_be_compared(const kernel& what, const axes& has) {
  const policy which = wanted();
  if (which != policy::first) return which == policy::all && (has.waves || has.workgroups);
  const std::scoped_lock lock{known.mutex};
  const axes& was = known.compared[key_of(what)];
  return (has.waves && !was.waves) || (has.workgroups && !was.workgroups);
}

void note_compared(const kernel& what, const axes& has) {
  const std::scoped_lock lock{known.mutex};
  axes& was = known.compared[key_of(what)];
  was = {was.waves || has.waves, was.workgroups || has.workgroups};
}

std::string hexadecimal(std::uint32_t number) {
  std::string text = "0x00000000";
  for (std::size_t i = text.size(); number != 0; number >>= 4U) text[--i] = "0123456789abcdef"[number & 15U];
  return text;
}

/// Compilers make sums of floats by these or, where there is no such instruction, by comparing and swapping.
bool sums_floats_in_any_order(const program& of) {
  return std::any_of(of.code.begin(), of.code.end(), [](const instruction& one) {
    const std::string_view name = one.what->name;
    const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
    return one.what->reads_memory && one.what->writes_memory &&
           (has("CMPS") || (has("ADD") && (has("F16") || has("F32") || has("F64"))));
  });
}

/// The first argument that points into an allocation.
std::string name_of(const range& allocation, const kernel& what, const std::byte* arguments) {
  std::size_t index = 0;
  for (const argument& one : what.arguments) {
    if (!one.hidden.empty()) continue;
    std::uintptr_t value = 0;
    if (one.bytes == sizeof value) std::memcpy(&value, arguments + one.offset, sizeof value);
    if (value >= allocation.begin && value < allocation.end)
      return "argument " + std::to_string(index) + "'s allocation";
    ++index;
  }
  return "an allocation that no argument points to";
}

fault disagreement(const kernel& what, const std::byte* arguments, const char* of_what,
                   const write_log::difference& found) {
  return fault{what.code->name + ": its " + of_what + " in another order write other values: at byte " +
               std::to_string(found.address - found.allocation.begin) + " of " +
               name_of(found.allocation, what, arguments) + " of " +
               std::to_string(found.allocation.end - found.allocation.begin) + " bytes, " +
               hexadecimal(found.now) + " in place of " + hexadecimal(found.result) + "; " +
               std::to_string(found.count) + " bytes of it differ"};
}

void run_twice(const kernel& what, const axes& has, const std::byte* arguments, const order& one,
               const run_in_order& run) {
  write_log log;
  run(one, &log);
  log.take_result();
  const auto difference_with = [&](bool other_workgroups, bool other_waves) {
    log.undo();
    run({one.number, one.workgroups_backwards != other_workgroups, other_waves}, &log);
    return log.compare();
  };
  const auto found = difference_with(has.workgroups, has.waves);
  if (!found) return;
  if (!has.workgroups) throw disagreement(what, arguments, "waves", *found);
  if (!has.waves) throw disagreement(what, arguments, "workgroups", *found);
  if (const auto of_waves = difference_with(false, true))
    throw disagreement(what, arguments, "waves", *of_waves);
  throw disagreement(what, arguments, "workgroups", *found);
}

}  // namespace

std::shared_mutex& users_of_memory() {
  static std::shared_mutex mutex;
  return mutex;
}

void run_in_orders(const kernel& what, const grid& where, const std::byte* arguments, std::uint64_t number,
                   const run_in_order& run) {
  const axes has = axes_of(where);
  const bool compares = is_to_be_compared(what, has);
  const bool could_be = !compares || !sums_floats_in_any_order(*what.code);
  const order one{.number = number, .workgroups_backwards = number % 2 != 0};
  if (compares && could_be) {
    const std::scoped_lock alone{users_of_memory()};
    run_twice(what, has, arguments, one, run);
  } else {
    const std::shared_lock with_others{users_of_memory()};
    run(one, nullptr);
  }
  if (!compares) return;
  note_compared(what, has);
  counts::compared(what.image, what.code->name, could_be);
}

}  // namespace emulator
