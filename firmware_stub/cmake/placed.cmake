# SPDX-License-Identifier: Apache-2.0
# placed_firmware: the firmware with the model ETD_PLACED_MODEL in its image. It shares the objects of
# the firmware without a model, except for the list of operators.
set(ETD_PLACED_NAME "model" CACHE STRING "name that the firmware reports for the model")
set(ETD_PLACED_BUILD_ID "unnamed" CACHE STRING "build id of placed_firmware")
set(ETD_PLACED_CAPACITIES "" CACHE STRING
  "sizes that replace the port's, such as ETD_MODEL_CAPACITY=0;ETD_ARENA_CAPACITY=8192")

set(definitions ${ETD_BOARD_DEFINITIONS})
foreach(capacity ${ETD_PLACED_CAPACITIES})
  string(REGEX REPLACE "=.*" "=" name ${capacity})
  list(FILTER definitions EXCLUDE REGEX "^${name}")
  list(APPEND definitions ${capacity})
endforeach()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ETD_PLACED_MODEL})
file(SIZE ${ETD_PLACED_MODEL} size)
file(SHA256 ${ETD_PLACED_MODEL} digest)
string(REGEX REPLACE "(..)" "0x\\1," digest ${digest})

# A source file has one set of definitions, so this image has copies.
set(app ${PROJECT_BINARY_DIR}/placed/app.c)
configure_file(src/app/app.c ${app} COPYONLY)
etd_add_firmware(placed_firmware ${app} src/app/placed_model.c)

# Firmware that takes no uploads links the operators of its model only. The names of operators are strings of
# the file; the overloads of a name are linked together.
if(NOT ETD_EXECUTORCH AND "ETD_MODEL_CAPACITY=0" IN_LIST definitions)
  file(STRINGS src/kernels/operators.def lines REGEX "^ETD_OPERATOR")
  file(STRINGS ${ETD_PLACED_MODEL} names REGEX "^[A-Za-z0-9_]+::[A-Za-z0-9_.]+$")
  set(ETD_PLACED_OPERATORS none)
  foreach(line ${lines})
    string(REGEX MATCH "\"(([^\".]+)[^\"]*)\"" match ${line})
    if(CMAKE_MATCH_2 IN_LIST names)
      list(APPEND ETD_PLACED_OPERATORS ${CMAKE_MATCH_1})
    endif()
  endforeach()
  set(registry ${PROJECT_BINARY_DIR}/placed/kernel_registry.c)
  configure_file(src/kernels/kernel_registry.c ${registry} COPYONLY)
  etd_select(ETD_PLACED_OPERATORS ETD_OPERATOR src/kernels/operators.def ${registry} ETD_OPERATOR_LIST)
  set_property(TARGET placed_firmware PROPERTY SOURCES
    "$<FILTER:$<TARGET_OBJECTS:rooms>,EXCLUDE,kernel_registry>" $<TARGET_OBJECTS:port>
    ${app} src/app/placed_model.c ${registry})
  target_include_directories(placed_firmware PRIVATE src/kernels)
endif()
set_target_properties(placed_firmware PROPERTIES EXCLUDE_FROM_ALL ON)
target_include_directories(placed_firmware PRIVATE src/app)
set_source_files_properties(${app} PROPERTIES
  COMPILE_DEFINITIONS "ETD_BUILD_ID=\"${ETD_PLACED_BUILD_ID}\";ETD_PLACED_MODEL;${definitions}")
set_source_files_properties(src/app/placed_model.c PROPERTIES
  OBJECT_DEPENDS ${ETD_PLACED_MODEL}
  COMPILE_DEFINITIONS "ETD_PLACED_MODEL=\"${ETD_PLACED_MODEL}\";ETD_PLACED_NAME=\"${ETD_PLACED_NAME}\";ETD_PLACED_SIZE=${size}u;ETD_PLACED_DIGEST=${digest}")
