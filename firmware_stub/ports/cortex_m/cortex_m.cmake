# SPDX-License-Identifier: Apache-2.0
# Shared by bare-metal Cortex-M ports. A port or its preset sets ETD_CPU (such as cortex-m3). The
# port defines ETD_UART_IRQ, and ETD_UART_SEND_IRQ if sending has its own interrupt. It provides
# <port>.ld, which defines CODE, DATA and STACK_SIZE and includes sections.ld. A port for several
# chips sets ETD_MEMORY to the name of the linker script to use.
include(ports/bare_metal/bare_metal.cmake)
set(ETD_CORTEX_M_DIR ${CMAKE_CURRENT_LIST_DIR})
list(APPEND ETD_SHARED_PORT_SOURCES ${ETD_CORTEX_M_DIR}/startup_cortex_m.c)
include_directories(${ETD_CORTEX_M_DIR})

set(ETD_CPU_FLAGS -mthumb -mcpu=${ETD_CPU}${ETD_CPU_EXTENSIONS})
if("${ETD_CPU}${ETD_CPU_EXTENSIONS}" MATCHES "cortex-m(4|7|33|35p|52|55|85)" AND
    NOT "${ETD_CPU}${ETD_CPU_EXTENSIONS}" MATCHES "[+]nofp$|[+]nofp[+]")
  list(APPEND ETD_CPU_FLAGS -mfloat-abi=hard)
endif()
add_compile_options(${ETD_CPU_FLAGS})
add_compile_definitions(ETD_BOARD="${ETD_BOARD}" ETD_CPU="${ETD_CPU}")
# No macro of the compiler tells a Cortex-M0+ from a Cortex-M0, which has no VTOR.
if(ETD_CPU STREQUAL "cortex-m0")
  add_compile_definitions(ETD_NO_VTOR)
endif()
# A port offers hardware counters with ETD_CORTEX_M_COUNTERS: DWT or PMU.
if(ETD_CORTEX_M_COUNTERS)
  list(APPEND ETD_SHARED_PORT_SOURCES ${ETD_CORTEX_M_DIR}/counters_cortex_m.c)
  add_compile_definitions(ETD_COUNTERS_${ETD_CORTEX_M_COUNTERS})
endif()
if(NOT ETD_MEMORY)
  set(ETD_MEMORY ${ETD_PORT}.ld)
endif()
add_link_options(${ETD_CPU_FLAGS} -nostartfiles
  -L${ETD_CORTEX_M_DIR} -T${ETD_PORT_DIR}/${ETD_MEMORY})
