# SPDX-License-Identifier: Apache-2.0
# The firmware as a process of this host: memory is plenty, the line is a pseudo-terminal.
set(ETD_BOARD_DEFINITIONS
  ETD_MODEL_CAPACITY=4194304
  ETD_ARENA_CAPACITY=4194304
  ETD_INPUT_CAPACITY=262144
  ETD_TRACE_CAPACITY=4194304
  ETD_DEBUG_CAPACITY=16777216
  ETD_MTU=4096)
# Finding a function at its first call takes kilobytes of stack, more or less from run to run: find all at the start.
add_link_options(-Wl,-z,now)
