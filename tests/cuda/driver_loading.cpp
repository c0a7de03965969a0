// SPDX-License-Identifier: MIT
// Modules and kernels of the cuda backend over the fake driver.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "driver_fixtures.hpp"
#include "thrown.hpp"

using namespace fake_cuda;
using sy::test::contains;
using sy::test::error_of;

TEST_CASE("loading") {
  const auto device = sy::cuda::open(0, fake_options());
  set_current(nullptr);
  const auto image = ptx();
  const int before = notes().modules;
  auto* const module = device->load(image, "text.ptx");
  CHECK(notes().modules == before + 1);
  CHECK(notes().load_mode == sy::cuda::capture::relaxed);  // other streams may be captured meanwhile
  CHECK(std::string{notes().image_text} == ".version 8.0\n.target sm_80\n");  // ends where it should
  CHECK(current() == nullptr);
  const auto missing = error_of([&] { (void)device->find(module, "absent"); });
  CHECK(missing.code() == sy::error_code::kernel_not_found);
  CHECK(contains(missing.what(), "text.ptx has no kernel 'absent'"));
  std::vector<sy::parameter_slot> slots(5);
  REQUIRE(device->parameters(device->find(module, "kernel"), slots));
  REQUIRE(slots.size() == 2);
  CHECK(slots[1].offset == 8);
  CHECK(slots[1].bytes == 4);
  device->unload(module);
  CHECK(notes().modules == before);
  device->unload(nullptr);

  const misbehaviour full{"full"};
  const auto memory = error_of([&] { (void)device->load(image, "text.ptx"); });
  CHECK(memory.code() == sy::error_code::out_of_memory);
}

TEST_CASE("the thread's capture mode is again what it was behind what may be done while others capture") {
  const auto table = entry_points();
  const auto device = device_over(table);
  const auto image = ptx();
  int mode = 1;  // of threads that capture by themselves
  REQUIRE(table->thread_exchange_stream_capture_mode(&mode) == 0);
  const int before = mode;
  auto* const module = device->load(image, "text.ptx");
  CHECK(notes().load_mode == sy::cuda::capture::relaxed);
  device->configure(device->find(module, "kernel"), {});
  device->unload(module);
  CHECK(table->thread_exchange_stream_capture_mode(&mode) == 0);
  CHECK(mode == 1);
  CHECK(before == 0);
  // A driver that refuses to change it is not asked to change it back.
  static int exchanges = 0;
  table->thread_exchange_stream_capture_mode = [](int*) { return ++exchanges; };
  device->unload(device->load(image, "text.ptx"));
  CHECK(exchanges == 2);
}

TEST_CASE("a kernel's parameters are those that the driver tells, if it does") {
  set_current(nullptr);
  const auto table = entry_points();
  const auto device = device_over(table);
  const loaded_kernel kernel{device};
  std::vector<sy::parameter_slot> slots(3);
  CHECK_FALSE(device->parameters(device->find(kernel.module, "untold"), slots));
  CHECK(slots.empty());
  CHECK(device->parameters(device->find(kernel.module, "take"), slots));
  CHECK(slots.empty());
  CHECK(device->parameters(device->find(kernel.module, "take_4_8_128"), slots));
  REQUIRE(slots.size() == 3);
  CHECK(slots[1].offset == 8);
  CHECK(slots[2].bytes == 128);
  table->func_get_param_info = [](CUfunc_st*, std::size_t, std::size_t*, std::size_t*) {
    return sy::cuda::result::out_of_memory;
  };
  table->func_get_name = [](const char** name, CUfunc_st*) {
    *name = "stale";
    return sy::cuda::result::invalid_value;
  };
  CHECK(contains(
      error_of([&] { (void)device->parameters(device->find(kernel.module, "kernel"), slots); }).what(),
      "Fake A: a kernel does not report its parameters"));
  table->func_get_name = nullptr;  // as with drivers before CUDA 12.3
  CHECK(contains(
      error_of([&] { (void)device->parameters(device->find(kernel.module, "kernel"), slots); }).what(),
      "Fake A: a kernel does not report its parameters: CUDA_ERROR_OF_SOME_KIND (2)"));
}

TEST_CASE("a blob that the driver refuses is named with the device and what the driver says of it") {
  set_current(nullptr);
  const auto table = entry_points();
  table->module_load_data_ex = [](CUmod_st**, const void*, unsigned count, int* names, void** values) {
    for (unsigned i = 0; i < count; ++i) {
      if (names[i] == sy::cuda::load_option::error_log)
        std::strcpy(static_cast<char*>(values[i]), "line 7: no such\n\ninstruction\n");
      if (names[i] == sy::cuda::load_option::info_log)
        std::strcpy(static_cast<char*>(values[i]), "for sm_90");
    }
    return 209;  // CUDA_ERROR_NO_BINARY_FOR_GPU
  };
  const auto device = device_over(table);
  const auto refused = error_of([&] { (void)device->load(ptx(), "text.ptx"); });
  CHECK(refused.code() == sy::error_code::blob_not_loadable);
  CHECK_THAT(std::string{refused.message()},
             Catch::Matchers::Equals(
                 "text.ptx: CUDA_ERROR_OF_SOME_KIND (209): as the fake has it; the device is sm_90 "
                 "(Fake A, CUDA 13.0); line 7: no such; instruction; for sm_90"));
  CHECK(current() == nullptr);
  const auto broken = error_of([&] { (void)device->load({}, "empty.ptx"); });
  CHECK(broken.code() == sy::error_code::blob_not_loadable);
  CHECK(contains(broken.what(), "empty.ptx: 0 bytes that are neither a whole cubin, nor a fatbin, nor PTX"));
}

TEST_CASE("a kernel's code is on the device once it is found, with drivers of every age") {
  set_current(nullptr);
  const auto table = entry_points();
  const auto device = device_over(table);
  const auto image = ptx();
  auto* const module = device->load(image, "text.ptx");
  table->func_load = [](CUfunc_st*) { return sy::cuda::result::out_of_memory; };
  const auto full = error_of([&] { (void)device->find(module, "kernel"); });
  CHECK(full.code() == sy::error_code::out_of_memory);
  CHECK(full.kind() == sy::failure_kind::transient);
  CHECK(contains(full.what(), "text.ptx: kernel 'kernel' cannot be loaded: CUDA_ERROR_OF_SOME_KIND (2)"));
  table->func_load = nullptr;  // before CUDA 12.4 asking for an attribute loads it
  static int asked = 0;
  table->func_get_attribute = [](int*, int, CUfunc_st*) {
    ++asked;
    return sy::cuda::result::success;
  };
  CHECK(device->find(module, "kernel") != nullptr);
  CHECK(asked == 1);
  table->func_get_attribute = [](int*, int, CUfunc_st*) { return 700; };
  CHECK(error_of([&] { (void)device->find(module, "kernel"); }).kind() == sy::failure_kind::context);
  table->module_get_function = [](CUfunc_st**, CUmod_st*, const char*) { return 700; };
  CHECK(error_of([&] { (void)device->find(module, "kernel"); }).code() == sy::error_code::driver_failed);
  device->unload(module);
}
