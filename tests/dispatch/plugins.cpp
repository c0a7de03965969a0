// SPDX-License-Identifier: MIT
// Opens and closes a plug-in that includes the library: no thread of it may be left.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <iterator>
#include <thread>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  // A joined thread may be listed for a moment.
  const auto threads = [] {
    std::ptrdiff_t listed = 0;
    for (int i = 0; i < 5000 && listed != 1; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      listed = std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {});
    }
    return listed;
  };
  for (int i = 0; i < 100; ++i) {
    void* const plugin = ::dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::printf("%s\n", ::dlerror());  // NOLINT(concurrency-mt-unsafe): beside no other thread
      return 1;
    }
    const auto use = reinterpret_cast<int (*)()>(::dlsym(plugin, "use_switchyard"));
    // In a thread that ends: glibc keeps what has objects of a living thread loaded.
    int status = 1;
    if (use != nullptr) std::thread{[&] { status = use(); }}.join();
    if (status != 0) return 1;
    ::dlclose(plugin);
    if (threads() != 1) {
      std::printf("%d threads are left after plug-in %d was closed\n", static_cast<int>(threads() - 1), i);
      return 1;
    }
    if (::dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != nullptr) {
      std::printf("the plug-in stays loaded\n");
      return 1;
    }
  }
}
