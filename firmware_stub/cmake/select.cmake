# Selective build. A registry is made from a list of lines MACRO("name", symbol); this function gives it only
# those lines whose names `chosen` holds, and the linker drops what nothing refers to. Empty: all of them.
function(et_select chosen macro list registry definition)
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
      message(FATAL_ERROR "${chosen}: there is no ${name}; ${list} lists what there is")
    endif()
    string(APPEND selected_lines "${selected}\n")
  endforeach()
  get_filename_component(file ${list} NAME)
  file(CONFIGURE OUTPUT selected_${file} CONTENT "${selected_lines}" @ONLY)
  set_source_files_properties(${registry} PROPERTIES
    COMPILE_DEFINITIONS "${definition}=\"${CMAKE_CURRENT_BINARY_DIR}/selected_${file}\"")
endfunction()

set(ET_OPERATORS "" CACHE STRING "operators to link, such as aten::add.out;cortex_m::softmax.out; empty: all")
et_select(ET_OPERATORS ET_OPERATOR src/kernels/operators.def src/kernels/registry.c ET_OPERATOR_LIST)

# A port may set ET_DELEGATES_DEFAULT.
set(ET_DELEGATES "${ET_DELEGATES_DEFAULT}" CACHE STRING "backends to link, such as SimulatedNpu; none; empty: all")
et_select(ET_DELEGATES ET_DELEGATE src/delegates/delegates.def src/delegates/registry.c ET_DELEGATE_LIST)
if(NOT ET_DELEGATES OR "SimulatedNpu" IN_LIST ET_DELEGATES)
  add_compile_definitions(ET_NPU_LINKED=1)
endif()
