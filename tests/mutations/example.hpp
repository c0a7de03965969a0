// SPDX-License-Identifier: MIT
// What test_mutations.py mutates: one of each kind, and what must stay as it is.
#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>

namespace example {

struct plain {
  int begins_with = 0;  // stays
  friend bool operator==(const plain&, const plain&) = default;
};

template <int Size = 4>
struct fixed {
  static constexpr int twice = Size * 2;  // stays
  static_assert(Size > 1);                // stays
  std::array<int, Size + 1> values{};     // stays
};

constexpr int clamp(int value, int most) noexcept(sizeof(int) == 4) {
  if constexpr (sizeof(int) == 4 && true) {
    return std::min(value, most);
  }
  return value;
}
static_assert(clamp(7, 3) == 3);  // still a constant

template <class Value, bool IsTwice>
class stepper {
 public:
  [[nodiscard]] static Value taken(Value from) { return by<2>(from); }  // stays

 private:
  template <int By>
  [[nodiscard]] static Value by(Value from) {
    return from + By;
  }
};
inline int twice_more(int value) {
  return stepper<int, true>::taken(value);  // stays
}

inline bool is_between(int value, int first, int last) {
  return value >= first && value <= last;
}

inline int sum_below(int end) {
  int sum = 0;
  for (int i = 1; i < end; ++i) {
    if (i == 3) continue;
    sum += i;
  }
  if (sum < 0) throw std::runtime_error{"negative"};
  return sum;
}

inline int letter(char c) {
  switch (c) {
    case 'a':  // stays
      return 1;
    default:
      return 0;
  }
}

}  // namespace example
