# SPDX-License-Identifier: Apache-2.0
# Shared by RISC-V machines: start-up code, and the devices of QEMU's "virt" machine. ETD_ISA is the instruction set.
add_compile_options(-march=${ETD_ISA}_zicsr -mabi=ilp32 --specs=picolibc.specs)
add_compile_definitions(ETD_BOARD="${ETD_BOARD}" ETD_ISA="${ETD_ISA}")
# Without the C library's start-up code; the port has its own.
add_link_options(-march=${ETD_ISA} -mabi=ilp32 --specs=picolibc.specs -nostartfiles
  -L${CMAKE_CURRENT_SOURCE_DIR}/ports/riscv)
include_directories(ports/riscv)
include(ports/bare_metal/bare_metal.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/riscv/counters_riscv.c ports/riscv/startup_riscv.c
  ports/riscv/virt_devices.c)
