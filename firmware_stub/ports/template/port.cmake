# FILL_IN: the chip, its core, flash and RAM.
set(ET_CPU FILL_IN) # as gcc's -mcpu names it
include(ports/cortex_m/cortex_m.cmake)
# Interrupt numbers of the UART; without ET_UART_SEND_IRQ when it has one for both directions. Rings are
# powers of two: the larger the one for sending, the less the line waits for the next frame.
add_compile_definitions(ET_UART_IRQ=FILL_IN ET_UART_SEND_IRQ=FILL_IN
  ET_RECEIVE_RING=FILL_IN ET_SEND_RING=FILL_IN)

# Bytes of RAM; the linker says when they are too many together. The arena holds planned buffers and method
# state of a model, the trace 16 bytes per event. An MTU is the longest frame, at least 256.
set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=FILL_IN
  ET_ARENA_CAPACITY=FILL_IN
  ET_INPUT_CAPACITY=FILL_IN
  ET_TRACE_CAPACITY=FILL_IN
  ET_MTU=FILL_IN)
