# nRF51822 (Cortex-M0, 256 KiB of flash, 16 KiB of RAM), nRF52833 (Cortex-M4, 512 KiB, 128 KiB) and nRF52840
# (Cortex-M4, 1 MiB, 256 KiB). A preset names the chip and its board's pins, P1.08 as 40.
set(ET_CHIP nrf51822 CACHE STRING "nrf51822, nrf52833 or nrf52840")
set(ET_PIN_SEND 24 CACHE STRING "pin that sends; the default is the micro:bit v1's")
set(ET_PIN_RECEIVE 25 CACHE STRING "pin that receives")
set(ET_MEMORY ${ET_CHIP}.ld CACHE STRING "linker script of the chip's memory")
if(ET_CHIP STREQUAL nrf51822)
  set(ET_CPU cortex-m0)
else()
  set(ET_CPU cortex-m4)
  add_compile_definitions(ET_NRF52)
endif()
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ET_UART_IRQ=2 ET_PIN_SEND=${ET_PIN_SEND}u ET_PIN_RECEIVE=${ET_PIN_RECEIVE}u)

set(ET_DELEGATES_DEFAULT none)
if(ET_CHIP STREQUAL nrf51822)
  # The UART keeps six bytes itself.
  add_compile_definitions(ET_RECEIVE_RING=128 ET_SEND_RING=32)
  set(ET_BOARD_DEFINITIONS
    ET_MODEL_CAPACITY=4608
    ET_ARENA_CAPACITY=3072
    ET_INPUT_CAPACITY=64
    ET_TRACE_CAPACITY=4352
    ET_MTU=256)
  return()
endif()

add_compile_definitions(ET_RECEIVE_RING=1024 ET_SEND_RING=1024)
set(ET_BOARD_DEFINITIONS ET_INPUT_CAPACITY=4096 ET_TRACE_CAPACITY=16384 ET_DEBUG_CAPACITY=2048 ET_MTU=1024)
if(ET_CHIP STREQUAL nrf52833)
  list(APPEND ET_BOARD_DEFINITIONS ET_MODEL_CAPACITY=57344 ET_ARENA_CAPACITY=34816)
else()
  list(APPEND ET_BOARD_DEFINITIONS ET_MODEL_CAPACITY=131072 ET_ARENA_CAPACITY=65536)
endif()
