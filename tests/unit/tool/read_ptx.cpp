// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <string>

#include <switchyard/tool/read_ptx.hpp>

namespace {

using switchyard::tool::read_ptx;

TEST_CASE("PTX says its kernels' names, parameters and bounds", "[tool]") {
  const auto found = read_ptx(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry scale(
    .param .u64 .ptr .global .align 16 scale_param_0,
    .param .f32 scale_param_1,
    .param .align 64 .b8 scale_param_2[128],
    .param .u8 scale_param_3
)
.maxntid 128, 2, 1
.minnctapersm 2
{
  ret;
}
.entry plain()
{ ret; }
.visible .entry odd(.param .texref t) .reqntid 64 { ret; }
)");
  CHECK(found.problem.empty());
  CHECK(found.backend == "cuda");
  CHECK(found.arch == "compute_90a");
  REQUIRE(found.kernels.size() == 3);
  const auto& scale = found.kernels[0];
  CHECK(scale.name == "scale");
  CHECK(scale.max_threads == 256);
  REQUIRE(scale.parameters.has_value());
  REQUIRE(scale.parameters->size() == 4);
  CHECK((*scale.parameters)[1].offset == 8);
  CHECK((*scale.parameters)[1].bytes == 4);
  CHECK((*scale.parameters)[2].offset == 64);
  CHECK((*scale.parameters)[2].bytes == 128);
  CHECK((*scale.parameters)[3].offset == 192);
  CHECK(found.kernels[1].name == "plain");
  CHECK(found.kernels[1].parameters->empty());
  CHECK(found.kernels[1].max_threads == 0);
  CHECK(found.kernels[2].name == "odd");
  CHECK_FALSE(found.kernels[2].parameters.has_value());  // not understood, so not judged
  CHECK(found.kernels[2].max_threads == 64);
}

TEST_CASE("PTX that ends anywhere is read without harm", "[tool]") {
  const std::string text =
      ".target sm_80\n.visible .entry k(.param .align 8 .b8 p[16], .param .u32 n) .maxntid 32, 1 {";
  std::size_t kernels = 0;
  for (std::size_t length = 0; length <= text.size(); ++length) {
    kernels += read_ptx(text.substr(0, length)).kernels.size();
  }
  CHECK(kernels > 0);
}

}  // namespace
