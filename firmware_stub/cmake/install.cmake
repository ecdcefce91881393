# SPDX-License-Identifier: Apache-2.0
# Installs the library as sources: find_package(etdump) compiles them with the flags of the project that
# asks, so one installation serves every CPU. Nothing has to be built first.
include(CMakePackageConfigHelpers)
file(STRINGS include/etd_version.h etd_version REGEX "define ETD_VERSION ")
string(REGEX REPLACE ".*\"(.*)\"" "\\1" etd_version "${etd_version}")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/etdumpConfigVersion.cmake
  VERSION ${etd_version} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/etdumpConfig.cmake
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/library.cmake\")\n")
install(DIRECTORY include src DESTINATION share/etdump PATTERN app EXCLUDE)
install(FILES library.list DESTINATION share/etdump)
install(FILES cmake/library.cmake ${CMAKE_CURRENT_BINARY_DIR}/etdumpConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/etdumpConfigVersion.cmake DESTINATION share/etdump/cmake)
