# What all bare-metal ports share; see bare_metal.h.
list(APPEND ETD_SHARED_PORT_SOURCES ports/bare_metal/main.c)
include_directories(ports/bare_metal include)
