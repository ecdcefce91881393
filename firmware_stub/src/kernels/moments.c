// SPDX-License-Identifier: Apache-2.0
#include "moments.h"

etd_moments etd_measure(const float *x, etd_walk *over, uint32_t count) {
    const etd_walk_run line = etd_innermost(over);
    etd_moments moments = {etd_sum(x, over, count) / (float)count, 0.0f};
    for (uint32_t left = count; left > 0; left -= line.count) {
        const float *at = x + over->offset;
        for (uint32_t i = 0; i < line.count; i++) {
            const float difference = *at - moments.mean;
            moments.squares += difference * difference;
            at += line.stride;
        }
        etd_walk_next_line(over);
    }
    return moments;
}

float etd_sum(const float *x, etd_walk *over, uint32_t count) {
    const etd_walk_run line = etd_innermost(over);
    float sum = 0.0f;
    for (uint32_t left = count; left > 0; left -= line.count) {
        const float *at = x + over->offset;
        for (uint32_t i = 0; i < line.count; i++) {
            sum += *at;
            at += line.stride;
        }
        etd_walk_next_line(over);
    }
    return sum;
}
