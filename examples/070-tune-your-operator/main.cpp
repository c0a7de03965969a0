// SPDX-License-Identifier: MIT
// The `switchyard` tool with an operator of your own: every command knows axpy.
//
//   own_tool --root FOLDER tune axpy n=1000,100000 dtype=f32 -o build/axpy.json
//   own_tool --root FOLDER explain axpy n=5000 dtype=f32
//
// FOLDER holds kernels/axpy, built from 040-own-operator/axpy.json.
#include <switchyard/tool/main.hpp>

#include "axpy_workload.hpp"

int main(int argc, char** argv) {
  return switchyard::tool::main<engine::axpy>(argc, argv);
}
