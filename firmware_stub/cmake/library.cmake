# SPDX-License-Identifier: Apache-2.0
# The library for other projects: etdump::tracer (events, log, ETDump file), etdump::link (frames, digests,
# serial rings), etdump::server (the link's requests, on any implementation of etd_runtime.h) and
# etdump::runtime (this one: .pte files in C). Used by add_subdirectory, FetchContent and find_package alike.
# The targets are built when something links them, with the options of the project that does.
if(TARGET etdump::tracer)
  return()
endif()
get_filename_component(ETD_LIBRARY_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${ETD_LIBRARY_ROOT}/library.list")
file(STRINGS "${ETD_LIBRARY_ROOT}/library.list" etd_lines REGEX "^[a-z]")
set(etd_taken "")
foreach(etd_line ${etd_lines})
  string(REPLACE " " ";" etd_words "${etd_line}")
  list(GET etd_words 0 etd_part)
  list(GET etd_words 1 etd_path)
  if(etd_path MATCHES "[.]c$")
    set(etd_files "${ETD_LIBRARY_ROOT}/${etd_path}")
  else()
    file(GLOB etd_files CONFIGURE_DEPENDS "${ETD_LIBRARY_ROOT}/${etd_path}/*.c")
  endif()
  list(REMOVE_ITEM etd_files ${etd_taken} "")
  list(APPEND etd_taken ${etd_files})
  if(NOT TARGET etdump_${etd_part})
    add_library(etdump_${etd_part} STATIC EXCLUDE_FROM_ALL)
    add_library(etdump::${etd_part} ALIAS etdump_${etd_part})
    target_include_directories(etdump_${etd_part} PUBLIC "${ETD_LIBRARY_ROOT}/include")
    target_compile_features(etdump_${etd_part} PRIVATE c_std_11)
    target_compile_options(etdump_${etd_part} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  target_sources(etdump_${etd_part} PRIVATE ${etd_files})
endforeach()
# Kernels promise the same bits on every CPU, so products and sums are not fused.
target_compile_options(etdump_runtime PRIVATE -ffp-contract=off)
target_link_libraries(etdump_server PUBLIC etdump_tracer etdump_link)
target_link_libraries(etdump_runtime PUBLIC etdump_tracer etdump_link m)
