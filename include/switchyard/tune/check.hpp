// SPDX-License-Identifier: MIT
// Checks that a variant computes what its operator's definition says: results, written to memory that was
// full of NaN, are compared with the definition in f64.
//
// The standard is absolute: a variant is never compared with another one. If the whole result is too much
// work for the reference, the first and last rows and random ones between them are compared. This finds what
// goes wrong in practice: all rows of a tile run through the same code, tiles that are missing or misplaced
// leave NaN or wrong rows, of which the sample is very likely to have one, and the edges are always in the
// sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/base/tolerance.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/tune/reference/element.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// Rows of a result that are examined, rising.
class row_sample {
 public:
  /// All of `count` rows where they are at most `most`; else the first, the last, and random ones.
  row_sample(std::int64_t count, std::int64_t most, std::uint64_t seed) : count_{count} {
    if (count <= most) {
      for (std::int64_t i = 0; i < count; ++i) rows_.push_back(i);
      return;
    }
    rows_ = {0, count - 1};
    std::mt19937_64 generator{seed};
    std::uniform_int_distribution<std::int64_t> any{0, count - 1};
    while (static_cast<std::int64_t>(rows_.size()) < most) rows_.push_back(any(generator));
    std::sort(rows_.begin(), rows_.end());
    rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  }

  [[nodiscard]] const std::vector<std::int64_t>& rows() const noexcept { return rows_; }
  [[nodiscard]] bool has(std::int64_t row) const {
    return all() || std::binary_search(rows_.begin(), rows_.end(), row);
  }
  [[nodiscard]] bool all() const noexcept { return static_cast<std::int64_t>(rows_.size()) == count_; }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

 private:
  std::int64_t count_;
  std::vector<std::int64_t> rows_;
};

using switchyard::arithmetic_error;
using switchyard::smallest_of;
using switchyard::unit_of;

/// Where a type has no finite value left: what is larger in magnitude rounds to infinity.
[[nodiscard]] inline double overflow_of(dtype type) {
  return type == dtype::f16    ? 65520
         : type == dtype::bf16 ? 0x1.ffp127
         : type == dtype::f32  ? 0x1.ffffffp127
                               : HUGE_VAL;
}

/// What a call must write: values, and how far each may be off.
class expectation {
 public:
  struct value {
    std::int64_t index;  ///< in elements
    double wanted;
    double allowed;
  };
  struct result {
    std::string name;
    const void* address;  ///< of the host copy
    dtype type;
    std::vector<value> values;

    void want(std::int64_t index, double wanted, double allowed) {
      values.push_back({index, wanted, allowed});
    }
  };

  /// The result at an address of the host copies.
  [[nodiscard]] result& of(std::string name, const void* address, dtype type) {
    results_.push_back({std::move(name), address, type, {}});
    return results_.back();
  }
  [[nodiscard]] const std::deque<result>& results() const noexcept { return results_; }

  /// Brings the values of each result into the order of memory.
  void sort() {
    for (result& judged : results_) {
      std::sort(judged.values.begin(), judged.values.end(),
                [](const value& a, const value& b) { return a.index < b.index; });
    }
  }

 private:
  std::deque<result> results_;  // references to them stay valid
};

/// The tensors of a call on the host, as they are before it.
class host_copies {
 public:
  explicit host_copies(const tensors& of) {
    for (const tensors::tensor& written : of.all()) {
      copies_.push_back({written.data(), written.initial()});
    }
  }

  /// Where the host copy of something in device memory is; null for null. Pointers into no tensor stay.
  [[nodiscard]] const void* translate(const void* address) const noexcept {
    for (const copy& kept : copies_) {
      const auto* const at = static_cast<const std::byte*>(address);
      if (address != nullptr && !std::less<>{}(at, kept.device) &&
          std::less<>{}(at, kept.device + kept.bytes.size())) {
        return kept.bytes.data() + (at - kept.device);
      }
    }
    return address;
  }

  /// The same arguments, with every pointer field leading to the host copies.
  template <operator_type Operator>
  [[nodiscard]] typename Operator::arguments translated(typename Operator::arguments arguments) const {
    auto* const bytes = reinterpret_cast<std::byte*>(&arguments);
    for (const field_description& field : describe<Operator>().fields) {
      if (field.kind != value_kind::pointer) continue;
      const void* address = nullptr;
      std::memcpy(&address, bytes + field.offset, sizeof address);
      address = translate(address);
      std::memcpy(bytes + field.offset, &address, sizeof address);
    }
    return arguments;
  }

  /// Which tensor an address of a host copy is in, and how many bytes from its beginning.
  [[nodiscard]] std::pair<std::size_t, std::size_t> find(const void* address) const {
    const auto* const at = static_cast<const std::byte*>(address);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const std::byte* const begin = copies_[i].bytes.data();
      if (!std::less<>{}(at, begin) && std::less<>{}(at, begin + copies_[i].bytes.size()))
        return {i, static_cast<std::size_t>(at - begin)};
    }
    throw call_error{error_code::invalid_argument,
                     "an expected result lies in no tensor of the call: its workload passes another address"};
  }

  [[nodiscard]] const std::vector<std::byte>& bytes(std::size_t tensor) const {
    return copies_[tensor].bytes;
  }

 private:
  struct copy {
    const std::byte* device;
    std::vector<std::byte> bytes;
  };
  std::vector<copy> copies_;
};

/// What results hold before a run. A kernel may depend on none of it: one that computes only where it finds
/// NaN is right on NaN alone.
enum class old_content {
  nan,
  finite,   ///< the byte 0x3c: a small number in every type
  earlier,  ///< the latest right result, moved by half its length, as another call would have left it
};

/// Judges runs of one call.
class judge {
 public:
  judge(tensors& call, host_copies copies, expectation wanted)
      : call_{call}, copies_{std::move(copies)}, wanted_{std::move(wanted)} {
    wanted_.sort();
    written_.resize(call_.all().size());
    for (const expectation::result& expected : wanted_.results()) {
      places_.push_back(copies_.find(expected.address));
      written_[places_.back().first] = true;
    }
    earlier_.resize(written_.size());
    originals_.resize(written_.size());
    for (std::size_t i = 0; i < written_.size(); ++i) {
      const tensors::tensor& tensor = call_.all()[i];
      if (!written_[i] || tensor.is_result() || tensor.bytes == 0) continue;
      try {
        originals_[i] = device_buffer{call_.driver(), tensor.bytes};
        originals_[i].upload(copies_.bytes(i).data(), tensor.bytes);
      } catch (const driver_error&) {
        originals_[i] = {};  // no memory left: from the host each time
      }
    }
  }

  /// Fills results with their old content, and what is changed in place with its values, as before the first
  /// run. Where no earlier result is kept, NaN takes its place.
  void reset(old_content old = old_content::nan) {
    largest_error_ = 0;
    for (std::size_t i = 0; i < call_.all().size(); ++i) {
      tensors::tensor& tensor = call_.all()[i];
      if (tensor.is_result()) {
        if (old == old_content::earlier && !earlier_[i].empty()) {
          tensor.upload(earlier_[i].data());
        } else {
          tensor.fill(old == old_content::finite ? 0x3c : 0xff);
        }
      } else if (written_[i]) {
        const void* const from = originals_[i].bytes() > 0 ? originals_[i].data() : copies_.bytes(i).data();
        tensor.upload(from);
      }
      tensor.fill_margins();
    }
  }

  /// Keeps the results of a right run as old content.
  void keep_results() {
    for (std::size_t i = 0; i < call_.all().size(); ++i) {
      const tensors::tensor& tensor = call_.all()[i];
      if (!tensor.is_result() || tensor.bytes == 0 || tensor.bytes > max_compared_input) continue;
      earlier_[i].resize(tensor.bytes);
      tensor.download(earlier_[i].data(), tensor.bytes);
      const auto size = static_cast<std::size_t>(size_of(tensor.type));
      const std::size_t half = tensor.bytes / size / 2 * size;
      std::rotate(earlier_[i].begin(), earlier_[i].begin() + static_cast<std::ptrdiff_t>(half),
                  earlier_[i].end());
    }
  }

  /// Allows only so much of each value's tolerance from now on: what a variant's manifest states.
  void hold_to(double max_error) noexcept { max_error_ = max_error; }

  /// Distinguishes runs whose compared values have different bits. Memory between rows does not count.
  [[nodiscard]] std::size_t bits() const {
    std::string all;
    for (std::size_t i = 0; i < wanted_.results().size(); ++i) {
      const expectation::result& result = wanted_.results()[i];
      for_each_piece(result, places_[i], [&](const std::byte* piece, std::size_t begin, std::size_t end) {
        const auto size = static_cast<std::size_t>(size_of(result.type));
        for (std::size_t at = begin; at < end; ++at) {
          const auto offset = static_cast<std::size_t>(result.values[at].index - result.values[begin].index);
          all.append(reinterpret_cast<const char*>(piece + offset * size), size);
        }
      });
    }
    return std::hash<std::string>{}(all);
  }

  /// The largest error of a value since reset(), as a share of what is allowed there.
  [[nodiscard]] double largest_error() const noexcept { return largest_error_; }

  /// What is wrong after a run; empty when nothing is.
  [[nodiscard]] std::string verdict() {
    for (std::size_t i = 0; i < wanted_.results().size(); ++i) {
      std::string wrong = compare(wanted_.results()[i], places_[i]);
      if (!wrong.empty()) return wrong;
    }
    for (std::size_t i = 0; i < call_.all().size(); ++i) {
      const tensors::tensor& tensor = call_.all()[i];
      std::vector<std::uint8_t> margin(tensor.before);
      const auto touched = [](std::uint8_t byte) { return byte != tensors::margin_byte; };
      tensor.memory.download(margin.data(), margin.size());
      if (const auto bad = std::find_if(margin.rbegin(), margin.rend(), touched); bad != margin.rend()) {
        return "writes before the beginning of a tensor of " + std::to_string(tensor.bytes) + " bytes, " +
               std::to_string(bad - margin.rbegin() + 1) + " bytes before it";
      }
      tensor.download(margin.data(), margin.size(), tensor.bytes);
      const auto bad = std::find_if(margin.begin(), margin.end(), touched);
      if (bad != margin.end()) {
        return "writes past the end of a tensor of " + std::to_string(tensor.bytes) + " bytes, " +
               std::to_string(bad - margin.begin()) + " bytes behind it";
      }
      if (written_[i] || tensor.is_result() || tensor.bytes == 0 || tensor.bytes > max_compared_input)
        continue;
      std::vector<std::byte> now(tensor.bytes);
      tensor.download(now.data(), now.size());
      // Vectors of std::byte are compared a byte at a time.
      if (std::memcmp(now.data(), copies_.bytes(i).data(), now.size()) != 0) {
        return "changes an input, a tensor of " + std::to_string(tensor.bytes) + " bytes";
      }
    }
    return {};
  }

  [[nodiscard]] std::size_t values() const {
    std::size_t out = 0;
    for (const auto& expected : wanted_.results()) out += expected.values.size();
    return out;
  }

 private:
  static constexpr std::size_t max_compared_input = std::size_t{8} << 20U;
  static constexpr std::size_t largest_gap = std::size_t{64} << 10U;

  /// Downloads the pieces that hold wanted values, whole where they lie close together. `visit` gets a piece,
  /// and which of the values it begins and ends with.
  template <class Visitor>
  void for_each_piece(const expectation::result& result, const std::pair<std::size_t, std::size_t>& place,
                      const Visitor& visit) const {
    const tensors::tensor& from = call_.all()[place.first];
    const auto size = static_cast<std::size_t>(size_of(result.type));
    const std::vector<expectation::value>& order = result.values;
    const auto at = [&](std::size_t i) {
      return place.second + static_cast<std::size_t>(order[i].index) * size;
    };
    std::vector<std::byte> piece;
    for (std::size_t begin = 0; begin < order.size();) {
      std::size_t end = begin + 1;
      while (end < order.size() && at(end) - at(end - 1) <= largest_gap) ++end;
      piece.resize(at(end - 1) - at(begin) + size);
      from.download(piece.data(), piece.size(), at(begin));
      visit(piece.data(), begin, end);
      begin = end;
    }
  }

  [[nodiscard]] std::string compare(const expectation::result& result,
                                    const std::pair<std::size_t, std::size_t>& place) {
    const std::vector<expectation::value>& order = result.values;
    std::size_t wrong = 0;
    std::string worst;
    double worst_share = max_error_;
    for_each_piece(result, place, [&](const std::byte* piece, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const double found = reference::load(result.type, piece, order[i].index - order[begin].index);
        double share = std::abs(found - order[i].wanted) / order[i].allowed;
        if (found == order[i].wanted) share = 0;
        if (std::isinf(found) && (found > 0) == (order[i].wanted > 0) &&
            std::abs(order[i].wanted) + order[i].allowed >= overflow_of(result.type))
          share = 0;
        if (std::isnan(share)) share = HUGE_VAL;
        largest_error_ = std::max(largest_error_, share);
        if (share <= max_error_) continue;
        ++wrong;
        if (share > worst_share) {
          worst_share = share;
          worst = "element " + std::to_string(order[i].index) + " is " + shown(found) + " where " +
                  shown(order[i].wanted) + " belongs, within " + shown(max_error_ * order[i].allowed);
        }
      }
    });
    if (wrong == 0) return {};
    return result.name + ": " + std::to_string(wrong) + " of " + std::to_string(order.size()) +
           " compared values are wrong; " + worst;
  }

  [[nodiscard]] static std::string shown(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-infinity" : "infinity";
    char digits[32];  // NOLINT(modernize-avoid-c-arrays): for snprintf
    const int length = __builtin_snprintf(digits, sizeof digits, "%.7g", value);
    return {digits, static_cast<std::size_t>(length > 0 ? length : 0)};
  }

  tensors& call_;
  host_copies copies_;
  expectation wanted_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::vector<bool> written_;
  std::vector<std::vector<std::byte>> earlier_;  ///< by tensor
  std::vector<device_buffer> originals_;         ///< on the device, of tensors that are changed in place
  double max_error_ = 1;
  double largest_error_ = 0;
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
