# SPDX-License-Identifier: MIT
# An overlay port of the tree that it lies in:   vcpkg install switchyard --overlay-ports=cmake/packages/vcpkg
# A registry's port takes a release's archive instead, with vcpkg_download_distfile and vcpkg_extract_source_archive.

get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES
  c-library SWITCHYARD_BUILD_C_LIBRARY
  kernels SWITCHYARD_BUILD_KERNELS)
if(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
  set(target host-aarch64)
else()
  set(target host-x86_64)
endif()
# Manifests name the SHA-256 of each kernel: none may be changed.
set(VCPKG_FIXUP_ELF_RPATH OFF)
vcpkg_find_acquire_program(PYTHON3)
# vcpkg's folder from the start: files find each other by relative paths.
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${features}
    -DSWITCHYARD_BUILD_TESTS=OFF -DSWITCHYARD_BUILD_EXAMPLES=OFF -DSWITCHYARD_BUILD_TOOL=OFF -DSWITCHYARD_KERNEL_SET=full
    "-DSWITCHYARD_KERNEL_TARGETS=${target}" "-DPython3_EXECUTABLE=${PYTHON3}"
    -DSWITCHYARD_INSTALL_CMAKE=share/switchyard
  OPTIONS_DEBUG -DSWITCHYARD_BUILD_KERNELS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup()
vcpkg_fixup_pkgconfig()
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/bin/switchyard-kernels" "../share" "../../share")
vcpkg_copy_tools(TOOL_NAMES switchyard-kernels AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
