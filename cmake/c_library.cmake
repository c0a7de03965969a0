# SPDX-License-Identifier: MIT
# libswitchyard: the C API of include/switchyard/c_api.h as a shared library.

add_library(switchyard_c SHARED include/c_api.cpp include/c_api_operators.cpp)
add_library(switchyard::switchyard_c ALIAS switchyard_c)
target_link_libraries(switchyard_c PRIVATE switchyard::compiled switchyard_warnings)
target_include_directories(switchyard_c INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(switchyard_c PROPERTIES OUTPUT_NAME switchyard CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_compile_options(switchyard_c PRIVATE -O1)  # JSON code is slow to optimise, and a call by names spends its time elsewhere
# Versioned symbols, and no others: two versions of the library may be in one process.
target_link_options(switchyard_c PRIVATE "LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/c_library.map")
set_target_properties(switchyard_c PROPERTIES LINK_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/c_library.map")
