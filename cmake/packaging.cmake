# SPDX-License-Identifier: MIT
# Install rules by component, the CMake package, the pkg-config file; archives and Debian packages are in packages/.
#
#   dev               headers, static libraries, the CMake package, pkg-config, the kernel build, JSON schemas
#   library           libswitchyard.so.0, the C API
#   tools             the program `switchyard`, and problem lists for tuning
#   tables            tuning tables
#   kernels-<target>  manifests and blobs of a target
#
# cmake --install build --component library      one of them; without --component, all

include(CMakePackageConfigHelpers)
if(NOT SWITCHYARD_INSTALL_CMAKE)
  set(SWITCHYARD_INSTALL_CMAKE "${CMAKE_INSTALL_DATADIR}/cmake/switchyard")
endif()
set(SWITCHYARD_INSTALL_DATA "${CMAKE_INSTALL_DATADIR}/switchyard")
# Host kernels depend on the architecture. SWITCHYARD_INSTALL_DATA has links to them, and so is a whole root.
if(NOT SWITCHYARD_INSTALL_HOST_DATA)
  set(SWITCHYARD_INSTALL_HOST_DATA "${CMAKE_INSTALL_LIBDIR}/switchyard")
endif()

# The way from one installed folder to another, so that an installed tree can be moved; absolute where a folder is.
function(switchyard_find_way from to out)
  GNUInstallDirs_get_absolute_install_dir(from_full from DATADIR)
  GNUInstallDirs_get_absolute_install_dir(to_full to DATADIR)
  if(IS_ABSOLUTE "${from}" OR IS_ABSOLUTE "${to}")
    set(${out} "${to_full}" PARENT_SCOPE)
  else()
    file(RELATIVE_PATH way "${from_full}" "${to_full}")
    set(${out} "${way}" PARENT_SCOPE)
  endif()
endfunction()

# Headers and static libraries. What is optional may be missing after a build of single targets.

install(TARGETS switchyard EXPORT switchyard FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev)
install(TARGETS switchyard_compiled EXPORT switchyard-compiled
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev OPTIONAL)

# Programs find the data of the installation whose headers they are built with.
switchyard_find_way("${CMAKE_INSTALL_INCLUDEDIR}/switchyard/files/data_folder.hpp" "${SWITCHYARD_INSTALL_DATA}" data_way)
if(IS_ABSOLUTE "${data_way}")
  set(data_text "\"${data_way}\"")
else()
  set(data_text "__FILE__ \"/${data_way}\"")
endif()
set(data_header include/switchyard/files/data_folder.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${data_header}")
file(READ "${PROJECT_SOURCE_DIR}/${data_header}" text)
string(REPLACE "if_absolute(\"\")" "if_absolute(${data_text})" text "${text}")
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/installed/data_folder.hpp" CONTENT "${text}")
install(FILES "${PROJECT_BINARY_DIR}/installed/data_folder.hpp"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/switchyard/files" COMPONENT dev)  # after the file set

if(TARGET switchyard_tool)
  install(TARGETS switchyard_tool_library EXPORT switchyard-tool
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev OPTIONAL)
  install(TARGETS switchyard_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools OPTIONAL)
endif()
if(TARGET switchyard_c)
  install(TARGETS switchyard_c EXPORT switchyard-c LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
    NAMELINK_COMPONENT dev OPTIONAL)
endif()

# The CMake package.

foreach(name switchyard switchyard-compiled switchyard-tool switchyard-c)
  if((name STREQUAL "switchyard-tool" AND NOT TARGET switchyard_tool) OR (name STREQUAL "switchyard-c" AND NOT TARGET switchyard_c))
    continue()
  endif()
  install(EXPORT ${name} NAMESPACE switchyard:: FILE ${name}-targets.cmake DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" COMPONENT dev)
endforeach()
configure_package_config_file(cmake/switchyard-config.cmake.in "${PROJECT_BINARY_DIR}/switchyard-config.cmake"
  INSTALL_DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR SWITCHYARD_INSTALL_DATA)
# Until 1.0 a minor version may change what engines compile against.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/switchyard-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/switchyard-config.cmake" "${PROJECT_BINARY_DIR}/switchyard-config-version.cmake"
              cmake/SwitchyardKernels.cmake
        DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" COMPONENT dev)

# The kernel build, as a command as well.

switchyard_find_way("${SWITCHYARD_INSTALL_CMAKE}" "${CMAKE_INSTALL_INCLUDEDIR}" tool_include)
switchyard_find_way("${CMAKE_INSTALL_BINDIR}" "${SWITCHYARD_INSTALL_CMAKE}/switchyard_kernels.py" tool_script)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include_folder.txt" CONTENT "@tool_include@\n" @ONLY)
configure_file(cmake/switchyard-kernels.in "${PROJECT_BINARY_DIR}/switchyard-kernels" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/include_folder.txt" DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" COMPONENT dev)
install(PROGRAMS cmake/switchyard_kernels.py DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" COMPONENT dev)
install(PROGRAMS "${PROJECT_BINARY_DIR}/switchyard-kernels" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT dev)
install(DIRECTORY cmake/kernel_tools DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" COMPONENT dev FILES_MATCHING PATTERN "*.py")

# In share/, because nothing here depends on the architecture.
set(pc_folder "${CMAKE_INSTALL_DATADIR}/pkgconfig")
switchyard_find_way("${pc_folder}" "${CMAKE_INSTALL_INCLUDEDIR}" pc_include)
switchyard_find_way("${pc_folder}" "${SWITCHYARD_INSTALL_DATA}" pc_data)
foreach(way pc_include pc_data)
  if(NOT IS_ABSOLUTE "${${way}}")
    string(PREPEND ${way} "\${pcfiledir}/")
  endif()
endforeach()
configure_file(cmake/switchyard.pc.in "${PROJECT_BINARY_DIR}/switchyard.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/switchyard.pc" DESTINATION "${pc_folder}" COMPONENT dev)

install(FILES LICENSE cmake/README.md DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/switchyard" COMPONENT dev)

# Data.

install(DIRECTORY tables/schema DESTINATION "${SWITCHYARD_INSTALL_DATA}" COMPONENT dev FILES_MATCHING PATTERN "*.json")
install(DIRECTORY tables/problems DESTINATION "${SWITCHYARD_INSTALL_DATA}" COMPONENT tools FILES_MATCHING PATTERN "*.txt")
install(DIRECTORY "${SWITCHYARD_DATA}/tables" DESTINATION "${SWITCHYARD_INSTALL_DATA}" COMPONENT tables OPTIONAL)

set(kernel_targets)
if(TARGET kernels)
  get_target_property(manifests kernels SWITCHYARD_MANIFESTS)
  foreach(manifest IN LISTS manifests)
    cmake_path(GET manifest PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    list(APPEND kernel_targets ${folder})
  endforeach()
  list(REMOVE_DUPLICATES kernel_targets)
endif()
switchyard_find_way("${SWITCHYARD_INSTALL_DATA}/kernels/operator" "${SWITCHYARD_INSTALL_HOST_DATA}/kernels" host_way)
foreach(target IN LISTS kernel_targets)
  set(kernel_folder "${SWITCHYARD_INSTALL_DATA}")
  set(link_to "")
  if(target MATCHES "^host-" AND NOT SWITCHYARD_INSTALL_HOST_DATA STREQUAL SWITCHYARD_INSTALL_DATA)
    set(kernel_folder "${SWITCHYARD_INSTALL_HOST_DATA}")
    set(link_to "${host_way}")
  endif()
  configure_file(cmake/packages/install_kernels.cmake.in "${PROJECT_BINARY_DIR}/installed/kernels-${target}.cmake" @ONLY)
  install(SCRIPT "${PROJECT_BINARY_DIR}/installed/kernels-${target}.cmake" COMPONENT kernels-${target})
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  include(cmake/packages/packages.cmake)
endif()
