# SPDX-License-Identifier: Apache-2.0
# nRF51822 (Cortex-M0, 256 KiB of flash, 16 KiB of RAM), nRF52833 (Cortex-M4, 512 KiB, 128 KiB) and
# nRF52840 (Cortex-M4, 1 MiB, 256 KiB). A preset sets the chip and the board's pins; P1.08 is 40.
set(ETD_CHIP nrf51822 CACHE STRING "nrf51822, nrf52833 or nrf52840")
set(ETD_PIN_SEND 24 CACHE STRING "transmit pin; the default is that of the micro:bit v1")
set(ETD_PIN_RECEIVE 25 CACHE STRING "receive pin")
set(ETD_MEMORY ${ETD_CHIP}.ld CACHE STRING "linker script of the chip's memory")
if(ETD_CHIP STREQUAL nrf51822)
  set(ETD_CPU cortex-m0)
else()
  set(ETD_CPU cortex-m4)
  set(ETD_CORTEX_M_COUNTERS DWT)
  add_compile_definitions(ETD_NRF52)
endif()
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ETD_UART_IRQ=2 ETD_PIN_SEND=${ETD_PIN_SEND}u ETD_PIN_RECEIVE=${ETD_PIN_RECEIVE}u)

set(ETD_DELEGATES_DEFAULT none)
if(ETD_CHIP STREQUAL nrf51822)
  # The UART itself buffers six bytes.
  add_compile_definitions(ETD_RECEIVE_RING=128 ETD_SEND_RING=32)
  set(ETD_BOARD_DEFINITIONS
    ETD_MODEL_CAPACITY=4608
    ETD_ARENA_CAPACITY=3072
    ETD_INPUT_CAPACITY=64
    ETD_TRACE_CAPACITY=4096
    ETD_MTU=256)
  return()
endif()

set(ETD_BOARD_DEFINITIONS ETD_INPUT_CAPACITY=4096 ETD_TRACE_CAPACITY=16384 ETD_DEBUG_CAPACITY=2048 ETD_MTU=1024)
if(ETD_CHIP STREQUAL nrf52833)
  list(APPEND ETD_BOARD_DEFINITIONS ETD_MODEL_CAPACITY=57344 ETD_ARENA_CAPACITY=34816)
else()
  list(APPEND ETD_BOARD_DEFINITIONS ETD_MODEL_CAPACITY=131072 ETD_ARENA_CAPACITY=65536)
endif()
