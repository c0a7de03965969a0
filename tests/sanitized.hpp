// SPDX-License-Identifier: MIT
// Whether this is built with a sanitizer, which makes everything many times slower.
#pragma once

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SWITCHYARD_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SWITCHYARD_TEST_SANITIZED 1
#endif
#endif

namespace test {

#ifdef SWITCHYARD_TEST_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// How many there are of something whose number must only be large: with a sanitizer, a tenth.
template <class Count>
[[nodiscard]] constexpr Count at_scale(Count count) {
  return sanitized ? count / 10 : count;
}

}  // namespace test
