# SPDX-License-Identifier: Apache-2.0
# The firmware as a process of the host: ample memory; the line is a pseudo-terminal.
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=67108864
  ETD_ARENA_CAPACITY=67108864
  ETD_INPUT_CAPACITY=16777216
  ETD_TRACE_CAPACITY=4194304
  ETD_DEBUG_CAPACITY=16777216
  ETD_MTU=4096)
# Bind all functions at start-up: binding at the first call takes kilobytes of stack, which vary
# from run to run.
add_link_options(-Wl,-z,now)
