// SPDX-License-Identifier: Apache-2.0
/* Runs kernels that compute with float32 on tensors of float16 and bfloat16: they get copies. */
#include <stddef.h>

#include "copies.h"
#include "etd_bytes.h"
#include "etd_half.h"

enum { MOST_COPIES = 8 }; /* of one call: a batch norm has all of them */

/* A tensor that has a copy, and what it is without. */
typedef struct {
    etd_tensor *tensor;
    uint16_t *stored;
    uint8_t dtype;
    bool is_result;
} etd_copied;

/* Returns the tensor of a value if it is stored in 16 bits, or NULL. */
static etd_tensor *stored_tensor(const etd_value *value) {
    if (value->kind != ETD_VALUE_TENSOR) {
        return NULL;
    }
    const uint8_t dtype = value->as.tensor->dtype;
    return dtype == ETD_HALF || dtype == ETD_BFLOAT16 ? value->as.tensor : NULL;
}

static bool is_listed(const uint32_t *numbers, uint32_t count, uint32_t number) {
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

/* Returns true if the call returns a value: all of them follow the kernel's own arguments, one by one or as a
 * list. Programs that are written by hand may leave them out. */
static bool is_returned(const etd_call *call, uint32_t own, uint32_t number) {
    for (uint32_t i = own; i < call->count; i++) {
        const etd_value *value = &call->values[call->args[i]];
        if (call->args[i] == number) {
            return true;
        }
        for (uint32_t item = 0; value->kind == ETD_VALUE_TENSOR_LIST && item < value->as.list.count; item++) {
            if (etd_get_u32(value->as.list.items + 4u * item) == number) {
                return true;
            }
        }
    }
    return call->count <= own;
}

void etd_reserve_copies(etd_loader *loader, const etd_instruction *instruction) {
    etd_method *method = loader->method;
    const uint32_t *args = instruction->as.call.args;
    etd_arena need = {0};
    if (instruction->as.call.kernel->min_args < ETD_IN_FLOAT32 ||
        loader->reader.status != ETD_LINK_STATUS_OK) {
        return;
    }
    for (uint32_t i = 0; i < instruction->as.call.count; i++) {
        const etd_tensor *tensor = stored_tensor(&method->values[args[i]]);
        if (tensor != NULL && !is_listed(args, i, args[i])) {
            (void)etd_arena_take(&need, tensor->capacity, 2);
        }
    }
    const uint32_t size = etd_arena_used(&need);
    method->copies_bytes = size > method->copies_bytes ? size : method->copies_bytes;
}

void etd_load_copies(etd_loader *loader) {
    etd_method *method = loader->method;
    const uint32_t size = method->copies_bytes;
    if (size == 0 || loader->reader.status != ETD_LINK_STATUS_OK) {
        return;
    }
    const uint32_t allocator = etd_track_allocator(method->tracer, "float32_copies");
    method->planned_bytes += size;
    method->copies = etd_arena_take(&loader->arena, size, 1);
    if (method->copies == NULL) {
        etd_track_allocation_failure(method->tracer, allocator, size);
        etd_reader_fail(&loader->reader, ETD_LINK_STATUS_OUT_OF_MEMORY, etd_arena_used(&loader->arena),
                        "arena", "too small for copies of float16 tensors as float32");
        return;
    }
    etd_track_allocation(method->tracer, allocator, size, 0);
}

/* Gives a tensor a copy of its data. Returns false if the memory is too small. */
static bool copy(etd_tensor *tensor, etd_arena *memory) {
    const uint16_t *stored = (const uint16_t *)(const void *)tensor->data;
    float *numbers = etd_arena_take(memory, tensor->capacity, 2);
    if (numbers == NULL && tensor->nbytes > 0) {
        return false;
    }
    for (uint32_t i = 0; i < tensor->nbytes / 2u; i++) {
        numbers[i] = etd_widen(stored[i], tensor->dtype == ETD_BFLOAT16);
    }
    if (numbers != NULL) {
        tensor->data = (uint8_t *)(void *)numbers;
    }
    tensor->dtype = ETD_FLOAT;
    tensor->nbytes *= 2u;
    tensor->capacity *= 2u;
    return true;
}

/* Takes the copy from a tensor, and stores its numbers if they are wanted. */
static void put_back(const etd_copied *copied, bool is_wanted) {
    etd_tensor *tensor = copied->tensor;
    const float *numbers = (const float *)(const void *)tensor->data;
    tensor->data = (uint8_t *)(void *)copied->stored;
    tensor->dtype = copied->dtype;
    tensor->nbytes /= 2u;
    tensor->capacity /= 2u;
    for (uint32_t i = 0; is_wanted && i < tensor->nbytes / 2u; i++) {
        copied->stored[i] = etd_narrow(numbers[i], copied->dtype == ETD_BFLOAT16);
    }
}

const char *etd_run_on_copies(const etd_method *method, const etd_kernel *kernel, const etd_call *call,
                              const char *refusal) {
    etd_arena memory = {method->copies, method->copies_bytes, 0};
    etd_copied copied[MOST_COPIES];
    uint32_t count = 0;
    bool fits = true;
    for (uint32_t i = 0; i < call->count && fits; i++) {
        etd_tensor *tensor = stored_tensor(&call->values[call->args[i]]);
        if (tensor == NULL || tensor->data == NULL) {
            continue;
        }
        fits = count < MOST_COPIES;
        if (fits) {
            const bool is_result =
                !tensor->constant && is_returned(call, etd_least_args(kernel), call->args[i]);
            copied[count] = (etd_copied){tensor, (uint16_t *)(void *)tensor->data, tensor->dtype, is_result};
            fits = copy(tensor, &memory);
            count += fits;
        }
    }
    if (count > 0 && fits) {
        refusal = kernel->run(call);
    }
    while (count > 0) {
        count--;
        put_back(&copied[count], copied[count].is_result && refusal == NULL);
    }
    return refusal;
}
