# Arm MPS2 with the AN385 image: Cortex-M3 at 25 MHz, 4 MiB of code memory, 4 MiB of RAM.
set(ET_CPU_FLAGS -mcpu=cortex-m3)
include(ports/cortex_m/cortex_m.cmake)

set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=1310720
  ET_ARENA_CAPACITY=524288
  ET_INPUT_CAPACITY=131072
  ET_TRACE_CAPACITY=262144
  ET_MTU=1024)
