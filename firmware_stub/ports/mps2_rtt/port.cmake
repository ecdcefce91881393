# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 (AN385) whose link goes through a debug probe (RTT) instead of a UART.
include(ports/mps2/mps2.cmake)
# This port has its own main: without a UART there is no interrupt.
list(REMOVE_ITEM ETD_SHARED_PORT_SOURCES ports/bare_metal/bare_metal.c)
list(APPEND ETD_SHARED_PORT_SOURCES ports/mps2/cmsdk_timer.c ports/rtt/etd_rtt.c)
include_directories(ports/rtt)
add_compile_definitions(ETD_UART_IRQ=0)
