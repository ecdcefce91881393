/* The innermost loops of int8 kernels: sums of (x + offset) * w.
 *
 * In a file of their own because inlined into their callers they would spill to the stack on small CPUs. */
#ifndef ET_DOT_H
#define ET_DOT_H

#include <stdint.h>

/* Elements one after the other; count is at least 1. */
uint32_t et_dot_dense(const int8_t *x, const int8_t *w, int32_t count, int32_t offset);

/* Elements so many apart. */
uint32_t et_dot_strided(const int8_t *x, int32_t x_step, const int8_t *w, int32_t w_step, int32_t count,
                        int32_t offset);

#endif
