# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 with image AN385, AN386 or AN500. They differ in the core (ETD_CPU, set by the preset).
# All run at 25 MHz with 4 MiB of code memory and 4 MiB of RAM, and have the devices at the same
# addresses.
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/cmsdk_uart.c)
add_compile_definitions(ETD_RECEIVE_RING=1024 ETD_SEND_RING=1024 ETD_CLOCK_HZ=25000000u
  ETD_UART=0x40004000u ETD_UART_IRQ=0 ETD_UART_SEND_IRQ=1 ETD_UART_HZ=ETD_CLOCK_HZ)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=1048576
  ETD_MTU=1024)
