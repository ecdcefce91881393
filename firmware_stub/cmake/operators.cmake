# Selective build: with ET_OPERATORS set, registry.c gets only the lines of operators.def that it names, and
# the linker drops the kernels that nothing refers to.
set(ET_OPERATORS "" CACHE STRING "operators to link, such as aten::add.out;cortex_m::softmax.out; empty: all")
set(ET_OPERATOR_LIST ${CMAKE_CURRENT_SOURCE_DIR}/src/kernels/operators.def)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ET_OPERATOR_LIST})

if(ET_OPERATORS)
  file(STRINGS ${ET_OPERATOR_LIST} ET_OPERATOR_LINES REGEX "^ET_OPERATOR")
  set(ET_SELECTED_LINES "")
  foreach(operator ${ET_OPERATORS})
    set(selected ${ET_OPERATOR_LINES})
    string(REGEX REPLACE "([.])" "[\\1]" pattern ${operator})
    list(FILTER selected INCLUDE REGEX "\"${pattern}\"")
    if(NOT selected)
      message(FATAL_ERROR "ET_OPERATORS: no kernel for ${operator}; src/kernels/operators.def lists them")
    endif()
    string(APPEND ET_SELECTED_LINES "${selected}\n")
  endforeach()
  file(CONFIGURE OUTPUT selected_operators.def CONTENT "${ET_SELECTED_LINES}" @ONLY)
  set_source_files_properties(src/kernels/registry.c PROPERTIES
    COMPILE_DEFINITIONS "ET_OPERATOR_LIST=\"${CMAKE_CURRENT_BINARY_DIR}/selected_operators.def\"")
endif()
