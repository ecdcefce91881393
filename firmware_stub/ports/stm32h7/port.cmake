# SPDX-License-Identifier: Apache-2.0
# STM32H743ZI: Cortex-M7, 2 MiB of flash, 512 KiB of AXI SRAM for everything except the trace, which
# is in the DTCM of 128 KiB. The other RAMs are unused.
set(ETD_CPU cortex-m7)
add_compile_definitions(ETD_DWT_LOCKED) # of Cortex-M7
set(ETD_CORTEX_M_COUNTERS DWT)
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ETD_UART_IRQ=39)

set(ETD_DELEGATES_DEFAULT none)
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=327680
  ETD_ARENA_CAPACITY=122880
  ETD_INPUT_CAPACITY=28672
  ETD_TRACE_CAPACITY=114688
  ETD_DEBUG_CAPACITY=4096
  ETD_MTU=1024)
