// SPDX-License-Identifier: MIT
// Binds tensors of which a check has found that they may disagree, and says in which dimension or type they
// do. One function for all operators: bind_views.hpp has the fast way, which is compiled for each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensors/view.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// Where the arguments of a dimension are.
struct dim_place {
  void* extent = nullptr;          ///< an integer of extent_bytes; null: the extent is no argument
  std::int64_t* stride = nullptr;  ///< null: dense
  std::size_t extent_bytes = 0;    ///< 4 or 8
};

/// Where the arguments of a tensor are.
struct view_place {
  void* pointer = nullptr;            ///< a pointer
  switchyard::dtype* type = nullptr;  ///< null: the element type is no argument
  std::array<dim_place, max_rank> dims{};
};

/// Writes what tensors say into arguments, whether they agree or not, and returns what is wrong with them;
/// empty where nothing is. `places` and `given` have one for each view.
[[nodiscard]] std::string bind_and_compare(std::span<const view_description> all,
                                           std::span<const view_place> places,
                                           std::span<const const_tensor> given, bool may_be_null);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/tensors/disagreement_impl.hpp>
#endif
