# The firmware as a process of this host: memory is plenty, the line is a pseudo-terminal.
set(ET_BOARD_DEFINITIONS
  ET_MODEL_CAPACITY=4194304
  ET_ARENA_CAPACITY=4194304
  ET_INPUT_CAPACITY=262144
  ET_TRACE_CAPACITY=4194304
  ET_DEBUG_CAPACITY=16777216
  ET_MTU=4096)
# Finding a function at its first call takes kilobytes of stack, more or less from run to run: find all at the start.
add_link_options(-Wl,-z,now)
