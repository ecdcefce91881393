# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 with image AN505: Cortex-M33 without FPU at 20 MHz, 4 MiB of code memory and 4 MiB of RAM.
set(ETD_CPU cortex-m33)
set(ETD_CPU_EXTENSIONS +nofp)
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/cmsdk_uart.c ports/mps2/cmsdk_timer.c)
add_compile_definitions(ETD_CLOCK_HZ=20000000u ETD_TIMER=0x50000000u
  ETD_UART=0x50200000u ETD_UART_IRQ=32 ETD_UART_SEND_IRQ=33 ETD_UART_HZ=ETD_CLOCK_HZ)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=1048576
  ETD_MTU=1024)
