# Arm MPS3 with the image AN547 (Corstone-300): Cortex-M55 at 32 MHz, peripherals at 25 MHz. Code and data
# are in the tightly coupled memories, 512 KiB each, which have no wait states; the buffers in SRAM.
set(ET_CPU cortex-m55)
# With vectors, binutils 2.40 takes the conditional conversion VCVT for VCVTN and refuses it.
set(ET_CPU_EXTENSIONS +nomve)
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ET_SHARED_PORT_SOURCES ports/cortex_m/cmsdk_uart.c)
add_compile_definitions(ET_RECEIVE_RING=1024 ET_SEND_RING=1024 ET_CLOCK_HZ=32000000u
  ET_UART=0x59303000u ET_UART_IRQ=33 ET_UART_SEND_IRQ=34 ET_UART_HZ=25000000u)

set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=1114112
  ET_ARENA_CAPACITY=524288
  ET_INPUT_CAPACITY=131072
  ET_TRACE_CAPACITY=196608
  ET_DEBUG_CAPACITY=65536
  ET_MTU=1024)
