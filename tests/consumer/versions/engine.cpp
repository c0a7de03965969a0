// SPDX-License-Identifier: MIT
// An engine that uses the library, opens a plug-in that uses another version, and uses both by turns.
#include <cstdio>
#include <dlfcn.h>

extern "C" int engine_part();

int main(int count, char** arguments) {
  if (count != 2 || engine_part() != 0) return 1;
  void* const plugin = ::dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
  if (plugin == nullptr) {
    std::puts(::dlerror());
    return 1;
  }
  const auto plugin_part = reinterpret_cast<int (*)()>(::dlsym(plugin, "plugin_part"));
  if (plugin_part == nullptr) return 1;
  return plugin_part() + engine_part() + plugin_part();
}
