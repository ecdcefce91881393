# SPDX-License-Identifier: Apache-2.0
# Arm MPS3 with image AN547 (Corstone-300): Cortex-M55 at 32 MHz, peripherals at 25 MHz. Code and
# data are in the tightly coupled memories, 512 KiB each, without wait states; the buffers are in
# SRAM.
set(ETD_CPU cortex-m55)
# With MVE, binutils 2.40 mistakes the conditional VCVT for VCVTN and rejects it.
set(ETD_CPU_EXTENSIONS +nomve)
# The integer loops of the kernels do not need it.
set(ETD_VECTOR_OPTIONS -mcpu=cortex-m55 -fno-tree-slp-vectorize)
set(ETD_CORTEX_M_COUNTERS PMU)
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/cmsdk_uart.c)
add_compile_definitions(ETD_CLOCK_HZ=32000000u
  ETD_UART=0x59303000u ETD_UART_IRQ=33 ETD_UART_SEND_IRQ=34 ETD_UART_HZ=25000000u)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1114112
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=196608
  ETD_DEBUG_CAPACITY=65536
  ETD_MTU=1024)
