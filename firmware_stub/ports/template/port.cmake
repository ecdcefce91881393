# SPDX-License-Identifier: Apache-2.0
# FILL_IN: the chip, its core, flash and RAM.
set(ETD_CPU FILL_IN) # as gcc's -mcpu names it
include(ports/cortex_m/cortex_m.cmake)
# Interrupt numbers of the UART; omit ETD_UART_SEND_IRQ if one interrupt serves both directions.
# With little RAM, set ETD_RECEIVE_RING and ETD_SEND_RING, too (bare_metal.h).
add_compile_definitions(ETD_UART_IRQ=FILL_IN ETD_UART_SEND_IRQ=FILL_IN)

# Sizes in bytes; the linker reports if they exceed the RAM. The arena holds planned buffers and
# method state of a model; the trace needs 16 bytes per event. The MTU is the longest frame, at
# least 256.
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=FILL_IN
  ETD_ARENA_CAPACITY=FILL_IN
  ETD_INPUT_CAPACITY=FILL_IN
  ETD_TRACE_CAPACITY=FILL_IN
  ETD_MTU=FILL_IN)
