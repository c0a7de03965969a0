# SPDX-License-Identifier: MIT
# Runs before CPack writes Debian packages: adds to each what Debian's policy asks for. Copyright, change log, manual
# pages, reasons for what lintian would report.

if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(seconds "$ENV{SOURCE_DATE_EPOCH}")
else()
  string(TIMESTAMP seconds "%s" UTC)
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C date -u -R -d "@${seconds}" OUTPUT_VARIABLE date
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

function(compress file)
  execute_process(COMMAND gzip -9nf "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(READ "${CPACK_SWITCHYARD_SOURCE}/LICENSE" licence)
string(REGEX REPLACE "\n\n" "\n.\n" licence "${licence}")
string(REGEX REPLACE "\n$" "" licence "${licence}")
string(REPLACE "\n" "\n " licence "${licence}")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER "${component}" upper)
  set(package "${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
  set(root "${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}")
  set(doc "${root}/share/doc/${package}")
  if(IS_DIRECTORY "${root}/share/doc/switchyard")
    file(RENAME "${root}/share/doc/switchyard" "${doc}")
    file(REMOVE "${doc}/LICENSE")
  endif()
  file(WRITE "${doc}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: switchyard

Files: *
Copyright: the Switchyard authors
License: Expat
 ${licence}
")
  file(WRITE "${doc}/changelog.Debian"
"switchyard (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compress("${doc}/changelog.Debian")
  file(COPY_FILE "${CPACK_SWITCHYARD_SOURCE}/.github/CHANGELOG.md" "${doc}/changelog")
  compress("${doc}/changelog")
  foreach(page switchyard switchyard-kernels)
    if(EXISTS "${root}/bin/${page}")
      file(MAKE_DIRECTORY "${root}/share/man/man1")
      file(COPY_FILE "${CPACK_SWITCHYARD_DEBIAN}/${page}.1" "${root}/share/man/man1/${page}.1")
      compress("${root}/share/man/man1/${page}.1")
    endif()
  endforeach()
  string(REGEX REPLACE "-[^-]*-.*$" "" kind "${component}")  # kernels of kernels-host-x86_64
  if(EXISTS "${CPACK_SWITCHYARD_DEBIAN}/${kind}.lintian-overrides")
    file(MAKE_DIRECTORY "${root}/share/lintian/overrides")
    file(COPY_FILE "${CPACK_SWITCHYARD_DEBIAN}/${kind}.lintian-overrides" "${root}/share/lintian/overrides/${package}")
  endif()
endforeach()
