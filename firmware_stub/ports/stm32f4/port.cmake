# SPDX-License-Identifier: Apache-2.0
# STM32F4, Cortex-M4. ETD_CHIP is stm32f405 (1 MiB of flash, 128 KiB of RAM and 64 KiB of unused
# core-coupled RAM) or stm32f446 (512 KiB, 128 KiB).
set(ETD_CPU cortex-m4)
set(ETD_CHIP stm32f405 CACHE STRING "stm32f405 (Netduino Plus 2) or stm32f446 (NUCLEO-F446RE)")
set(ETD_MEMORY ${ETD_CHIP}.ld)
set(ETD_CORTEX_M_COUNTERS DWT)
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/stm32_usart.c)
if(ETD_CHIP STREQUAL stm32f446)
  set(ETD_TIMER_HZ 90000000)
  add_compile_definitions(ETD_NUCLEO_F446RE
    ETD_UART=0x40004400u ETD_UART_IRQ=38 ETD_UART_HZ=45000000u)
else()
  set(ETD_TIMER_HZ 16000000 CACHE STRING "rate of TIM2 in Hz; change it for a simulator with another rate")
  add_compile_definitions(ETD_UART=0x40011000u ETD_UART_IRQ=37 ETD_UART_HZ=16000000u)
endif()
add_compile_definitions(ETD_TIMER_HZ=${ETD_TIMER_HZ}u)

set(ETD_DELEGATES_DEFAULT none)
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=57344
  ETD_ARENA_CAPACITY=34816
  ETD_INPUT_CAPACITY=4096
  ETD_TRACE_CAPACITY=16384
  ETD_DEBUG_CAPACITY=2048
  ETD_MTU=1024)
