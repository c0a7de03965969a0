# SPDX-License-Identifier: MIT
# The target `docs`: the API reference in <build>/docs/html, where doxygen is installed. Warnings are errors.

find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  return()
endif()

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/docs/main.md" @ONLY CONTENT [[
# Switchyard @PROJECT_VERSION@

The API reference. Start with `switchyard/catalog.hpp`, `switchyard/dispatcher.hpp` and `switchyard/device.hpp`;
`switchyard/operators/` has the arguments of each operator, and `switchyard/error.hpp` the error codes.
Guides are in the source tree: README.md, include/switchyard/README.md, tables/README.md and cmake/README.md.
]])
configure_file(cmake/Doxyfile.in "${PROJECT_BINARY_DIR}/docs/Doxyfile" @ONLY)
add_custom_target(docs
  COMMAND "${DOXYGEN_EXECUTABLE}" "${PROJECT_BINARY_DIR}/docs/Doxyfile"
  WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/docs" COMMENT "API reference in docs/html" VERBATIM)
if(SWITCHYARD_BUILD_TESTS)
  add_test(NAME docs COMMAND "${CMAKE_COMMAND}" --build "${PROJECT_BINARY_DIR}" --target docs)
endif()
