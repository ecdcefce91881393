# SPDX-License-Identifier: Apache-2.0
# Links the static libraries of an installed ExecuTorch. Those in ETD_KERNEL_LIBRARIES, and `executorch` itself,
# register kernels in constructors that nothing refers to, so they are linked whole.
set(ETD_IMAGE_LIBRARIES executorch_core)
foreach(library executorch ${ETD_KERNEL_LIBRARIES})
  if(TARGET ${library})
    set(file $<TARGET_FILE:${library}>)
    get_target_property(options ${library} INTERFACE_LINK_OPTIONS)
    list(APPEND ETD_IMAGE_LIBRARIES ${library})
  else()
    find_library(found ${library} PATHS ${executorch_DIR}/../.. NO_DEFAULT_PATH NO_CACHE REQUIRED)
    set(file ${found})
    unset(found)
    set(options "")
  endif()
  # ExecuTorch's package says so of some of its libraries. Twice would define everything twice.
  if(NOT options MATCHES "whole-archive")
    list(PREPEND ETD_IMAGE_LIBRARIES -Wl,--whole-archive ${file} -Wl,--no-whole-archive)
  endif()
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

# portable_ops_lib has the portable kernels.
set(kernels ${ETD_KERNEL_LIBRARIES})
list(TRANSFORM kernels REPLACE "(_ops)?_lib$" "")
