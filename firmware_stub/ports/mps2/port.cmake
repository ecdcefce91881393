# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 with image AN385, AN386 or AN500, on UART 0.
include(ports/mps2/mps2.cmake)
list(APPEND ETD_SHARED_PORT_SOURCES ports/cortex_m/cmsdk_uart.c)
add_compile_definitions(ETD_UART=0x40004000u ETD_UART_IRQ=0 ETD_UART_SEND_IRQ=1 ETD_UART_HZ=ETD_CLOCK_HZ)
