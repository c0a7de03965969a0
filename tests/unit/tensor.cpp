// SPDX-License-Identifier: MIT
// Tensors: from addresses, from spans, from DLPack.
#include <array>
#include <catch.hpp>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/error.hpp>
#include <switchyard/tensor.hpp>

using namespace switchyard;

namespace tensors {

// A DLTensor as dlpack.h of any version has it.
struct data_type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct dl_tensor {
  void* data;
  std::int64_t device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

std::vector<std::int64_t> list(std::span<const std::int64_t> of) {
  return {of.begin(), of.end()};
}

TEST_CASE("a tensor is dense unless strides are given") {
  std::array<float, 24> memory{};
  const tensor dense{memory.data(), dtype::f32, {2, 3, 4}};
  CHECK(dense.data() == memory.data());
  CHECK(dense.rank() == 3);
  CHECK(list(dense.extents()) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(list(dense.strides()) == std::vector<std::int64_t>{12, 4, 1});
  CHECK(dense.count() == 24);
  const const_tensor strided{memory.data(), dtype::bf16, {2, 3}, {0, 1}};
  CHECK(strided.dtype() == dtype::bf16);
  CHECK(list(strided.strides()) == std::vector<std::int64_t>{0, 1});
  CHECK_FALSE(const_tensor{});
  CHECK(strided);
}

TEST_CASE("host memory makes tensors of its element type") {
  std::vector<float> floats(6);
  const std::vector<std::int32_t> numbers(6);
  const tensor written{std::span{floats}, {2, 3}};
  CHECK(written.dtype() == dtype::f32);
  CHECK(written.stride(0) == 3);
  const const_tensor read{std::span{numbers}};
  CHECK(read.dtype() == dtype::i32);
  CHECK(read.extent(0) == 6);
  const std::vector<std::int64_t> positions(6);
  CHECK(const_tensor{std::span{positions}, {2, 3}}.dtype() == dtype::i64);
  CHECK(read.has(dtype::i32, 1));
  CHECK_FALSE(read.has(dtype::i64, 1));
  CHECK_FALSE(read.has(dtype::i32, 2));
  CHECK(read.is_like(const_tensor{numbers.data(), dtype::i32, {3}}));
  CHECK_FALSE(read.is_like(const_tensor{numbers.data(), dtype::i32, {2, 3}}));
  CHECK_FALSE(read.is_like(const_tensor{numbers.data(), dtype::f32, {6}}));
  const const_tensor of_written{std::span{floats}};
  CHECK(of_written.rank() == 1);
  std::array<float, 6> six{};  // a span whose size is part of its type
  const tensor fixed{std::span{six}, {2, 3}};
  CHECK(fixed.data() == six.data());
  CHECK(const_tensor{std::span{six}}.extent(0) == 6);
  CHECK_THROWS_WITH((tensor{std::span{floats}, {2, 4}}),
                    "[switchyard.301] a span of 6 elements cannot be a tensor of 8");
}

TEST_CASE("a DLPack tensor is viewed without a copy") {
  std::array<std::uint16_t, 64> memory{};
  std::array<std::int64_t, 6> shape{2, 3, 4, 1, 1, 1};
  std::array<std::int64_t, 3> strides{32, 4, 1};
  dl_tensor from{memory.data(), 0, 3, {4, 16, 1}, shape.data(), nullptr, 8};
  const tensor dense = tensor::from_dlpack(from);
  CHECK(dense.data() == memory.data() + 4);
  CHECK(dense.dtype() == dtype::bf16);
  CHECK(list(dense.extents()) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(list(dense.strides()) == std::vector<std::int64_t>{12, 4, 1});
  from.strides = strides.data();
  CHECK(const_tensor::from_dlpack(from).stride(0) == 32);

  const auto type = [&](std::uint8_t code, std::uint8_t bits) {
    from.dtype = {code, bits, 1};
    return const_tensor::from_dlpack(from).dtype();
  };
  CHECK(type(2, 16) == dtype::f16);
  CHECK(type(2, 32) == dtype::f32);
  CHECK(type(2, 64) == dtype::f64);
  CHECK(type(0, 8) == dtype::i8);
  CHECK(type(0, 32) == dtype::i32);
  CHECK(type(0, 64) == dtype::i64);
  CHECK(type(10, 8) == dtype::f8_e4m3);
  CHECK(type(12, 8) == dtype::f8_e5m2);
  CHECK_THROWS_WITH(type(0, 16),
                    "[switchyard.301] a DLPack tensor has type code 0, 16 bits and 1 lanes; known are "
                    "f16, bf16, f32, f64, f8_e4m3, f8_e5m2, i8, i32 and i64, of one lane");
  from.dtype = {2, 32, 4};
  CHECK_THROWS_WITH(const_tensor::from_dlpack(from), has_text("4 lanes"));
  from.dtype = {2, 32, 1};
  from.ndim = 6;
  CHECK_THROWS_WITH(const_tensor::from_dlpack(from),
                    "[switchyard.301] a tensor has at most 5 dimensions, not 6");
  from.ndim = -1;
  CHECK_THROWS_WITH(const_tensor::from_dlpack(from), has_text("not -1"));
  from = {nullptr, 0, 3, {2, 32, 1}, shape.data(), nullptr, 8};
  CHECK(const_tensor::from_dlpack(from).data() == nullptr);
}

TEST_CASE("extents known only at run time make tensors too") {
  std::array<float, 8> memory{};
  const std::vector<std::int64_t> extents{2, 4};
  const std::vector<std::int64_t> strides{1, 2};
  CHECK(tensor::from_spans(memory.data(), dtype::f32, extents).stride(0) == 4);
  CHECK(const_tensor::from_spans(memory.data(), dtype::f32, extents, strides).stride(1) == 2);
  CHECK(const_tensor::from_spans(memory.data(), dtype::f32, {}).count() == 1);
}

}  // namespace tensors
