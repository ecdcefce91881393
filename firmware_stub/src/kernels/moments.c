// SPDX-License-Identifier: Apache-2.0
#include "moments.h"

etd_moments etd_measure(const float *x, etd_walk *over, uint32_t count) {
    etd_moments moments = {0.0f, 0.0f};
    float sum = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        sum += x[over->offset];
        etd_walk_next(over);
    }
    moments.mean = sum / (float)count;
    for (uint32_t i = 0; i < count; i++) {
        const float difference = x[over->offset] - moments.mean;
        moments.squares += difference * difference;
        etd_walk_next(over);
    }
    return moments;
}
