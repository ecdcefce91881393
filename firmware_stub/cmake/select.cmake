# SPDX-License-Identifier: Apache-2.0
# Selective build. A list has lines MACRO("name", symbol). This function gives a registry only the
# lines whose names are in the variable `chosen`, and the linker drops what is not referenced. An
# empty variable selects all lines.
function(etd_select chosen macro list registry definition)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${list})
  if(NOT ${chosen})
    return()
  endif()
  file(STRINGS ${list} lines REGEX "^${macro}")
  set(selected_lines "")
  foreach(name ${${chosen}})
    set(selected ${lines})
    string(REGEX REPLACE "([.])" "[\\1]" pattern ${name})
    list(FILTER selected INCLUDE REGEX "\"${pattern}\"")
    if(NOT selected AND NOT name STREQUAL none)
      message(FATAL_ERROR "${chosen}: ${name} not found; see ${list}")
    endif()
    string(APPEND selected_lines "${selected}\n")
  endforeach()
  get_filename_component(file ${list} NAME)
  file(CONFIGURE OUTPUT ${chosen}_${file} CONTENT "${selected_lines}" @ONLY)
  set_source_files_properties(${registry} PROPERTIES
    COMPILE_DEFINITIONS "${definition}=\"${CMAKE_CURRENT_BINARY_DIR}/${chosen}_${file}\"")
endfunction()

# A port without room for uploads sets ETD_OPERATORS_DEFAULT to none: a placed model brings its own.
set(ETD_OPERATORS "${ETD_OPERATORS_DEFAULT}" CACHE STRING "operators to link, such as aten::add.out;cortex_m::softmax.out; empty: all")
etd_select(ETD_OPERATORS ETD_OPERATOR src/kernels/operators.def src/kernels/kernel_registry.c ETD_OPERATOR_LIST)

# A port may set ETD_DELEGATES_DEFAULT.
set(ETD_DELEGATES "${ETD_DELEGATES_DEFAULT}" CACHE STRING "backends to link, such as SimulatedNpu; none; empty: all")
etd_select(ETD_DELEGATES ETD_DELEGATE src/delegates/delegates.def src/delegates/delegate_registry.c ETD_DELEGATE_LIST)
if(NOT ETD_DELEGATES OR "SimulatedNpu" IN_LIST ETD_DELEGATES)
  add_compile_definitions(ETD_NPU_LINKED=1)
endif()
