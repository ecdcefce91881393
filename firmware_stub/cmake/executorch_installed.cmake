# SPDX-License-Identifier: Apache-2.0
# Links the static libraries of an installed ExecuTorch. The libraries in ETD_KERNEL_LIBRARIES register kernels
# in constructors that nothing refers to, so they are linked whole.
set(ETD_IMAGE_LIBRARIES executorch executorch_core)
set(kernels "")
foreach(library ${ETD_KERNEL_LIBRARIES})
  if(TARGET ${library})
    set(file $<TARGET_FILE:${library}>)
    get_target_property(options ${library} INTERFACE_LINK_OPTIONS)
    list(APPEND ETD_IMAGE_LIBRARIES ${library})
  else()
    find_library(file_of_${library} ${library} PATHS ${executorch_DIR}/../.. NO_DEFAULT_PATH NO_CACHE REQUIRED)
    set(file ${file_of_${library}})
    set(options "")
  endif()
  # ExecuTorch's package says so for its own libraries. Twice would define everything twice.
  if(NOT options MATCHES "whole-archive")
    list(PREPEND ETD_IMAGE_LIBRARIES -Wl,--whole-archive ${file} -Wl,--no-whole-archive)
  endif()
  string(REGEX REPLACE "(_ops)?_lib$" "" name ${library})
  list(APPEND kernels ${name})
endforeach()
# A library of the user's registers kernels that may be in these. Only what is used gets linked.
foreach(library portable_kernels quantized_kernels cortex_m_kernels)
  if(TARGET ${library})
    list(APPEND ETD_IMAGE_LIBRARIES ${library})
  endif()
endforeach()

# -fPIC and -Wno-... are for ExecuTorch's own sources.
foreach(library ${ETD_IMAGE_LIBRARIES})
  if(TARGET ${library})
    set_property(TARGET ${library} PROPERTY INTERFACE_COMPILE_OPTIONS "")
  endif()
endforeach()
