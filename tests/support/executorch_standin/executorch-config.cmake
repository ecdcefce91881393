# SPDX-License-Identifier: Apache-2.0
# The variables and targets that the package of an installed ExecuTorch has.
set(root ${CMAKE_CURRENT_LIST_DIR}/../../..)
set(EXECUTORCH_INCLUDE_DIRS ${root}/include ${root}/include/executorch/runtime/core/portable_type/c10)
include(${CMAKE_CURRENT_LIST_DIR}/ExecuTorchTargets.cmake)
set(EXECUTORCH_LIBRARIES executorch executorch_core portable_kernels portable_ops_lib)
set(EXECUTORCH_FOUND ON)
