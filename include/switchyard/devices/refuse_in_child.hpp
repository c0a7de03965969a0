// SPDX-License-Identifier: MIT
// Disables a device library in a child of fork(): its context belongs to the parent, and using it in the
// child is undefined. The child's entry points are replaced by functions that fail, so calls in the parent
// pay for no check.
#pragma once

#include <string>
#include <type_traits>

#include <switchyard/threads/fork.hpp>

namespace switchyard {
inline namespace v0 {

/// What each entry point returns in a child of the process that opened the library.
inline constexpr int opened_before_fork = 1'000'001;

[[nodiscard]] inline std::string describe_fork(const char* library) {
  return std::string{library} +
         " was opened before fork(), and a child cannot use its parent's devices: open the device in the "
         "child "
         "alone, start the child by exec, or call the CPU";
}

namespace detail {

template <class Return, class... Parameters>
void set_refusing(Return (*&entry)(Parameters...)) noexcept {
  if (entry == nullptr) return;
  entry = [](Parameters...) -> Return {
    if constexpr (std::is_pointer_v<Return>) {
      return nullptr;
    } else {
      return static_cast<Return>(opened_before_fork);
    }
  };
}

}  // namespace detail

/// The entry points of a library, which refuse in a child. `Api` has a function for_each_entry.
template <class Api>
struct refusing_in_child : Api {
 private:
  static void refuse(void* object) noexcept {
    for_each_entry(*static_cast<Api*>(object),
                   [](auto& entry, const auto&... /*name*/) { detail::set_refusing(entry); });
  }

  fork_listener forks_{static_cast<Api*>(this), &refuse};
};

}  // namespace v0
}  // namespace switchyard
