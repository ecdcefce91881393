# SPDX-License-Identifier: Apache-2.0
# QEMU's RISC-V "virt" machine with two harts. The first one serves the link and executes the model.
set(ETD_ISA rv32imac)
include(ports/riscv/riscv.cmake)
add_compile_definitions(ETD_COUNTER="mcycle" ETD_DEVICES=0u)
add_link_options(-T${ETD_PORT_DIR}/two_cores.ld)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_MTU=1024)
