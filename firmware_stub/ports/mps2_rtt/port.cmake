# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 (AN385) whose link goes through a debug probe (RTT) instead of a UART.
include(ports/cortex_m/cortex_m.cmake)
# This port has its own main: without a UART there is no interrupt.
list(REMOVE_ITEM ETD_SHARED_PORT_SOURCES ports/bare_metal/bare_metal.c)
list(APPEND ETD_SHARED_PORT_SOURCES ports/mps2/cmsdk_timer.c ports/rtt/etd_rtt.c)
include_directories(ports/rtt)
add_compile_definitions(ETD_CLOCK_HZ=25000000u ETD_UART_IRQ=0)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=1048576
  ETD_MTU=1024)
