# SPDX-License-Identifier: Apache-2.0
# C++ in the firmware. On bare metal: start-up runs constructors, and there are no exceptions, no heap and no
# destructors of static objects (ports/bare_metal/cplusplus.c).
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
  list(APPEND ETD_SHARED_PORT_SOURCES ports/bare_metal/cplusplus.c)
  add_compile_definitions(ETD_CPLUSPLUS)
  # newlib has no locks for -fthreadsafe-statics.
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions;-fno-rtti;-fno-threadsafe-statics>")
endif()
