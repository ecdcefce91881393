# SPDX-License-Identifier: Apache-2.0
# Arm bare metal with Debian's gcc-arm-none-eabi and newlib.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++) # for ExecuTorch only
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
