// SPDX-License-Identifier: Apache-2.0
/* Distances between rows: the p-norm of their difference. */
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* Two rows of `length` elements. */
typedef struct {
    const float *a;
    const float *b;
    uint32_t length;
    int32_t a_step;
    int32_t b_step;
} etd_row_pair;

static float norm(const etd_row_pair *rows, float p) {
    float total = 0.0f;
    for (uint32_t i = 0; i < rows->length; i++) {
        const float apart = fabsf(rows->a[(int32_t)i * rows->a_step] - rows->b[(int32_t)i * rows->b_step]);
        if (p == 0.0f) {
            total += apart != 0.0f ? 1.0f : 0.0f;
        } else if (isinf(p)) {
            total = apart > total || isnan(apart) ? apart : total;
        } else if (p == 1.0f) {
            total += apart;
        } else {
            total += p == 2.0f ? apart * apart : powf(apart, p);
        }
    }
    if (p == 2.0f) {
        return sqrtf(total);
    }
    return p == 0.0f || p == 1.0f || isinf(p) ? total : powf(total, 1.0f / p);
}

static bool read_p(const etd_call *call, uint32_t i, float *p) {
    double number;
    if (!etd_arg_number(call, i, &number) || !(number >= 0.0)) {
        return false;
    }
    *p = (float)number;
    return true;
}

/* Returns a view of rows, [.., P, M], as single elements, [.., P, 1], or [.., 1, P] if `across`. */
static etd_tensor view_of_rows(const etd_tensor *tensor, bool across) {
    const uint32_t row = tensor->ndim - 2u;
    etd_tensor view = *tensor;
    view.sizes[row + 1] = 1;
    if (across) {
        view.sizes[row + 1] = tensor->sizes[row];
        view.strides[row + 1] = tensor->strides[row];
        view.sizes[row] = 1;
    }
    return view;
}

/* _cdist_forward(x1, x2, p, compute_mode?, *, out): every row of x1 with every row of x2 */
static const char *cdist(const etd_call *call) {
    const etd_tensor *x1 = etd_arg_tensor(call, 0);
    const etd_tensor *x2 = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 4);
    float p;
    if (!etd_is_type(x1, ETD_FLOAT) || !etd_is_type(x2, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT) ||
        x1->ndim < 2 || x2->ndim < 2) {
        return "supports only rows of float32";
    }
    if (!read_p(call, 2, &p)) {
        return "invalid p";
    }
    const int32_t length = x1->sizes[x1->ndim - 1];
    const etd_tensor first = view_of_rows(x1, false);
    const etd_tensor second = view_of_rows(x2, true);
    if (x2->sizes[x2->ndim - 1] != length || !etd_resize_broadcast(out, &first, &second)) {
        return "sizes do not match";
    }
    etd_walk from[] = {etd_walk_broadcast(&first, out), etd_walk_broadcast(&second, out)};
    etd_walk to = etd_walk_broadcast(out, out);
    etd_row_pair rows = {
        .length = (uint32_t)length, .a_step = x1->strides[x1->ndim - 1], .b_step = x2->strides[x2->ndim - 1]};
    for (uint32_t left = etd_numel(out); left > 0; left--) {
        rows.a = etd_floats(x1) + from[0].offset;
        rows.b = etd_floats(x2) + from[1].offset;
        etd_out_floats(out)[to.offset] = norm(&rows, p);
        etd_walk_next(&from[0]);
        etd_walk_next(&from[1]);
        etd_walk_next(&to);
    }
    return NULL;
}

/* _pdist_forward(self, p, *, out): every row with every later row */
static const char *pdist(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    float p;
    if (!etd_is_type(self, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT) || self->ndim != 2) {
        return "supports only rows of float32";
    }
    if (!read_p(call, 1, &p)) {
        return "invalid p";
    }
    const int64_t count = self->sizes[0];
    const int64_t pairs = count * (count - 1) / 2;
    const int32_t size = pairs < INT32_MAX ? (int32_t)pairs : INT32_MAX;
    if (!etd_resize(out, &size, 1)) {
        return "invalid output size";
    }
    etd_row_pair rows = {
        .length = (uint32_t)self->sizes[1], .a_step = self->strides[1], .b_step = self->strides[1]};
    float *y = etd_out_floats(out);
    for (int32_t i = 0; i < self->sizes[0]; i++) {
        for (int32_t j = i + 1; j < self->sizes[0]; j++) {
            rows.a = etd_floats(self) + i * self->strides[0];
            rows.b = etd_floats(self) + j * self->strides[0];
            *y++ = norm(&rows, p);
        }
    }
    return NULL;
}

ETD_ATEN_KERNEL(cdist, "_cdist_forward", "out", ETD_IN_FLOAT32 + 5, cdist)
ETD_ATEN_KERNEL(pdist, "_pdist_forward", "out", ETD_IN_FLOAT32 + 3, pdist)
