# STM32H743ZI: Cortex-M7, 2 MiB of flash; 512 KiB of AXI SRAM for everything but the trace, which lies in the DTCM
# of 128 KiB. The other RAMs are unused.
set(ET_CPU cortex-m7)
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ET_UART_IRQ=39 ET_RECEIVE_RING=1024 ET_SEND_RING=1024)

set(ET_DELEGATES_DEFAULT none)
set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=327680
  ET_ARENA_CAPACITY=122880
  ET_INPUT_CAPACITY=28672
  ET_TRACE_CAPACITY=114688
  ET_DEBUG_CAPACITY=4096
  ET_MTU=1024)
