// SPDX-License-Identifier: Apache-2.0
/* The model in the image of firmware that is built with ETD_PLACED_MODEL. */
#ifndef PLACED_MODEL_H
#define PLACED_MODEL_H

#include "etd_server.h"

extern const etd_placed_model etd_app_placed_model;

#endif
