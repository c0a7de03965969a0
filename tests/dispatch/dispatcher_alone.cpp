// SPDX-License-Identifier: MIT
// A file of an engine that is given a catalog: it includes the dispatcher's header and no other.
#include <switchyard/dispatcher.hpp>

namespace dispatcher_alone {

template <class Type>
concept complete = requires {
  sizeof(Type);
};
static_assert(!complete<switchyard::catalog>, "this file must not see the catalog's header");

/// Writes the number of the variant that ran.
struct solo {
  static constexpr std::string_view name = "solo";
  struct arguments {
    std::int32_t* out = nullptr;
    std::int64_t size = 0;
  };
  static constexpr auto fields = switchyard::fields<&arguments::out, &arguments::size>;
  static constexpr auto axes = switchyard::axes(switchyard::size_axis<&arguments::size>());
};

/// What dispatchers for one device and for every device write, added up.
std::int32_t sum_of_calls(switchyard::catalog& catalog, const switchyard::device& target) {
  switchyard::dispatcher<solo> for_one{catalog, target};
  switchyard::dispatcher<solo> for_every{catalog};
  std::int32_t first = 0;
  std::int32_t second = 0;
  for_one({}, {.out = &first, .size = 1});
  for_every({}, {.out = &second, .size = 1});
  return first + second;
}

}  // namespace dispatcher_alone
