# Install rules, the CMake package, the pkg-config file and the archive.

include(CMakePackageConfigHelpers)
set(SWITCHYARD_INSTALL_CMAKE "${CMAKE_INSTALL_DATADIR}/cmake/switchyard")
set(SWITCHYARD_INSTALL_DATA "${CMAKE_INSTALL_DATADIR}/switchyard")

install(TARGETS switchyard EXPORT switchyard FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT switchyard NAMESPACE switchyard:: FILE switchyard-targets.cmake DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
configure_package_config_file(cmake/switchyard-config.cmake.in "${PROJECT_BINARY_DIR}/switchyard-config.cmake"
  INSTALL_DESTINATION "${SWITCHYARD_INSTALL_CMAKE}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR SWITCHYARD_INSTALL_DATA)
# Until 1.0 a minor version may change what engines compile against.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/switchyard-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/switchyard-config.cmake" "${PROJECT_BINARY_DIR}/switchyard-config-version.cmake"
              cmake/SwitchyardKernels.cmake cmake/switchyard_kernels.py cmake/README.md
        DESTINATION "${SWITCHYARD_INSTALL_CMAKE}")
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
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/switchyard")

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME "switchyard-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
  set(CPACK_VERBATIM_VARIABLES ON)
  include(CPack)  # adds the target `package`
endif()
