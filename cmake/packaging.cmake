# SPDX-License-Identifier: MIT
# Install rules, the CMake package, the pkg-config file and the archive.

include(CMakePackageConfigHelpers)
set(SWITCHYARD_INSTALL_CMAKE "${CMAKE_INSTALL_DATADIR}/cmake/switchyard")
set(SWITCHYARD_INSTALL_DATA "${CMAKE_INSTALL_DATADIR}/switchyard")

install(TARGETS switchyard EXPORT switchyard FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
# Optional: a build of single targets may not have made it.
install(TARGETS switchyard_compiled EXPORT switchyard-compiled ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" OPTIONAL)
install(EXPORT switchyard-compiled NAMESPACE switchyard:: FILE switchyard-compiled-targets.cmake
  DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
# Programs find the data of the installation whose headers they are built with.
install(CODE "
  if(NOT CMAKE_INSTALL_PREFIX MATCHES \"_CPack_Packages\")  # a package is installed elsewhere
    set(folder \"${CMAKE_INSTALL_DATADIR}/switchyard\")
    set(header \"${CMAKE_INSTALL_INCLUDEDIR}/switchyard/files/data_folder.hpp\")
    foreach(each folder header)
      cmake_path(ABSOLUTE_PATH \${each} BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
    endforeach()
    file(READ \"${PROJECT_SOURCE_DIR}/include/switchyard/files/data_folder.hpp\" text)
    string(REPLACE \"data_folder{}\" \"data_folder{\\\"\${folder}\\\"}\" text \"\${text}\")
    file(WRITE \"\$ENV{DESTDIR}\${header}\" \"\${text}\")
  endif()")
if(TARGET switchyard_tool)
  # Optional: a build of single targets may not have made them.
  install(TARGETS switchyard_tool_library EXPORT switchyard-tool ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" OPTIONAL)
  install(TARGETS switchyard_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" OPTIONAL)
  install(EXPORT switchyard-tool NAMESPACE switchyard:: FILE switchyard-tool-targets.cmake
    DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
endif()
install(EXPORT switchyard NAMESPACE switchyard:: FILE switchyard-targets.cmake DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
configure_package_config_file(cmake/switchyard-config.cmake.in "${PROJECT_BINARY_DIR}/switchyard-config.cmake"
  INSTALL_DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR SWITCHYARD_INSTALL_DATA)
# Until 1.0 a minor version may change what engines compile against.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/switchyard-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/switchyard-config.cmake" "${PROJECT_BINARY_DIR}/switchyard-config-version.cmake"
              cmake/SwitchyardKernels.cmake cmake/README.md
        DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
# The kernel build as a command. Folders are relative to the files, as below.
set(tool_folder "${CMAKE_INSTALL_FULL_DATADIR}/cmake/switchyard")
if(IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}")
  set(tool_include "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  set(tool_script "${tool_folder}/switchyard_kernels.py")
else()
  file(RELATIVE_PATH tool_include "/${SWITCHYARD_INSTALL_CMAKE}" "/${CMAKE_INSTALL_INCLUDEDIR}")
  file(RELATIVE_PATH tool_script "/${CMAKE_INSTALL_BINDIR}" "/${SWITCHYARD_INSTALL_CMAKE}/switchyard_kernels.py")
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include_folder.txt" CONTENT "@tool_include@\n" @ONLY)
configure_file(cmake/switchyard-kernels.in "${PROJECT_BINARY_DIR}/switchyard-kernels" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/include_folder.txt" DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
install(PROGRAMS cmake/switchyard_kernels.py DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
install(PROGRAMS "${PROJECT_BINARY_DIR}/switchyard-kernels" DESTINATION "${CMAKE_INSTALL_BINDIR}")
# In share/, because nothing here depends on the architecture. Folders are relative to the file, so that an installed tree
# can be moved, unless the install folders are absolute.
set(pc_folder "${CMAKE_INSTALL_DATADIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_DATADIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_include "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  set(pc_data "${CMAKE_INSTALL_FULL_DATADIR}/switchyard")
else()
  file(RELATIVE_PATH pc_include "/${pc_folder}" "/${CMAKE_INSTALL_INCLUDEDIR}")
  file(RELATIVE_PATH pc_data "/${pc_folder}" "/${SWITCHYARD_INSTALL_DATA}")
  string(PREPEND pc_include "\${pcfiledir}/")
  string(PREPEND pc_data "\${pcfiledir}/")
endif()
configure_file(cmake/switchyard.pc.in "${PROJECT_BINARY_DIR}/switchyard.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/switchyard.pc" DESTINATION "${pc_folder}")
install(DIRECTORY cmake/kernel_tools DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" FILES_MATCHING PATTERN "*.py")
install(DIRECTORY "${SWITCHYARD_DATA}/" DESTINATION "${SWITCHYARD_INSTALL_DATA}" OPTIONAL PATTERN "*.partial" EXCLUDE)
install(DIRECTORY tables/schema DESTINATION "${SWITCHYARD_INSTALL_DATA}" FILES_MATCHING PATTERN "*.json")
install(DIRECTORY tables/problems DESTINATION "${SWITCHYARD_INSTALL_DATA}" FILES_MATCHING PATTERN "*.txt")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/switchyard")

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)  # and DEB, with `cpack -G DEB`
  set(CPACK_PACKAGE_FILE_NAME "switchyard-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
  set(CPACK_VERBATIM_VARIABLES ON)
  if(NOT CPACK_PACKAGE_CONTACT)  # whoever publishes the package gives "Name <address>"
    set(CPACK_PACKAGE_CONTACT "The Switchyard authors")
  endif()
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "nlohmann-json3-dev (>= 3.11)")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++ (>= 4:12), cmake (>= 3.24), python3")  # to build engines and kernels
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  include(CPack)  # adds the target `package`
endif()
