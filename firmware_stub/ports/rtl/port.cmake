# SPDX-License-Identifier: Apache-2.0
# The source code of a core under Verilator, with 16 MiB of RAM, which also holds the code.
set(ETD_ISA rv32imc)
include(ports/riscv/riscv.cmake)
set(ETD_COUNTER "mcycle" CACHE STRING "counter of ticks: mcycle (cycles) or minstret (instructions)")
set(ETD_CORE "" CACHE STRING "cv32e40p, ibex or vexriscv")
set(memory rtl.ld)
set(devices 0u)
if(ETD_CORE STREQUAL "vexriscv")
  set(memory rtl_vexriscv.ld)
  set(devices 0x80000000u)
  add_compile_definitions(ETD_VEXRISCV)
endif()
if(ETD_CORE STREQUAL "cv32e40p")
  add_compile_definitions(ETD_COUNTERS_CV32E40P)
elseif(ETD_CORE STREQUAL "ibex")
  add_compile_definitions(ETD_COUNTERS_IBEX)
endif()
add_compile_definitions(ETD_COUNTER="${ETD_COUNTER}" ETD_DEVICES=${devices})
add_link_options(-T${CMAKE_CURRENT_SOURCE_DIR}/ports/rtl/${memory})

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=524288
  ETD_MTU=1024)
