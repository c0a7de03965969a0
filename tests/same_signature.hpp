// SPDX-License-Identifier: MIT
// Whether a function that the library declares is the function that the vendor's header declares.
#pragma once

#include <type_traits>

namespace switchyard::test {

/// Specialised where one of the library's types stands for another one of the vendor's.
template <class Ours, class Theirs>
struct counterpart : std::false_type {};

/// Whether two types are passed alike: the same, counterparts, integers or enumerations of one size, or
/// pointers to such.
template <class Ours, class Theirs>
constexpr bool equivalent() {
  if constexpr (std::is_same_v<Ours, Theirs> || counterpart<Ours, Theirs>::value) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using our_target = std::remove_pointer_t<Ours>;
    using their_target = std::remove_pointer_t<Theirs>;
    return std::is_const_v<our_target> == std::is_const_v<their_target> &&
           equivalent<std::remove_cv_t<our_target>, std::remove_cv_t<their_target>>();
  } else if constexpr ((std::is_integral_v<Ours> || std::is_enum_v<Ours>)&&(std::is_integral_v<Theirs> ||
                                                                            std::is_enum_v<Theirs>)) {
    if (sizeof(Ours) != sizeof(Theirs)) return false;
    if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>)
      return std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
    return true;
  } else {
    return false;
  }
}

template <class Ours, class Theirs>
struct same_signature : std::false_type {};

template <class Our, class... Ours, class Their, class... Theirs>
struct same_signature<Our (*)(Ours...), Their (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return equivalent<Our, Their>() && (equivalent<Ours, Theirs>() && ...);
    }
  }();
};

// The check itself can fail.
static_assert(!same_signature<int (*)(int), int (*)(long)>::value);
static_assert(!same_signature<int (*)(int), int (*)(int, int)>::value);
static_assert(!same_signature<int (*)(const int*), int (*)(int*)>::value);

}  // namespace switchyard::test
