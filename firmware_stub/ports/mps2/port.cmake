# Arm MPS2 with the image AN385, AN386 or AN500, which differ in the core (ET_CPU, from the preset): all at
# 25 MHz, 4 MiB of code memory, 4 MiB of RAM, devices at the same addresses.
include(ports/cortex_m/cortex_m.cmake)
list(APPEND ET_SHARED_PORT_SOURCES ports/cortex_m/cmsdk_uart.c)
add_compile_definitions(ET_RECEIVE_RING=1024 ET_SEND_RING=1024 ET_CLOCK_HZ=25000000u
  ET_UART=0x40004000u ET_UART_IRQ=0 ET_UART_SEND_IRQ=1 ET_UART_HZ=ET_CLOCK_HZ)

set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=1310720
  ET_ARENA_CAPACITY=524288
  ET_INPUT_CAPACITY=131072
  ET_TRACE_CAPACITY=262144
  ET_DEBUG_CAPACITY=1048576
  ET_MTU=1024)
