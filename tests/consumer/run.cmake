# Builds and runs one consumer. KIND, SOURCES, LIBRARY, LIBRARY_BUILD, WORK, CXX, GENERATOR, PREFIX_PATH.

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

if(KIND STREQUAL "bare_include")
  run("${CXX}" -std=c++20 "-I${LIBRARY}/include" ${SOURCES} -o "${WORK}/consumer" -pthread -ldl)
  run("${WORK}/consumer")
  return()
endif()

# A cache file rather than -D options, because lists do not survive being arguments.
file(CONFIGURE OUTPUT "${WORK}/cache.cmake" CONTENT [[
set(CMAKE_CXX_COMPILER "@CXX@" CACHE FILEPATH "")
set(CMAKE_PREFIX_PATH "@PREFIX_PATH@" CACHE STRING "")
set(CONSUMER_SOURCES "@SOURCES@" CACHE STRING "")
set(CONSUMER_SPACE "@LIBRARY@/tests/kernel_build/scaled_sum.host.json" CACHE FILEPATH "")
set(SWITCHYARD_SOURCE "@LIBRARY@" CACHE PATH "")
]] @ONLY)
set(options -C "${WORK}/cache.cmake")
if(KIND STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${LIBRARY_BUILD}" --prefix "${WORK}/prefix")
  # Moved, so that nothing may hold on to the place it was installed to.
  file(RENAME "${WORK}/prefix" "${WORK}/moved")
  list(APPEND options "-Dswitchyard_ROOT=${WORK}/moved")
endif()
run("${CMAKE_COMMAND}" -S "${LIBRARY}/tests/consumer/${KIND}" -B "${WORK}/build" -G "${GENERATOR}" ${options})
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer")
if(KIND STREQUAL "find_package")
  file(GLOB manifests "${WORK}/build/data/kernels/scaled_sum/*/manifest.json")
  if(NOT manifests)
    message(FATAL_ERROR "the consumer's own kernels were not built")
  endif()
endif()
