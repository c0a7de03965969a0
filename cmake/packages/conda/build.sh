#!/bin/sh
# SPDX-License-Identifier: MIT
# build.sh COMPONENT...: builds once for all outputs of recipe.yaml, and installs the components of one.
set -eu
target=host-$(uname -m)
# shellcheck disable=SC2086
cmake -S . -B build-conda -G Ninja ${CMAKE_ARGS:-} -DCMAKE_INSTALL_LIBDIR=lib -DSWITCHYARD_BUILD_TESTS=OFF \
  -DSWITCHYARD_BUILD_EXAMPLES=OFF -DSWITCHYARD_KERNEL_SET=full -DSWITCHYARD_KERNEL_TARGETS="$target"
cmake --build build-conda
for component in "$@"; do cmake --install build-conda --prefix "$PREFIX" --component "$component"; done
