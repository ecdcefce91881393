# TI (Luminary) Stellaris LM3S6965: Cortex-M3, 256 KiB of flash, 64 KiB of RAM.
set(ET_CPU cortex-m3)
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ET_UART_IRQ=5 ET_RECEIVE_RING=512 ET_SEND_RING=512)

set(ET_DELEGATES_DEFAULT none)
set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=24576
  ET_ARENA_CAPACITY=16384
  ET_INPUT_CAPACITY=2048
  ET_TRACE_CAPACITY=12288
  ET_MTU=512)
