# SPDX-License-Identifier: Apache-2.0
# Shared by all bare-metal ports; see bare_metal.h.
list(APPEND ETD_SHARED_PORT_SOURCES ports/bare_metal/bare_metal.c)
include_directories(ports/bare_metal include)
