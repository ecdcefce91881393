# nRF51822: Cortex-M0, 256 KiB of flash, 16 KiB of RAM.
set(ET_CPU cortex-m0)
include(ports/cortex_m/cortex_m.cmake)
# The UART keeps six bytes itself.
add_compile_definitions(ET_UART_IRQ=2 ET_RECEIVE_RING=128 ET_SEND_RING=32)

set(ET_DELEGATES_DEFAULT none)
set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=4608
  ET_ARENA_CAPACITY=3072
  ET_INPUT_CAPACITY=64
  ET_TRACE_CAPACITY=4352
  ET_MTU=256)
