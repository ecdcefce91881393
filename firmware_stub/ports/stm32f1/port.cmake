# SPDX-License-Identifier: Apache-2.0
# STM32F100RB: Cortex-M3 at 8 MHz after reset (24 MHz in QEMU), 128 KiB of flash, 8 KiB of RAM. There is no room
# for uploads or for all operators: a model is placed in the image, and brings its own.
set(ETD_CPU cortex-m3)
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/stm32_usart.c)
set(ETD_CLOCK_HZ 8000000 CACHE STRING "rate of SysTick in Hz; change it for a simulator with another rate")
add_compile_definitions(ETD_RECEIVE_RING=128 ETD_SEND_RING=32 ETD_CLOCK_HZ=${ETD_CLOCK_HZ}u
  ETD_UART=0x40013800u ETD_UART_IRQ=37 ETD_UART_HZ=8000000u
  ETD_UART_HOLDS_INTERRUPT)

set(ETD_DELEGATES_DEFAULT none)
set(ETD_OPERATORS_DEFAULT none)
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=0
  ETD_ARENA_CAPACITY=2304
  ETD_INPUT_CAPACITY=64
  ETD_TRACE_CAPACITY=1536
  ETD_MTU=256)
