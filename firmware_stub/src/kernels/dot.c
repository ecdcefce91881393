#include "dot.h"

/* The shapes of these loops are what the compiler makes the fewest instructions of. */

uint32_t et_dot_dense(const int8_t *x, const int8_t *w, int32_t count, int32_t offset) {
    const int8_t *end = w + count;
    uint32_t sum = 0;
    do {
        sum += (uint32_t)((*x++ + offset) * *w++);
    } while (w != end);
    return sum;
}

uint32_t et_dot_strided(const int8_t *x, int32_t x_step, const int8_t *w, int32_t w_step, int32_t count,
                        int32_t offset) {
    uint32_t sum = 0;
    if (count <= 0) {
        return 0;
    }
    do {
        sum += (uint32_t)((*x + offset) * *w);
        x += x_step;
        w += w_step;
    } while (--count != 0);
    return sum;
}
