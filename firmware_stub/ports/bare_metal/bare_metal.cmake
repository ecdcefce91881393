# SPDX-License-Identifier: Apache-2.0
# Shared by all bare-metal ports; see bare_metal.h.
list(APPEND ETD_SHARED_PORT_SOURCES ports/bare_metal/bare_metal.c)
include_directories(ports/bare_metal include)
# The same bytes wherever the sources and the build directory are (docs/release.md).
add_compile_options(
  "-ffile-prefix-map=${ETD_PORT_DIR}=port" "-ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}=firmware_stub"
  "-ffile-prefix-map=${CMAKE_CURRENT_BINARY_DIR}=build")
