// SPDX-License-Identifier: MIT
// The options of an op, as its operator's header describes them (switchyard/call_options.hpp): their part of
// the schema, and their values from the dispatcher's stack. In this order, which callers give them in:
//
//   tensors            Tensor? name=None
//   values             as the default of the operator; an enumerator is its number
//   results            bool with_name=False: whether the op returns this tensor; not those that follow from
//                      other options (is_implied)
//
// What a header lists behind its results comes last, in the order there: so an option that is added at the
// end of the list leaves the others in their places.
//
// An operator that takes a block mask without its transposed lists has them behind it, for its gradient
// alone.
//
// An operator of pages also has `Tensor? block_table`. Seed and offset of dropout come from `dropout_state`.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <switchyard/call_options.hpp>
#include <switchyard/named_call.hpp>
#include <switchyard/operator.hpp>

#include "invocation.hpp"
#include "rows.hpp"
#include "stable.hpp"

namespace switchyard_torch {

/// The seed and offset of dropout: i64 [2] on the call's device, read by the kernel.
[[nodiscard]] inline const std::uint64_t* state_of(const invocation& call, const optional_tensor& state) {
  if (!state.has_value()) return nullptr;
  const switchyard::tensor view = call.view(*state, "dropout_state");
  if (!view.has(switchyard::dtype::i64, 1) || view.extent(0) != 2 || view.stride(0) != 1)
    refuse(call.op(), "dropout_state must be i64 [2]: the seed and the offset");
  return static_cast<const std::uint64_t*>(view.data());
}

/// What an option is in an op.
enum class option_role : std::uint8_t { tensor, value, result, none };

/// Whether a result follows from another option: residual_out from residual, a norm's mean from its rstd.
[[nodiscard]] constexpr bool is_implied(std::string_view name) {
  return name == "residual_out" || name == "mean";
}

template <class Option>
[[nodiscard]] constexpr option_role role_of() {
  using value = typename Option::value_type;
  if (is_implied(switchyard::detail::member_name<Option::member>())) return option_role::none;
  if (std::is_same_v<value, switchyard::tensor>) return option_role::result;
  if (Option::is_tensor || std::is_pointer_v<value>) return option_role::tensor;
  return std::is_unsigned_v<value> && !std::is_same_v<value, bool> ? option_role::none : option_role::value;
}

/// What PyTorch's users know an argument as.
[[nodiscard]] constexpr std::string_view torch_name(std::string_view name) {
  constexpr std::array<std::array<std::string_view, 2>, 8> renamed{{{"dbias", "grad_bias"},
                                                                    {"dlse", "grad_lse"},
                                                                    {"gamma", "weight"},
                                                                    {"gamma_offset", "weight_offset"},
                                                                    {"grad_gamma", "grad_weight"},
                                                                    {"beta", "bias"},
                                                                    {"grad_beta", "grad_bias"},
                                                                    {"rstd", "statistics"}}};
  for (const auto& [of_operator, of_torch] : renamed) {
    if (name == of_operator) return of_torch;
  }
  return name;
}

template <class Operator, class List = std::remove_cvref_t<decltype(Operator::described)>>
class op_options;

template <class Operator, class... Options>
class op_options<Operator, switchyard::option_list<Options...>> {
 public:
  using options_type =
      typename switchyard::detail::type_of_options<switchyard::option_list<Options...>>::type;
  static constexpr bool has_pages = requires(typename Operator::arguments a) { a.block_table; };

  /// ", Tensor? bias=None, ...": what the schema has behind the operands.
  [[nodiscard]] static std::string schema() {
    std::string out;
    visit_in_order([&out]<class Option, std::size_t>() {
      if constexpr (std::is_same_v<Option, pages>) {
        out += ", Tensor? block_table=None";
      } else if constexpr (std::is_same_v<Option, transposed_lists>) {
        for (const std::string_view name : for_gradient) out += ", Tensor? " + std::string{name} + "=None";
      } else {
        out += ", " + parameter<Option>();
      }
    });
    return out;
  }

  /// Takes them from the stack, where they begin.
  explicit op_options(const StableIValue* stack) {
    using torch::stable::detail::to;
    visit_in_order([&]<class Option, std::size_t Index>() {
      if constexpr (std::is_same_v<Option, pages>) {
        block_table = to<optional_tensor>(*stack++);
      } else if constexpr (std::is_same_v<Option, transposed_lists>) {
        for (std::size_t n = 0; n < for_gradient.size(); ++n) (void)to<optional_tensor>(*stack++);
      } else {
        using value = typename Option::value_type;
        constexpr bool is_result = std::is_same_v<value, switchyard::tensor>;
        if constexpr (is_result || std::is_same_v<value, bool>) {
          const bool given = to<bool>(*stack++);
          if constexpr (is_result) {
            wanted_[Index] = given;
          } else {
            values.*Option::member = given;
          }
        } else if constexpr (Option::is_tensor || std::is_pointer_v<value>) {
          tensors_[Index] = to<optional_tensor>(*stack++);
        } else if constexpr (std::is_floating_point_v<value>) {
          if (is_optional<Option>()) {
            const auto given = to<std::optional<double>>(*stack++);
            if (!given.has_value()) return;
            values.*Option::member = static_cast<value>(*given);
            if (switchyard::is_unset(values.*Option::member))  // a NaN, which stands for None
              refuse(Operator::name.data(), torch_text<Option>() + " must be a number, not nan");
          } else {
            values.*Option::member = static_cast<value>(to<double>(*stack++));
          }
        } else {
          const auto given = to<std::int64_t>(*stack++);
          values.*Option::member = static_cast<value>(given);
          if (static_cast<std::int64_t>(values.*Option::member) != given)
            refuse(Operator::name.data(),
                   torch_text<Option>() + " must fit 32 bits: it is " + std::to_string(given));
        }
      }
    });
  }

  /// Arguments of the op.
  [[nodiscard]] static constexpr std::size_t count() {
    return for_gradient.empty() ? in_order.count : in_order.count - 1 + for_gradient.size();
  }

  /// A tensor that was given.
  template <auto Member>
  [[nodiscard]] const optional_tensor& tensor() const noexcept {
    return tensors_[index_of<Member>()];
  }
  /// Whether a result is to be returned.
  template <auto Member>
  [[nodiscard]] bool wants() const noexcept {
    return wanted_[index_of<Member>()];
  }

  /// The options of the operator's call, without its results. Throws call_error for an enumerator that there
  /// is not. The views are valid as long as this is.
  [[nodiscard]] options_type bind(const invocation& call) {
    return bind_with(call, [&](optional_tensor& given, const char* name) {
      const switchyard::dtype type = call.type_of(*given, name);
      const bool is_index = type == switchyard::dtype::i32 || type == switchyard::dtype::i64;
      given = is_index ? with_dense_elements(*given) : with_dense_rows(*given);
      return call.view(*given, name);
    });
  }
  /// The same of an operator on rows, whose matrices are rows as the call's are.
  [[nodiscard]] options_type bind(const invocation& call, const rows& of) {
    return bind_with(call, [&](optional_tensor& given, const char* name) {
      given = of.fit(given, name);
      return of.view(given, name);
    });
  }

  options_type values{};  ///< those that are no tensors
  optional_tensor block_table;

 private:
  template <class View>
  [[nodiscard]] options_type bind_with(const invocation& call, const View& view_matrix) {
    options_type out = values;
    std::size_t index = 0;
    const auto bind_option = [&]<class Option>(Option /*of*/) {
      using value = typename Option::value_type;
      optional_tensor& given = tensors_[index++];
      constexpr std::string_view name = switchyard::detail::member_name<Option::member>();
      if constexpr (std::is_pointer_v<value>) {
        given = with_dense_rows(given);
        out.*Option::member = state_of(call, given);
      } else if constexpr (std::is_same_v<value, switchyard::const_tensor>) {
        if (!given.has_value()) return;
        const std::string torch = torch_text<Option>();
        if constexpr (Option::view::rank > 1) {
          out.*Option::member = view_matrix(given, torch.c_str());
        } else {
          given = with_dense_rows(*given);
          out.*Option::member = call.view(*given, torch.c_str());
        }
      } else if constexpr (std::is_enum_v<value>) {
        const auto& enumerators = switchyard::enumerator_names<value>;
        const auto number = static_cast<std::size_t>(out.*Option::member);
        if (number < enumerators.size()) return;
        std::string known;
        for (std::size_t i = 0; i < enumerators.size(); ++i) {
          known += i == 0 ? "" : i + 1 < enumerators.size() ? ", " : " or ";
          known += std::to_string(i) + " (" + std::string{enumerators[i]} + ")";
        }
        refuse(call.op(), std::string{name} + " must be " + known);
      }
    };
    (bind_option(Options{}), ...);
    return out;
  }

  static constexpr std::size_t size = sizeof...(Options);
  static constexpr std::array<std::string_view, size> names{
      switchyard::detail::member_name<Options::member>()...};
  struct pages {};
  struct transposed_lists {};
  /// Tensors that the call does not read: a block mask's transposed lists.
  static constexpr auto for_gradient = [] {
    constexpr bool is_masked = requires(options_type of) {
      of.kv_num_blocks;
    };
    constexpr bool is_transposed = requires(options_type of) {
      of.q_num_blocks;
    };
    if constexpr (is_masked && !is_transposed) {
      return std::array<std::string_view, 5>{"q_num_blocks", "q_indices", "q_bits", "full_q_num_blocks",
                                             "full_q_indices"};
    } else {
      return std::array<std::string_view, 0>{};
    }
  }();

  /// Indices of the options in the order of the schema; `size` stands for the pages, `size + 1` for
  /// transposed lists.
  struct sequence {
    std::array<std::size_t, size + 2> order{};
    std::size_t count = 0;
  };
  static constexpr sequence in_order = [] {
    constexpr std::array<option_role, size> roles{role_of<Options>()...};
    std::size_t first = 0;  // behind the first results
    while (first < size && roles[first] != option_role::result) ++first;
    while (first < size && roles[first] == option_role::result) ++first;
    sequence out;
    for (const option_role role : {option_role::tensor, option_role::value, option_role::result}) {
      for (std::size_t i = 0; i < first; ++i) {
        if (roles[i] != role) continue;
        out.order[out.count++] = i;
        if (has_pages && names[i] == "seqused_k") out.order[out.count++] = size;
      }
    }
    for (std::size_t i = first; i < size; ++i) {
      if (roles[i] != option_role::none) out.order[out.count++] = i;
      if (!for_gradient.empty() && names[i] == "mask_bits") out.order[out.count++] = size + 1;
    }
    return out;
  }();

  /// visit.operator()<Option, Index>() for each.
  template <class Visitor>
  static void visit_in_order(const Visitor& visit) {
    [&]<std::size_t... At>(std::index_sequence<At...>) {
      (visit.template
       operator()<std::tuple_element_t<in_order.order[At], std::tuple<Options..., pages, transposed_lists>>,
                  in_order.order[At]>(),
       ...);
    }
    (std::make_index_sequence<in_order.count>{});
  }

  template <auto Member>
  [[nodiscard]] static constexpr std::size_t index_of() {
    constexpr std::string_view name = switchyard::detail::member_name<Member>();
    std::size_t out = 0;
    while (names[out] != name) ++out;
    return out;
  }

  /// A float that is not set is None.
  template <class Option>
  [[nodiscard]] static bool is_optional() {
    return switchyard::is_unset(options_type{}.*Option::member);
  }

  /// An option's name in the schema.
  template <class Option>
  [[nodiscard]] static std::string torch_text() {
    return std::string{torch_name(switchyard::detail::member_name<Option::member>())};
  }

  /// An option as the schema has it.
  template <class Option>
  [[nodiscard]] static std::string parameter() {
    using value = typename Option::value_type;
    const std::string name = torch_text<Option>();
    if constexpr (std::is_same_v<value, switchyard::tensor>) {
      return "bool with_" + name + "=False";
    } else if constexpr (Option::is_tensor || std::is_pointer_v<value>) {
      return "Tensor? " + name + "=None";
    } else if constexpr (std::is_same_v<value, bool>) {
      return "bool " + name + (options_type{}.*Option::member ? "=True" : "=False");
    } else if constexpr (std::is_floating_point_v<value>) {
      if (is_optional<Option>()) return "float? " + name + "=None";
      std::array<char, 32> text{};
      const auto end = std::to_chars(text.data(), text.data() + text.size(), options_type{}.*Option::member);
      const std::string value_text{text.data(), end.ptr};
      return "float " + name + "=" + value_text +
             (value_text.find_first_of(".e") < value_text.size() ? "" : ".0");
    } else {
      return (sizeof(value) == 8 ? "SymInt " : "int ") + name + "=" +
             std::to_string(static_cast<std::int64_t>(options_type{}.*Option::member));
    }
  }

  std::array<optional_tensor, size> tensors_{};
  std::array<bool, size> wanted_{};
};

/// An op's kernel: Function(options, operands...), which returns a tuple of tensors.
template <class Operator, auto Function>
struct op_kernel;
template <class Operator, class... Operands, class... Results,
          std::tuple<Results...> (*Function)(op_options<Operator>&, const Operands&...)>
struct op_kernel<Operator, Function> {
  /// `operands` and `results` are those of Function.
  [[nodiscard]] static std::string schema(const char* name, const char* operands, const char* results) {
    return std::string{name} + "(" + operands + op_options<Operator>::schema() + ") -> (" + results + ")";
  }

  /// As the dispatcher calls it.
  static void run(StableIValue* stack, std::uint64_t arguments, std::uint64_t results) {
    using namespace torch::stable::detail;
    constexpr std::size_t operands = sizeof...(Operands);
    if (arguments != operands + op_options<Operator>::count() || results != sizeof...(Results))
      throw std::runtime_error{"switchyard: the schema of " + std::string{Operator::name} + " differs"};
    const auto given = unbox_to_tuple<Operands...>(stack);
    op_options<Operator> options{stack + operands};
    auto out = std::apply([&](const auto&... tensors) { return Function(options, tensors...); }, given);
    box_from_tuple<Results...>(stack, std::move(out));
  }
};

}  // namespace switchyard_torch
