# SPDX-License-Identifier: Apache-2.0
# QEMU's RISC-V "virt" machine: an RV32 core and 128 MiB of RAM, which also holds the code.
set(ETD_ISA rv32imac)
include(ports/riscv/riscv.cmake)
add_compile_definitions(ETD_COUNTER="mcycle" ETD_DEVICES=0u)
add_link_options(-T${CMAKE_CURRENT_SOURCE_DIR}/ports/riscv_virt/riscv_virt.ld)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=1048576
  ETD_MTU=1024)
