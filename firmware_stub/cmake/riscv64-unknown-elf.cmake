# SPDX-License-Identifier: Apache-2.0
# RISC-V bare metal (also 32-bit) with Debian's gcc-riscv64-unknown-elf and picolibc.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
