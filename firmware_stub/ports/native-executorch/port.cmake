# SPDX-License-Identifier: Apache-2.0
# The native port with ExecuTorch's runtime, from the executorch wheel, instead of ours
# (docs/executorch.md). The wheel's CMake package is found through executorch_DIR.
include(ports/native/port.cmake)
option(ETD_USE_ETDUMPGEN "trace with ExecuTorch's ETDumpGen instead of our tracer" OFF)
set(ETD_DELEGATES_DEFAULT none)
set(ETD_BOARD "native-executorch" CACHE STRING "name that the board reports")

enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS OFF)
find_package(executorch CONFIG REQUIRED)

list(FILTER ETD_SOURCES EXCLUDE REGEX "/src/(runtime|kernels|delegates)/")
list(APPEND ETD_SOURCES src/runtime/error.c executorch/runtime.cpp)
list(APPEND ETD_SHARED_PORT_SOURCES ports/native/crash.c ports/native/native.c ports/native/pty.c)
set_source_files_properties(ports/native/native.c PROPERTIES COMPILE_DEFINITIONS ETD_BOARD_NAME="${ETD_BOARD}")

# The package's variables work with every CMake, its targets only with 3.28 and later.
include_directories(SYSTEM ${EXECUTORCH_INCLUDE_DIRS})
include_directories(executorch)
# The names are reported in HELLO.
if(EXECUTORCH_LIBRARIES MATCHES "kernels_optimized")
  set(ETD_KERNEL_LIBRARY "ExecuTorch's optimized kernels")
else()
  set(ETD_KERNEL_LIBRARY "ExecuTorch's portable kernels")
endif()
set_source_files_properties(executorch/runtime.cpp PROPERTIES COMPILE_DEFINITIONS
  "${EXECUTORCH_COMPILE_DEFINITIONS};$<$<BOOL:${ETD_USE_ETDUMPGEN}>:ETD_USE_ETDUMPGEN>;ETD_RUNTIME_NAME=\"ExecuTorch ${executorch_VERSION}\";ETD_KERNEL_LIBRARY=\"${ETD_KERNEL_LIBRARY}\"")
link_directories(${EXECUTORCH_RUNTIME_LIBRARY_DIR})
link_libraries(${EXECUTORCH_LIBRARIES} ${EXECUTORCH_QUANTIZED_KERNELS_LIBRARY})
set(CMAKE_BUILD_RPATH ${EXECUTORCH_RUNTIME_LIBRARY_DIR})
