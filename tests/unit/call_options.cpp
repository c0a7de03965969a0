// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <switchyard/call_options.hpp>
#include <switchyard/named_call.hpp>
#include <switchyard/operators/built_in.hpp>

using namespace switchyard;

namespace {

/// Visits each option of each built-in operator.
template <class Visitor>
void for_each_option(const Visitor& visit) {
  operators::built_in::for_each([&]<class Operator>() {
    if constexpr (requires { Operator::described; }) {
      Operator::described.for_each([&]<class Option>(std::string_view meaning) {
        visit.template operator()<Operator, Option>(meaning);
      });
    }
  });
}

/// Values that a rule refuses.
template <legal_values Rule, class Value>
[[nodiscard]] std::vector<Value> illegal_values() {
  if constexpr (Rule == legal_values::count_or_all) {
    return {Value{-2}, std::numeric_limits<Value>::min()};
  } else {
    std::vector<Value> out{std::numeric_limits<Value>::quiet_NaN(), std::numeric_limits<Value>::infinity(),
                           -std::numeric_limits<Value>::infinity()};
    if (Rule != legal_values::finite) out.push_back(Value{-0.5});
    if (Rule == legal_values::share) out.push_back(Value{1});
    return out;
  }
}

/// Arguments whose sizes and element types are legal.
template <class Operator>
[[nodiscard]] typename Operator::arguments sized() {
  typename Operator::arguments out{};
  Operator::fields.for_each([&]<auto Member>() {
    if constexpr (std::is_same_v<detail::member_value<Member>, std::int64_t>) out.*Member = 2;
  });
  if constexpr (requires { out.scale; }) {
    if (is_unset(out.scale)) out.scale = 1.0F;
  }
  if constexpr (requires { out.k_scale_stride; }) out.k_scale_stride = out.v_scale_stride = 0;
  if constexpr (requires { out.q_scale_stride; }) out.q_scale_stride = 0;
  if constexpr (requires { out.kv_dtype; }) out.kv_dtype = out.dtype = dtype::bf16;
  return out;
}

alignas(16) std::array<std::byte, 16> operand_memory;

/// The axis that is 0 for a call that check() must see, with addresses for the operands.
template <class Operator>
[[nodiscard]] std::int64_t aligned_at_every_call(typename Operator::arguments call) {
  Operator::operands.for_each([&]<auto Member>() {
    call.*Member = static_cast<detail::member_value<Member>>(static_cast<void*>(operand_memory.data()));
  });
  const operator_description& op = describe<Operator>();
  const auto axis = std::find_if(op.axes.begin(), op.axes.end(), [](const axis_description& described) {
    return described.name == "alignment";
  });
  return make_problem<Operator>(call)[static_cast<std::size_t>(axis - op.axes.begin())];
}

/// Reads nothing, and keeps what was asked for.
struct asking_reader {
  std::vector<std::string> names;
  bool has_all = false;

  [[nodiscard]] bool has(std::string_view /*name*/) const { return has_all; }
  [[nodiscard]] switchyard::tensor tensor(std::string_view name) {
    names.emplace_back(name);
    return {};
  }
  template <class Value>
  [[nodiscard]] Value value(std::string_view name, Value otherwise) {
    names.emplace_back(name);
    return otherwise;
  }
  [[nodiscard]] operators::weight_matrix weights(std::string_view name) {
    names.emplace_back(name);
    return {};
  }
};

}  // namespace

TEST_CASE("an option has the name, the type and the default of the argument that it sets") {
  for_each_option([]<class Operator, class Option>(std::string_view meaning) {
    const std::string_view name = detail::member_name<Option::member>();
    INFO(Operator::name << ", " << name);
    CHECK_FALSE(meaning.empty());
    if constexpr (Option::is_tensor) {
      CHECK(name == detail::member_name<Option::view::pointer>());
      CHECK(std::is_same_v<typename Option::value_type, typename Option::view::tensor_type>);
    } else if constexpr (detail::is_member<Option::argument>) {
      CHECK(name == detail::member_name<Option::argument>());
      const typename Operator::arguments arguments{};
      const detail::member_class<Option::member> options{};
      REQUIRE(std::is_same_v<typename Option::value_type, detail::member_value<Option::argument>>);
      CHECK(options.*Option::member == arguments.*Option::argument);
    }
  });
}

TEST_CASE("an option sets its argument, and no other") {
  for_each_option([]<class Operator, class Option>(std::string_view /*meaning*/) {
    if constexpr (!Option::is_tensor) {
      if constexpr (detail::is_member<Option::argument>) {
        INFO(Operator::name << ", " << detail::member_name<Option::member>());
        detail::member_class<Option::member> options{};
        std::memset(&(options.*Option::member), 1, sizeof(options.*Option::member));
        typename Operator::arguments arguments{};
        Operator::described.set(arguments, options);
        CHECK(std::memcmp(&(arguments.*Option::argument), &(options.*Option::member),
                          sizeof(options.*Option::member)) == 0);
        const typename Operator::arguments untouched{};
        Operator::fields.for_each([&]<auto Member>() {
          if (detail::member_name<Member>() != detail::member_name<Option::argument>())
            CHECK(std::memcmp(&(arguments.*Member), &(untouched.*Member), sizeof(untouched.*Member)) == 0);
        });
      }
    }
  });
}

TEST_CASE("an illegal value of an option is refused by its name, and marked at every call") {
  int refused = 0;
  for_each_option([&refused]<class Operator, class Option>(std::string_view /*meaning*/) {
    if constexpr (!Option::is_tensor) {
      if constexpr (Option::rule != legal_values::any) {
        using value = typename Option::value_type;
        const std::string name{detail::member_name<Option::member>()};
        auto arguments = sized<Operator>();
        CHECK(Operator::described.mark(arguments) >= 0);
        CHECK(Operator::described.wrong(arguments).empty());
        CHECK(aligned_at_every_call<Operator>(arguments) > 0);
        for (const value illegal : illegal_values<Option::rule, value>()) {
          INFO(Operator::name << ", " << name << " = " << illegal);
          arguments.*Option::argument = illegal;
          CHECK(Operator::described.mark(arguments) < 0);
          CHECK(aligned_at_every_call<Operator>(arguments) == 0);
          CHECK(Operator::described.wrong(arguments).find(name + " must be ") == 0);
          CHECK(Operator::check(arguments).find(name + " must be ") == 0);
          ++refused;
        }
      }
    }
  });
  CHECK(refused == 55);
}

TEST_CASE("a call by names asks for an operator's operands and options") {
  operators::built_in::for_each([]<class Operator>() {
    INFO(Operator::name);
    std::vector<std::string> asked;
    for (const bool has_all : {false, true}) {
      asking_reader in{{}, has_all};
      try {
        (void)call_named<Operator>(in);
      } catch (const call_error&) {  // no tensor was given
      }
      asked.insert(asked.end(), in.names.begin(), in.names.end());
    }
    const auto is_asked = [&asked](std::string_view name) {
      return std::find(asked.begin(), asked.end(), name) != asked.end();
    };
    Operator::operands.for_each([&]<auto Member>() {
      INFO(detail::member_name<Member>());
      CHECK(is_asked(detail::member_name<Member>()));
    });
    if constexpr (requires { Operator::described; }) {
      Operator::described.for_each([&]<class Option>(std::string_view /*meaning*/) {
        INFO(detail::member_name<Option::member>());
        CHECK(is_asked(detail::member_name<Option::member>()));
      });
    }
  });
}

TEST_CASE("built-in operators are in the order of their names, and their defaults name axes") {
  std::string_view last;
  operators::built_in::for_each([&last]<class Operator>() {
    INFO(Operator::name);
    CHECK(last < Operator::name);
    last = Operator::name;
    const operator_description& op = describe<Operator>();
    const auto has = [&op](std::string_view name) {
      return std::any_of(op.axes.begin(), op.axes.end(), [&](const auto& axis) { return axis.name == name; });
    };
    for (const axis_default& entry : op.axis_defaults) {
      CHECK(has(entry.axis));
      if (entry.value.starts_with('=')) CHECK(has(entry.value.substr(1)));
    }
  });
}
