# SPDX-License-Identifier: MIT
# Kernels from search-space files, for the project itself and for whoever uses find_package(switchyard).
#
#   switchyard_add_kernels(<target> SPACE <file.json>... [SET <name>] [TARGETS <target>...]
#                          [DESTINATION <dir>] [TABLES <dir>] [ALL])
#
# adds a target that compiles every blob the files describe, in parallel and only when something it reads has
# changed, and writes one manifest for each operator and target:
#
#   <dir>/kernels/<operator>/<target>/manifest.json and its blobs     <dir>/tables/<operator>/<device>.json
#
# DESTINATION defaults to <binary dir>/share/switchyard; put it into SWITCHYARD_PATH, or install it. The target's
# property SWITCHYARD_DESTINATION names it. All files of an operator and target go into one call.
# SET is a subset that the files name, TARGETS are folder names such as cuda-sm_90a. TABLES is a folder of tuning
# tables that is copied along.
#
# A toolchain that is not found takes its kernels with it, and a message says what to install. Cache variables:
#   SWITCHYARD_HOST_CXX        compiler of host kernels             (the project's C++ compiler)
#   SWITCHYARD_NVCC            nvcc                                 (PATH, /usr/local/cuda)
#   SWITCHYARD_HIP_CXX         a clang++ with the AMDGPU target     (clang++-19, clang++-20, ...)
#   SWITCHYARD_TRITON_PYTHON   a python with triton 3.6.0           (python3)
# The format of the files is described in cmake/README.md, installed in share/doc/switchyard.

include_guard(GLOBAL)

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

set(SWITCHYARD_KERNELS_TOOL "${CMAKE_CURRENT_LIST_DIR}/switchyard_kernels.py" CACHE INTERNAL "")
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../include/switchyard/version.hpp")
  get_filename_component(switchyard_kernels_include "${CMAKE_CURRENT_LIST_DIR}/../include" ABSOLUTE)
else()
  set(switchyard_kernels_include "${SWITCHYARD_INCLUDE_DIR}")  # from the package config
endif()
set(SWITCHYARD_KERNELS_INCLUDE "${switchyard_kernels_include}" CACHE INTERNAL "")

# Finds the compilers once a configuration and writes them down for the tool.
function(switchyard_find_kernel_toolchains)
  get_property(done GLOBAL PROPERTY SWITCHYARD_KERNEL_TOOLCHAINS)
  if(done)
    return()
  endif()

  set(entries "\"include\": [\"${SWITCHYARD_KERNELS_INCLUDE}\"]")
  set(found)

  set(SWITCHYARD_HOST_CXX "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "Compiler of host kernels")
  if(SWITCHYARD_HOST_CXX)
    string(APPEND entries ", \"host\": \"${SWITCHYARD_HOST_CXX}\"")
    list(APPEND found "host: ${SWITCHYARD_HOST_CXX}")
  endif()

  find_program(SWITCHYARD_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA compiler")
  if(SWITCHYARD_NVCC)
    string(APPEND entries ", \"nvcc\": \"${SWITCHYARD_NVCC}\"")
    list(APPEND found "nvcc: ${SWITCHYARD_NVCC}")
  endif()

  find_program(SWITCHYARD_HIP_CXX NAMES clang++-19 clang++-22 clang++-21 clang++-20 amdclang++ clang++
               PATHS /opt/rocm/llvm/bin DOC "A clang++ with the AMDGPU target")
  if(SWITCHYARD_HIP_CXX)
    # Also tells whether the linker is there, which Debian packages apart.
    set(probe "${CMAKE_BINARY_DIR}/CMakeFiles/switchyard_hip_probe")
    file(WRITE "${probe}.cpp" "extern \"C\" __attribute__((amdgpu_kernel)) void probe() {}\n")
    execute_process(COMMAND "${SWITCHYARD_HIP_CXX}" --target=amdgcn-amd-amdhsa -mcpu=gfx90a -nogpulib "${probe}.cpp" -o "${probe}.hsaco"
                    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      message(STATUS "Switchyard kernels: ${SWITCHYARD_HIP_CXX} does not link for AMD GPUs; install lld of the same version")
    else()
      string(APPEND entries ", \"hip\": \"${SWITCHYARD_HIP_CXX}\"")
      list(APPEND found "hip: ${SWITCHYARD_HIP_CXX}")
    endif()
  endif()

  set(default_python "${Python3_EXECUTABLE}")
  if(DEFINED ENV{SWITCHYARD_TRITON_PYTHON})
    set(default_python "$ENV{SWITCHYARD_TRITON_PYTHON}")
  endif()
  set(SWITCHYARD_TRITON_PYTHON "${default_python}" CACHE FILEPATH "A python that has triton 3.6.0")
  execute_process(COMMAND "${SWITCHYARD_TRITON_PYTHON}" -c
                          "import importlib.metadata as m; assert m.version('triton') == '3.6.0'"
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    string(APPEND entries ", \"triton\": \"${SWITCHYARD_TRITON_PYTHON}\"")
    list(APPEND found "triton: ${SWITCHYARD_TRITON_PYTHON}")
  endif()

  list(JOIN found ", " text)
  message(STATUS "Switchyard kernels: ${text}")
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/switchyard_kernels/toolchains.json" CONTENT "{${entries}}\n" @ONLY)
  set_property(GLOBAL PROPERTY SWITCHYARD_KERNEL_TOOLCHAINS "${CMAKE_BINARY_DIR}/switchyard_kernels/toolchains.json")
endfunction()

function(switchyard_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALL" "SET;DESTINATION;TABLES" "SPACE;TARGETS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SPACE)
    message(FATAL_ERROR "switchyard_add_kernels(<target> SPACE <file.json>... [SET <name>] [TARGETS <target>...] "
                        "[DESTINATION <dir>] [TABLES <dir>] [ALL]): got '${ARGV}'")
  endif()
  switchyard_find_kernel_toolchains()
  get_property(toolchains GLOBAL PROPERTY SWITCHYARD_KERNEL_TOOLCHAINS)

  set(destination "${CMAKE_CURRENT_BINARY_DIR}/share/switchyard")
  if(arg_DESTINATION)
    get_filename_component(destination "${arg_DESTINATION}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  endif()

  set(spaces)
  foreach(space IN LISTS arg_SPACE)
    get_filename_component(space "${space}" ABSOLUTE)
    list(APPEND spaces "${space}")
  endforeach()
  cmake_path(GET SWITCHYARD_KERNELS_TOOL PARENT_PATH tool_folder)
  file(GLOB tools "${tool_folder}/kernel_tools/*.py")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${spaces} ${tools} "${SWITCHYARD_KERNELS_TOOL}")

  set(options)
  if(arg_SET)
    list(APPEND options --set "${arg_SET}")
  endif()
  if(arg_TARGETS)
    list(JOIN arg_TARGETS "," targets)
    list(APPEND options "--targets=${targets}")
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(arm64|aarch64|ARM64)$")
    list(APPEND options --host-arch aarch64)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    list(APPEND options --host-arch x86_64)
  endif()

  set(work "${CMAKE_BINARY_DIR}/switchyard_kernels/${target}")
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${SWITCHYARD_KERNELS_TOOL}" configure ${spaces} ${options}
            --toolchains "${toolchains}" --work "${work}" --out "${destination}" --script "${work}/commands.cmake"
    RESULT_VARIABLE failed ERROR_VARIABLE error)
  if(failed)
    message(FATAL_ERROR "${error}")
  endif()
  include("${work}/commands.cmake")

  set(outputs ${switchyard_kernel_manifests})
  if(arg_TABLES)
    get_filename_component(tables "${arg_TABLES}" ABSOLUTE)
    file(GLOB_RECURSE files RELATIVE "${tables}" CONFIGURE_DEPENDS "${tables}/*.json")
    list(FILTER files EXCLUDE REGEX "^(schema|study)/|^[^/]*$")  # none of these is a table
    foreach(file IN LISTS files)
      add_custom_command(
        OUTPUT "${destination}/tables/${file}"
        COMMAND "${CMAKE_COMMAND}" -E copy "${tables}/${file}" "${destination}/tables/${file}"
        DEPENDS "${tables}/${file}" COMMENT "Table ${file}" VERBATIM)
      list(APPEND outputs "${destination}/tables/${file}")
    endforeach()
  endif()

  if(arg_ALL)
    add_custom_target(${target} ALL DEPENDS ${outputs})
  else()
    add_custom_target(${target} DEPENDS ${outputs})
  endif()
  set_target_properties(${target} PROPERTIES
    SWITCHYARD_DESTINATION "${destination}"
    SWITCHYARD_MANIFESTS "${switchyard_kernel_manifests}")
endfunction()
