# SPDX-License-Identifier: MIT
# Packages by CPack: `cpack` makes one archive of everything, `cpack -G DEB` a Debian package of each component.
# Debian's folders need CMAKE_INSTALL_PREFIX=/usr, as .ci/packages configures.

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME "switchyard-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)  # programs and libraries; kernels stay as their manifests name them
if(NOT CPACK_PACKAGE_CONTACT)  # whoever publishes the package gives "Name <address>"
  set(CPACK_PACKAGE_CONTACT "The Switchyard authors")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would come before that of each component

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/packages/debian/complete.cmake")
set(CPACK_SWITCHYARD_DEBIAN "${PROJECT_SOURCE_DIR}/cmake/packages/debian")
set(CPACK_SWITCHYARD_SOURCE "${PROJECT_SOURCE_DIR}")

# The package of a component: name, section, dependencies, summary, and more lines of description.
set(CPACK_COMPONENTS_ALL)
macro(switchyard_debian_package component name section depends summary description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER "${component}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME "${name}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION "${section}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${description}")
endmacro()

set(own_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(what "Switchyard chooses, loads and launches the fastest precompiled kernel\nfor each call of an operator, by tuning tables that hold measured times.")

set(dev_depends "nlohmann-json3-dev (>= 3.11), python3:any")
if(TARGET switchyard_c)
  string(PREPEND dev_depends "libswitchyard0 ${own_version}, ")
  switchyard_debian_package(library libswitchyard0 libs "" "runs the fastest precompiled kernel for each call (C API)"
    "${what}\n\nThis package has the shared library of the C API.")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/cmake/packages/debian/triggers")
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # only libraries with a version have any
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "switchyard-tables")
endif()
switchyard_debian_package(dev libswitchyard-dev libdevel "${dev_depends}" "runs the fastest precompiled kernel for each call (headers)"
  "${what}\n\nThis package has the C++ headers, the same compiled as a static library, the\nCMake package, and the build of kernels.")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "g++ (>= 4:12), cmake (>= 3.24)")
if(TARGET switchyard_tool)
  switchyard_debian_package(tools switchyard-tools utils "" "explains, checks and measures tables of kernels"
    "${what}\n\nThis package has the program switchyard: it explains choices for any shape and\ndevice, checks, compares and makes tables.")
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "switchyard-tables")
endif()
if(kernel_targets)
  switchyard_debian_package(tables switchyard-tables misc "" "measured times of kernels, by which Switchyard chooses"
    "${what}\n\nThis package has the tuning tables.")
  set(CPACK_DEBIAN_TABLES_PACKAGE_ARCHITECTURE all)
endif()
foreach(target IN LISTS kernel_targets)
  string(TOLOWER "switchyard-kernels-${target}" name)
  string(REPLACE "_" "-" name "${name}")
  switchyard_debian_package(kernels-${target} ${name} libs "" "kernels of Switchyard for ${target}"
    "${what}\n\nThis package has the kernels for ${target}.")
  string(TOUPPER "kernels-${target}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "switchyard-tables")
  if(target STREQUAL "host-${CMAKE_SYSTEM_PROCESSOR}")
    set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  elseif(NOT target MATCHES "^host-")
    set(CPACK_DEBIAN_${upper}_PACKAGE_ARCHITECTURE all)
  endif()
endforeach()
include(CPack)  # adds the target `package`
