# SPDX-License-Identifier: Apache-2.0
# Shared by the ports of Arm MPS2 with image AN385, AN386 or AN500. They differ in the core (ETD_CPU,
# set by the preset). All run at 25 MHz with 4 MiB of code memory and 4 MiB of RAM, and have the
# devices at the same addresses.
set(ETD_MEMORY ../mps2/mps2.ld)
include(ports/cortex_m/cortex_m.cmake)
add_compile_definitions(ETD_CLOCK_HZ=25000000u)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=1048576
  ETD_MTU=1024)
