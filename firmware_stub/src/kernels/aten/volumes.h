// SPDX-License-Identifier: Apache-2.0
/* Convolution of volumes, which PyTorch has in one operator with that of lines and images. */
#ifndef ETD_VOLUMES_H
#define ETD_VOLUMES_H

#include "../support/arguments.h"

/* Runs aten::convolution for tensors with three spatial dimensions. */
const char *etd_convolve_volumes(const etd_call *call);

#endif
