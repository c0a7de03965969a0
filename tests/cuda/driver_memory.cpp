// SPDX-License-Identifier: MIT
// Streams, memory and events of the cuda backend over the fake driver.
#include <array>
#include <cstddef>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "copies_and_events.hpp"
#include "driver_fixtures.hpp"
#include "thrown.hpp"

using namespace fake_cuda;
using sy::test::contains;
using sy::test::error_of;

TEST_CASE("capturing") {
  const auto device = sy::cuda::open(0, fake_options());
  const fake_stream idle{primary(0)};
  const fake_stream active{primary(0), 1};
  const fake_stream invalidated{primary(0), 2};
  CHECK(!device->capturing(idle.get()));
  CHECK(device->capturing(active.get()));
  CHECK(device->capturing(invalidated.get()));
  CHECK(!device->capturing(nullptr));
  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED to CUDA_ERROR_CAPTURED_EVENT; 906 is the one that drivers give.
  for (const int code : {900, 906, 907}) {
    notes().legacy_capture_error = code;
    CHECK(device->capturing(nullptr));
  }
  for (const int code : {899, 908, 1}) {
    notes().legacy_capture_error = code;
    CHECK_FALSE(device->capturing(nullptr));
  }
  notes().legacy_capture_error = 0;
}

TEST_CASE("memory") {
  const auto device = sy::cuda::open(0, fake_options());
  void* const address = device->allocate(0, nullptr);
  CHECK(address != nullptr);
  device->release(address, nullptr);
  CHECK(device->allocate(std::size_t{1} << 40U, nullptr) == nullptr);
  CHECK(device->fill(nullptr, 1, 0, nullptr) == 0);
  alignas(64) std::array<std::byte, sy::tensor_map_bytes> map{};
  CHECK(device->encode({.rank = 5}, map.data()) == 0);
  CHECK(device->encode({.rank = 6}, nullptr) == sy::cuda::result::invalid_value);
  CHECK(device->encode({.rank = 0}, nullptr) == sy::cuda::result::invalid_value);
}

TEST_CASE("copies and events") {
  const auto device = sy::cuda::open(0, fake_options());
  set_current(nullptr);
  test_copies_and_events(*device);
  CHECK(notes().events == 0);
}

TEST_CASE("times that cannot be measured are refused, and leave what was there") {
  const auto table = entry_points();
  const auto device = device_over(table);
  auto* const event = device->create_event();
  double microseconds = 5;
  table->event_elapsed_time = [](float* milliseconds, CUevent_st*, CUevent_st*) {
    *milliseconds = 9;
    return sy::cuda::result::not_ready;
  };
  CHECK(device->elapsed(event, event, microseconds) == sy::cuda::result::not_ready);
  table->event_synchronize = [](CUevent_st*) { return 719; };
  CHECK(device->elapsed(event, event, microseconds) == 719);
  CHECK(microseconds == 5);
  table->event_create = [](CUevent_st**, unsigned) { return sy::cuda::result::out_of_memory; };
  CHECK(contains(error_of([&] { (void)device->create_event(); }).what(), "Fake A: cannot create an event"));
  device->destroy_event(event);
}

TEST_CASE("memory of no bytes is one byte, and nothing is freed that was not given") {
  const auto table = entry_points();
  static std::size_t asked = 0;
  static int freed = 0;
  table->mem_alloc_async = [](unsigned long long* address, std::size_t bytes, CUstream_st*) {
    asked = bytes;
    *address = 0x2000;
    return bytes < 100 ? sy::cuda::result::success : sy::cuda::result::out_of_memory;
  };
  table->mem_free_async = [](unsigned long long address, CUstream_st*) {
    freed += address == 0x2000 ? 1 : 100;
    return sy::cuda::result::success;
  };
  const auto device = device_over(table);
  CHECK(device->allocate(0, nullptr) == reinterpret_cast<void*>(0x2000));
  CHECK(asked == 1);
  CHECK(device->allocate(17, nullptr) != nullptr);
  CHECK(asked == 17);
  CHECK(device->allocate(100, nullptr) == nullptr);
  device->release(nullptr, nullptr);
  CHECK(freed == 0);
  device->release(reinterpret_cast<void*>(0x2000), nullptr);
  CHECK(freed == 1);
}
