# SPDX-License-Identifier: Apache-2.0
# QEMU's RISC-V "virt" machine: an RV32 core and 128 MiB of RAM, which also holds the code.
add_compile_options(-march=rv32imac_zicsr -mabi=ilp32 --specs=picolibc.specs)
add_compile_definitions(ETD_BOARD="${ETD_BOARD}" ETD_RECEIVE_RING=1024 ETD_SEND_RING=1024)
# Without the C library's start-up code; the port has its own.
add_link_options(-march=rv32imac -mabi=ilp32 --specs=picolibc.specs -nostartfiles
  -T${CMAKE_CURRENT_SOURCE_DIR}/ports/riscv_virt/riscv_virt.ld)
include(ports/bare_metal/bare_metal.cmake)

set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=1310720
  ETD_ARENA_CAPACITY=524288
  ETD_INPUT_CAPACITY=131072
  ETD_TRACE_CAPACITY=262144
  ETD_DEBUG_CAPACITY=1048576
  ETD_MTU=1024)
