# SPDX-License-Identifier: Apache-2.0
# The native port with ExecuTorch's runtime, from the executorch Python package, instead of ours
# (cmake/executorch.cmake, docs/executorch.md).
include(ports/native/port.cmake)
set(ETD_BOARD "native-executorch" CACHE STRING "name that the board reports")
list(APPEND ETD_SHARED_PORT_SOURCES ports/native/crash.c ports/native/native.c ports/native/pty.c)
set_source_files_properties(ports/native/native.c PROPERTIES COMPILE_DEFINITIONS ETD_BOARD_NAME="${ETD_BOARD}")
