# SPDX-License-Identifier: Apache-2.0
# RP2040 on the Raspberry Pi Pico: Cortex-M0+ at 125 MHz, 2 MiB of flash, 264 KiB of RAM.
set(ETD_CPU cortex-m0plus)
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/pl011_uart.c)
add_compile_definitions(ETD_CLOCK_HZ=125000000u
  ETD_UART=0x40034000u ETD_UART_IRQ=20 ETD_UART_HZ=ETD_CLOCK_HZ)

set(ETD_DELEGATES_DEFAULT none)
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=98304
  ETD_ARENA_CAPACITY=65536
  ETD_INPUT_CAPACITY=8192
  ETD_TRACE_CAPACITY=16384
  ETD_DEBUG_CAPACITY=4096
  ETD_MTU=1024)
