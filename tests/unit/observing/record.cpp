// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <fcntl.h>

#include <switchyard/observing/record.hpp>

#include "../sample_operator.hpp"
#include "../temporary.hpp"

using namespace switchyard;

TEST_CASE("each problem that was called becomes one JSON line with its count") {
  const temporary_folder folder;
  {
    recorder out{::open((folder / "r").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600)};
    device_properties device;
    device.name = "a \"card\"";
    const auto problem = sample::problem({{"dtype", 1}, {"masked", 1}, {"width", 64}, {"rows", 4}});
    out.note(sample::description(), device, problem, 3);
    out.note(sample::description(), device, problem, 0);
    const auto unnamed = sample::problem({{"dtype", 99}});
    out.note(sample::description(), device, unnamed, 1);
  }
  CHECK(
      slurp(folder / "r") ==
      "{\"operator\":\"scale\",\"device\":\"a \\\"card\\\"\",\"problem\":{\"dtype\":\"bf16\",\"layout\":"
      "\"dense\",\"masked\":\"true\",\"width\":64,\"alignment\":0,\"rows\":4,\"columns\":0},\"count\":3}\n"
      "{\"operator\":\"scale\",\"device\":\"a \\\"card\\\"\",\"problem\":{\"dtype\":\"99\",\"layout\":"
      "\"dense\",\"masked\":\"false\",\"width\":0,\"alignment\":0,\"rows\":0,\"columns\":0},\"count\":1}\n");
}

TEST_CASE("a record that cannot be written does not stop the engine") {
  recorder out{::open("/dev/full", O_WRONLY)};
  out.note(sample::description(), {}, sample::problem({}), 1);
  SUCCEED();
}
