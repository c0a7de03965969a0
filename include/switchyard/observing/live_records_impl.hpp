// SPDX-License-Identifier: MIT
// The bodies of live_records.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/hardware/device_properties.hpp>
#include <switchyard/observing/live_comparison.hpp>
#include <switchyard/observing/live_records.hpp>
#include <switchyard/observing/live_samples.hpp>
#include <switchyard/problem/problem.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

[[nodiscard]] inline std::uint64_t hash_live(std::string_view op, std::string_view device,
                                             problem_view problem) noexcept {
  constexpr std::uint64_t prime = 0x100000001b3;
  std::uint64_t out = 0xcbf29ce484222325;
  for (const std::string_view text : {op, device}) {
    for (const char character : text) out = (out ^ static_cast<unsigned char>(character)) * prime;
  }
  for (const std::int64_t value : problem)
    out = ((out ^ static_cast<std::uint64_t>(value)) * prime) ^ (out >> 32U);
  return out;
}

}  // namespace detail

SWITCHYARD_COLD std::string live_problem::text() const {
  return std::string{op->name} + " {" + format_problem(*op, problem) + "} on " + device.name;
}

SWITCHYARD_COLD std::string to_string(const live_report& of) {
  std::string out;
  for (const live_problem& met : of.problems) {
    out += met.text() + ":";
    for (const live_variant& one : met.variants) {
      out += std::string{&one == met.variants.data() ? " " : ", "} + one.id;
      if (one.calls.count > 0) {
        out += " " + text::number(one.calls.median_us) + " us in " + std::to_string(one.calls.count) +
               (one.calls.count == 1 ? " call" : " calls");
      }
      if (one.compared.count > 0) out += " " + text::number(one.compared.median_us) + " us compared";
    }
    if (!met.winner.empty()) out += "; regret " + text::number(100 * met.regret) + " %";
    out += "\n";
  }
  for (const live_denial& denied : of.denials) {
    out += std::string{denied.op->name} + " on " + denied.device.name + ": " + denied.variant +
           " is denied: " + denied.reason + "\n";
  }
  return out;
}

SWITCHYARD_FUNCTION live_samples* live_records::samples_of(const operator_description& op,
                                                           const device_properties& device,
                                                           problem_view problem, const variant& of) {
  if (options_.one_in == 0) return nullptr;
  const locked lock{mutex_};
  record* const in = find(op, device, problem);
  entry* const found = in == nullptr ? nullptr : find(*in, of.id, blob_fingerprint(of));
  return found == nullptr ? nullptr : &found->calls;
}

SWITCHYARD_COLD void live_records::add(const operator_description& op, const device_properties& device,
                                       const live_comparison& found) {
  const locked lock{mutex_};
  record* const in = find(op, device, found.problem);
  if (in == nullptr) return;
  in->row_type = found.row_type;
  in->match = found.match;
  in->winner = found.winner.id;
  for (const compared_variant* compared : {&found.winner, &found.rival}) {
    entry* const to = find(*in, compared->id, compared->blobs);
    if (to == nullptr) continue;
    for (const double time : compared->times_us) to->compared.add(time);
  }
}

SWITCHYARD_COLD bool live_records::add(const live_denial& denied) {
  const locked lock{mutex_};
  for (const live_denial& known : denials_) {
    if (known.op->name == denied.op->name && known.device.name == denied.device.name &&
        known.variant == denied.variant && known.blobs == denied.blobs && known.type == denied.type)
      return false;
  }
  denials_.push_back(denied);
  return true;
}

SWITCHYARD_COLD live_report live_records::report() const {
  live_report out;
  const locked lock{mutex_};
  double winners = 0;
  double best_times = 0;
  for (const auto& kept : records_) {
    live_problem& problem = out.problems.emplace_back();
    problem.op = kept->op;
    problem.device = *kept->device;
    problem.problem = kept->problem;
    problem.row_type = kept->row_type;
    problem.match = kept->match;
    problem.winner = kept->winner;
    double winner = 0;
    double best = 0;
    for (const auto& one : kept->variants) {
      problem.variants.push_back({one->id, one->blobs, one->calls.read(), one->compared.read()});
      const live_time& time = problem.variants.back().compared;
      if (time.count == 0) continue;
      best = best == 0 ? time.median_us : std::min(best, time.median_us);
      if (one->id == kept->winner) winner = time.median_us;
    }
    if (best > 0 && winner > best) problem.regret = winner / best - 1;
    winners += winner;
    best_times += winner > 0 ? best : 0;
  }
  if (best_times > 0) out.regret = winners / best_times - 1;
  out.denials = denials_;
  out.left_out = left_out_;
  return out;
}

SWITCHYARD_FUNCTION live_records::record* live_records::find(const operator_description& op,
                                                             const device_properties& device,
                                                             problem_view problem) {
  const std::uint64_t hash = detail::hash_live(op.name, device.name, problem);
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    if (hashes_[i] != hash) continue;
    record& known = *records_[i];
    if (known.op->name == op.name && known.device->name == device.name &&
        std::equal(known.problem.begin(), known.problem.end(), problem.begin(), problem.end()))
      return &known;
  }
  if (records_.size() >= options_.problems) {
    ++left_out_;
    return nullptr;
  }
  const device_properties* kept = nullptr;
  for (const auto& device_kept : devices_) {
    if (device_kept->name == device.name && device_kept->arch == device.arch &&
        device_kept->attributes == device.attributes)
      kept = device_kept.get();
  }
  if (kept == nullptr) kept = devices_.emplace_back(std::make_unique<device_properties>(device)).get();
  auto fresh = std::make_unique<record>();
  fresh->op = &op;
  fresh->device = kept;
  for (const std::int64_t value : problem) fresh->problem.push_back(value);
  hashes_.reserve(hashes_.size() + 1);
  records_.push_back(std::move(fresh));
  hashes_.push_back(hash);
  return records_.back().get();
}

SWITCHYARD_FUNCTION live_records::entry* live_records::find(record& in, const std::string& id,
                                                            const std::string& blobs) {
  for (const auto& entry : in.variants) {
    if (entry->id == id && entry->blobs == blobs) return entry.get();
  }
  if (in.variants.size() >= max_variants) return nullptr;
  auto fresh = std::make_unique<entry>();
  fresh->id = id;
  fresh->blobs = blobs;
  return in.variants.emplace_back(std::move(fresh)).get();
}

}  // namespace v0
}  // namespace switchyard
