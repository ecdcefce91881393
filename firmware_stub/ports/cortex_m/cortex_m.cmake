# What bare-metal Cortex-M ports share. A port sets ET_CPU_FLAGS (such as -mcpu=cortex-m3) and provides
# memory.ld, which states CODE, DATA and STACK_SIZE and includes sections.ld.
set(ET_CORTEX_M_DIR ${CMAKE_CURRENT_LIST_DIR})
set(ET_SHARED_PORT_SOURCES ${ET_CORTEX_M_DIR}/startup.c)
include_directories(${ET_CORTEX_M_DIR})

add_compile_options(-mthumb ${ET_CPU_FLAGS})
add_link_options(-mthumb ${ET_CPU_FLAGS} -nostartfiles
  -L${ET_CORTEX_M_DIR} -T${CMAKE_CURRENT_SOURCE_DIR}/ports/${ET_PORT}/memory.ld)
