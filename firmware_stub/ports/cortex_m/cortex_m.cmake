# What bare-metal Cortex-M ports share. A port or its preset sets ET_CPU (such as cortex-m3); the port defines
# ET_UART_IRQ, and ET_UART_SEND_IRQ when sending has an interrupt of its own, and provides memory.ld, which
# states CODE, DATA and STACK_SIZE and includes sections.ld. A port for several chips sets ET_MEMORY to the name
# of the one that it needs.
include(ports/bare_metal/bare_metal.cmake)
set(ET_CORTEX_M_DIR ${CMAKE_CURRENT_LIST_DIR})
list(APPEND ET_SHARED_PORT_SOURCES ${ET_CORTEX_M_DIR}/startup.c)
include_directories(${ET_CORTEX_M_DIR})

set(ET_CPU_FLAGS -mthumb -mcpu=${ET_CPU}${ET_CPU_EXTENSIONS})
if(ET_CPU MATCHES "cortex-m(4|7|33|55)")
  list(APPEND ET_CPU_FLAGS -mfloat-abi=hard)
endif()
add_compile_options(${ET_CPU_FLAGS})
add_compile_definitions(ET_BOARD="${ET_BOARD}" ET_CPU="${ET_CPU}")
if(NOT ET_MEMORY)
  set(ET_MEMORY memory.ld)
endif()
add_link_options(${ET_CPU_FLAGS} -nostartfiles
  -L${ET_CORTEX_M_DIR} -T${CMAKE_CURRENT_SOURCE_DIR}/ports/${ET_PORT}/${ET_MEMORY})
