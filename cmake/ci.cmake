# SPDX-License-Identifier: MIT
# The configuration that .ci/run tests:   cmake -C cmake/ci.cmake -S . -B build -G Ninja
#
# The values replace those of an existing build folder, for example one that .ci/quickstart configured without tests.
# Options after -C override them.

set(SWITCHYARD_BUILD_TESTS ON CACHE BOOL "" FORCE)
set(SWITCHYARD_WERROR ON CACHE BOOL "" FORCE)
# What measures is compiled for its warnings only.
set(SWITCHYARD_MEASURE OFF CACHE BOOL "" FORCE)
# The project's own programs link the compiled form: the shortest one takes a tenth of the time to compile. The header-only form is
# tested by the consumers, whose engine launches, by the plug-in of tests/dispatch, by tests/headers, and by the stress test under
# the thread sanitizer.
set(SWITCHYARD_FORM compiled CACHE STRING "" FORCE)
# Every source file parses JSON and the standard headers again; 24 files per unit share that cost. Precompiled headers
# would save no more, and ccache does not serve what uses one.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "" FORCE)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24 CACHE STRING "" FORCE)
# A test has no use for -O3, which CMake's release would give everything that names no level of its own. What is to be fast
# names one. The library is built like that of a distribution.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)
