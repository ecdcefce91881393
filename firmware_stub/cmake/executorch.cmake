# SPDX-License-Identifier: Apache-2.0
# ExecuTorch's runtime behind the server, instead of src/runtime, src/kernels and src/delegates
# (docs/executorch.md). executorch_DIR is the folder of its CMake package: that of the Python package for this
# host, or that of an installation for the board's core.
include(cmake/cplusplus.cmake)
set(ETD_DELEGATES_DEFAULT none)
set(ETD_KERNEL_LIBRARIES "" CACHE STRING
  "ExecuTorch's libraries that register kernels or backends, such as portable_ops_lib;quantized_ops_lib")
option(ETD_USE_ETDUMPGEN "trace with ExecuTorch's ETDumpGen instead of our tracer" OFF)

find_package(executorch CONFIG REQUIRED)
list(FILTER ETD_SOURCES EXCLUDE REGEX "/src/(runtime|kernels|delegates)/")
list(APPEND ETD_SOURCES src/runtime/error.c executorch/runtime.cpp)
# The package's variables work with every CMake, the targets of the Python package only with 3.28 and later.
include_directories(SYSTEM ${EXECUTORCH_INCLUDE_DIRS})
include_directories(executorch)

if(TARGET executorch_core)
  include(cmake/executorch_installed.cmake)
else()
  set(ETD_IMAGE_LIBRARIES ${EXECUTORCH_LIBRARIES} ${EXECUTORCH_QUANTIZED_KERNELS_LIBRARY})
  link_directories(${EXECUTORCH_RUNTIME_LIBRARY_DIR})
  set(CMAKE_BUILD_RPATH ${EXECUTORCH_RUNTIME_LIBRARY_DIR})
  set(kernels portable)
  if(EXECUTORCH_LIBRARIES MATCHES "kernels_optimized")
    set(kernels optimized)
  endif()
endif()

# HELLO reports these names.
list(JOIN kernels ", " kernels)
set(ETD_KERNEL_LIBRARY "ExecuTorch's ${kernels} kernels")
# An installed package exports no version.
if(NOT executorch_VERSION)
  set(executorch_VERSION ${ETD_EXECUTORCH_VERSION})
endif()
string(STRIP "ExecuTorch ${executorch_VERSION}" ETD_RUNTIME_NAME)
# Without the tracer's definition ExecuTorch's headers would declare its scopes differently from its libraries.
set_source_files_properties(executorch/runtime.cpp PROPERTIES COMPILE_DEFINITIONS
  "C10_USING_CUSTOM_GENERATED_MACROS;ET_EVENT_TRACER_ENABLED;$<$<BOOL:${ETD_USE_ETDUMPGEN}>:ETD_USE_ETDUMPGEN>;ETD_RUNTIME_NAME=\"${ETD_RUNTIME_NAME}\";ETD_KERNEL_LIBRARY=\"${ETD_KERNEL_LIBRARY}\"")
