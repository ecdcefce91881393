# SPDX-License-Identifier: Apache-2.0
# FILL_IN: the chip, its core, flash and RAM.
set(ETD_CPU FILL_IN) # as gcc's -mcpu names it
include(ports/cortex_m/cortex_m.cmake)
# Interrupt numbers of the UART; without ETD_UART_SEND_IRQ when it has one for both directions. Rings are
# powers of two: the larger the one for sending, the less the line waits for the next frame.
add_compile_definitions(ETD_UART_IRQ=FILL_IN ETD_UART_SEND_IRQ=FILL_IN
  ETD_RECEIVE_RING=FILL_IN ETD_SEND_RING=FILL_IN)

# Bytes of RAM; the linker says when they are too many together. The arena holds planned buffers and method
# state of a model, the trace 16 bytes per event. An MTU is the longest frame, at least 256.
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=FILL_IN
  ETD_ARENA_CAPACITY=FILL_IN
  ETD_INPUT_CAPACITY=FILL_IN
  ETD_TRACE_CAPACITY=FILL_IN
  ETD_MTU=FILL_IN)
