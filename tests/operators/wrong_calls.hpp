// SPDX-License-Identifier: MIT
// Calls that are changed at random, in memory that holds exactly what they say that they have: what is
// accepted may touch nothing else.
//
// Each tensor ends where a page that cannot be read begins, and inputs cannot be written. Large strides are
// real: memory is reserved, and only what is touched is there.
#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <switchyard/switchyard.hpp>

namespace switchyard::test {

__extension__ using wide = __int128;  // products of extents and strides overflow nowhere

/// A tensor of a call: what it spans, as its arguments say.
struct spanned {
  const void* const* address;
  std::int64_t bytes;                                       ///< of an element
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  ///< extents and strides
  bool is_written = false;
  const void* const* same = nullptr;  ///< another argument that is the same tensor

  /// Bytes from the first to the last element; negative where they are more than a program can have.
  [[nodiscard]] std::int64_t span() const {
    for (const auto& [extent, stride] : dims) {
      if (extent <= 0) return 0;
    }
    std::int64_t last = 0;
    for (const auto& [extent, stride] : dims) {
      const wide far = static_cast<wide>(extent - 1) * (stride < 0 ? 0 : stride);
      if (far >= wide{1} << 47U) return -1;
      last += static_cast<std::int64_t>(far);
    }
    return static_cast<std::int64_t>(last + 1) * bytes;
  }
};

/// Numbers that a tensor of indices holds, by the name of its argument.
using index_numbers = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

/// What is being called, for the message of a crash.
inline std::array<char, 8192> current_call{};

inline void name_current_call() {
  (void)!::write(2, "\nthe call was: ", 15);
  (void)!::write(2, current_call.data(), std::strlen(current_call.data()));
  (void)!::write(2, "\n", 1);
}
inline void report_crash(int number) {
  name_current_call();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// The memory of one call.
class exact_memory {
 public:
  exact_memory() = default;
  exact_memory(const exact_memory&) = delete;
  exact_memory& operator=(const exact_memory&) = delete;
  ~exact_memory() {
    for (const auto& [address, bytes] : mapped_) ::munmap(address, bytes);
  }

  /// A place for `bytes` bytes before a page that cannot be touched, whose address keeps its last bits. Null
  /// where the system has no room.
  [[nodiscard]] std::byte* take(std::size_t bytes, std::uintptr_t like, bool is_written,
                                const std::vector<std::byte>& content) {
    constexpr std::size_t page = 4096;
    constexpr std::uintptr_t kept = 15;
    const std::size_t inner = (bytes + 2 * kept + page - 1) / page * page;
    void* const all = ::mmap(nullptr, inner + 2 * page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    mapped_.emplace_back(all, inner + 2 * page);
    auto* const begin = static_cast<std::byte*>(all) + page;
    std::byte* data = begin + inner - bytes;
    data -= (reinterpret_cast<std::uintptr_t>(data) - like) & kept;
    if (!content.empty()) std::memcpy(data, content.data(), std::min(content.size(), bytes));
    ::mprotect(all, page, PROT_NONE);
    ::mprotect(begin + inner, page, PROT_NONE);
    if (!is_written) ::mprotect(begin, inner, PROT_READ);
    return data;
  }

 private:
  std::vector<std::pair<void*, std::size_t>> mapped_;
};

/// How the sweep of an operator went.
struct sweep_counts {
  std::size_t accepted = 0;
  std::size_t refused = 0;
  std::size_t not_run = 0;  ///< too large, or too long, to be run
};

/// On another backend than the host's, the driver is a stand-in that runs no kernel: calls are checked,
/// planned and launched, and need no memory.
///
/// `Legal` makes a legal call: arguments, with addresses that only tell their alignment, and numbers.
/// `Tensors` lists its tensors.
template <class Operator>
class wrong_calls {
 public:
  using arguments = typename Operator::arguments;
  struct call {
    arguments a;
    index_numbers numbers;
  };

  wrong_calls(catalog& from, const device& on)
      : on_{from, on}, has_memory_{on.properties().backend == "host"} {}

  template <class Legal, class Tensors>
  sweep_counts run(std::uint32_t trials, std::mt19937_64& random, const Legal& legal,
                   const Tensors& tensors) {
    sweep_counts out;
    // A device may have kernels of some element types alone.
    for (int i = 0; out.accepted == 0 && i < (has_memory_ ? 1 : 50); ++i) {
      call first = legal(random);
      attempt(first, tensors, out);
      if (out.accepted == 0 && (has_memory_ || !refusal_.starts_with("[switchyard.302]")))
        throw std::runtime_error{std::string{Operator::name} + ": the legal call is refused: " + refusal_};
    }
    if (out.accepted == 0) return {};
    tell_apart(10 * trials, random, legal);
    for (std::uint32_t i = 0; i < trials / 10; ++i) misalign(legal(random), tensors);
    for (std::uint32_t i = 0; i < trials; ++i) {
      call given = legal(random);
      const auto changes = 1 + random() % 2;
      for (std::uint64_t change = 0; change < changes; ++change) mutate(given, random);
      attempt(given, tensors, out);
    }
    return out;
  }

 private:
  /// No illegal call has the problem of a legal one: the plan of that one would be launched, since check()
  /// sees only calls whose problem is new.
  template <class Legal>
  void tell_apart(std::uint32_t trials, std::mt19937_64& random, const Legal& legal) {
    std::map<problem_of<Operator>, std::string> seen;  // with what check() said
    for (std::uint32_t i = 0; i < trials; ++i) {
      call given = legal(random);
      for (std::uint64_t changes = random() % 4; changes > 0; --changes) mutate(given, random);
      const std::string refused = Operator::check(given.a);
      const auto [known, is_new] = seen.emplace(make_problem<Operator>(given.a), refused);
      if (is_new || known->second.empty() == refused.empty()) continue;
      describe_call(given);
      fail("legal and illegal calls have one problem, of which check() says: " + known->second + refused);
    }
  }

  /// Half an element is added to each tensor's address in turn. That is refused, also after the same problem
  /// was served: then only alignment() looks at the address.
  template <class Tensors>
  void misalign(const call& given, const Tensors& tensors) {
    for (std::size_t i = 0; i < tensors(given.a, given.numbers).size(); ++i) {
      call moved = given;
      const spanned tensor = tensors(moved.a, moved.numbers)[i];
      if (*tensor.address == nullptr || tensor.bytes == 1) continue;
      const auto address =
          reinterpret_cast<std::uintptr_t>(*tensor.address) + static_cast<std::uintptr_t>(tensor.bytes) / 2;
      // const only in the list: the arguments are this call's own.
      std::memcpy(const_cast<const void**>(tensor.address), &address,
                  sizeof address);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      describe_call(moved);
      if (Operator::check(moved.a).empty()) fail("a tensor that is not aligned to its elements is accepted");
      if constexpr (requires { moved.a.alignment(), size_of(moved.a.dtype); }) {
        constexpr bool has_other_alignment = requires {
          moved.a.weight_alignment();
        }
        || requires {
          moved.a.table_alignment();
        };
        if (!has_other_alignment && moved.a.alignment() >= size_of(moved.a.dtype))
          fail("after the same problem was served, a tensor that is not aligned to its elements is accepted");
      }
    }
  }

  static void mutate(call& given, std::mt19937_64& random) {
    const auto fields = describe<Operator>().fields;
    if (!given.numbers.empty() && random() % 3 == 0) {
      auto of = given.numbers.begin();
      std::advance(of, static_cast<std::ptrdiff_t>(random() % given.numbers.size()));
      constexpr std::array<std::int64_t, 9> values{-1,        0,         1,         7,        99,
                                                   INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
      if (!of->second.empty()) of->second[random() % of->second.size()] = values[random() % values.size()];
      return;
    }
    const field_description& field = fields[random() % fields.size()];
    std::byte* const at = reinterpret_cast<std::byte*>(&given.a) + field.offset;
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
    const auto any_of = [&random](const auto& values) { return values[random() % values.size()]; };
    switch (field.kind) {
      case value_kind::pointer: {
        std::uintptr_t address = 0;
        std::memcpy(&address, at, sizeof address);
        if (address != 0)
          put(any_of(std::array<std::uintptr_t, 5>{0, address + 1, address + 2, address + 4, address + 8}));
        return;
      }
      case value_kind::i64: {
        std::int64_t value = 0;
        std::memcpy(&value, at, sizeof value);
        const std::int64_t below = value > INT64_MIN ? value - 1 : value;
        const std::int64_t above = value < INT64_MAX ? value + 1 : value;
        constexpr std::int64_t one = 1;
        put(any_of(std::array<std::int64_t, 16>{-1, -2, 0, 1, below, above, 3, 8, 40, INT32_MAX, one << 31U,
                                                one << 32U, one << 40U, one << 62U, INT64_MAX, INT64_MIN}));
        return;
      }
      case value_kind::i32:
        put(any_of(std::array<std::int32_t, 10>{-1, -2, 0, 1, 2, 3, 7, 100, INT32_MAX, INT32_MIN}));
        return;
      case value_kind::f32: {
        using limits = std::numeric_limits<float>;
        put(any_of(std::array<float, 10>{limits::quiet_NaN(), limits::infinity(), -limits::infinity(), -1.0F,
                                         -0.0F, 0.0F, 0.5F, 1.0F, 1e38F, 1e-40F}));
        return;
      }
      case value_kind::u64:
        put(std::uint64_t{random()});
        return;
      default:  // a bool
        put(static_cast<std::uint8_t>(random() % 2));
        return;
    }
  }

  template <class Tensors>
  void attempt(call& given, const Tensors& tensors, sweep_counts& out) {
    describe_call(given);
    if (!has_memory_) return launch(given, Operator::check(given.a), out);
    std::vector<spanned> all = tensors(given.a, given.numbers);
    exact_memory memory;
    bool is_possible = true;
    bool is_placed = true;
    bool has_numbers = true;
    wide work = 1;
    for (const spanned& tensor : all) {
      if (*tensor.address == nullptr) continue;
      wide elements = 1;
      for (const auto& [extent, stride] : tensor.dims)
        elements *= extent > 0 && elements < (wide{1} << 60U) ? extent : 1;
      work = std::max(work, elements);
      const std::int64_t span = tensor.span();
      is_possible = is_possible && span >= 0;
      // A pointer that is no multiple of its elements is never followed: the place does not matter.
      const auto like = reinterpret_cast<std::uintptr_t>(*tensor.address);
      std::byte* const data = span < 0 || span > largest
                                  ? nullptr
                                  : memory.take(static_cast<std::size_t>(span), like, tensor.is_written,
                                                content_of(tensor, given, static_cast<std::size_t>(span)));
      is_placed = is_placed && data != nullptr;
      has_numbers = has_numbers && (data != nullptr || !holds_numbers(tensor, given));
      // const only in the list: the arguments are this call's own.
      if (data == nullptr) continue;
      *const_cast<const void**>(tensor.address) = data;  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      if (tensor.same != nullptr)
        *const_cast<const void**>(tensor.same) = data;  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }
    std::string refused = Operator::check(given.a);
    if (refused.empty() && (!is_placed || work > max_work)) {
      // No test can have this memory, or this time. What no program can have is refused.
      if (!is_possible && has_numbers) {
        refused = Operator::check_memory(given.a);
        if (refused.empty()) fail("accepted, though no memory holds it");
      }
      ++out.not_run;
      return;
    }
    launch(given, refused, out);
  }

  void launch(const call& given, const std::string& refused, sweep_counts& out) {
    ::alarm(seconds);
    try {
      on_({}, given.a);
      ++out.accepted;
      if (!refused.empty()) fail("accepted, though check() says: " + refused);
    } catch (const error& problem) {
      refusal_ = problem.what();
      if (!refusal_.starts_with("[switchyard.")) fail("an error without a number: " + refusal_);
      ++out.refused;
    }
    ::alarm(0);
  }

  [[nodiscard]] index_numbers::const_iterator numbers_of(const spanned& of, const call& given) const {
    const auto offset = static_cast<std::uint32_t>(reinterpret_cast<const std::byte*>(of.address) -
                                                   reinterpret_cast<const std::byte*>(&given.a));
    for (const field_description& field : describe<Operator>().fields) {
      if (field.offset == offset) return given.numbers.find(field.name);
    }
    return given.numbers.end();
  }
  [[nodiscard]] bool holds_numbers(const spanned& of, const call& given) const {
    return numbers_of(of, given) != given.numbers.end();
  }

  /// The numbers of a tensor of indices, as bytes; zeros lie behind the last.
  [[nodiscard]] std::vector<std::byte> content_of(const spanned& of, const call& given,
                                                  std::size_t most) const {
    const auto found = numbers_of(of, given);
    if (found == given.numbers.end()) return {};
    const auto size = static_cast<std::size_t>(of.bytes);
    std::vector<std::byte> out(std::min(found->second.size() * size, most / size * size));
    for (std::size_t i = 0; i * size < out.size(); ++i)
      std::memcpy(out.data() + i * size, &found->second[i], size);
    return out;
  }

  void describe_call(const call& given) {
    const auto* const base = reinterpret_cast<const std::byte*>(&given.a);
    std::string text{Operator::name};
    for (const field_description& field : describe<Operator>().fields) {
      std::int64_t value = 0;
      std::memcpy(&value, base + field.offset, size_of(field.kind));
      if (field.kind == value_kind::i32) value = static_cast<std::int32_t>(value);
      text += " " + std::string{field.name} + "=" + std::to_string(value);
    }
    for (const auto& [name, values] : given.numbers) {
      text += " " + name + "={";
      for (const std::int64_t value : values) text += std::to_string(value) + ",";
      text += "}";
    }
    std::snprintf(current_call.data(), current_call.size(), "%s", text.c_str());
  }

  [[noreturn]] static void fail(const std::string& what) {
    throw std::runtime_error{what + "; the call was: " + current_call.data()};
  }

  static constexpr std::int64_t largest = std::int64_t{1} << 36U;
  static constexpr std::int64_t max_work = std::int64_t{1} << 20U;
  static constexpr unsigned seconds = 20;

  dispatcher<Operator> on_;
  bool has_memory_;  ///< whether kernels run, and touch what the call names
  std::string refusal_;
};

}  // namespace switchyard::test
