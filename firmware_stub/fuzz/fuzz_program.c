// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the runtime: opens, loads and executes the input as a .pte file. Seed it with firmware_stub/models.
 *
 * File and arena are heap blocks of the exact size, so that a sanitizer detects accesses past their ends.
 * This program also checks that nothing writes from planned memory into the method's description before
 * it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "etd_runtime.h"

/* Large enough for the models in firmware_stub/models. */
#define ARENA_SIZE (128u * 1024u)

/* Enough for those models; stops looping inputs. */
#define INSTRUCTION_BUDGET 50u

/* Returns a copy of exactly `size` bytes. Under a sanitizer malloc aligns to 16 bytes. */
static uint8_t *duplicate(const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size);
    if (copy == NULL || (uintptr_t)copy % 16 != 0) {
        abort();
    }
    memcpy(copy, bytes, size);
    return copy;
}

static void zero_inputs(const etd_method *method) {
    for (uint32_t i = 0; i < method->input_count; i++) {
        const etd_tensor *input = etd_method_input(method, i);
        if (input != NULL) {
            memset(input->data, 0, input->nbytes);
        }
    }
}

static void read_outputs(const etd_method *method) {
    volatile uint8_t last = 0;
    for (uint32_t i = 0; i < method->output_count; i++) {
        const etd_tensor *output = etd_method_output(method, i);
        for (uint32_t k = 0; output != NULL && k < output->nbytes; k++) {
            last = output->data[k];
        }
    }
    (void)last;
}

/* Copies from the arena what a kernel may change in a tensor: its sizes, and the memory of a view. Tensors
 * are found through the values of the copy, because values of the method may have been moved. */
static void allow_resizing(uint8_t *before, const uint8_t *arena, uint32_t value_count) {
    const etd_value *values = (const etd_value *)(const void *)before;
    for (uint32_t i = 0; i < value_count; i++) {
        if (values[i].kind == ETD_VALUE_TENSOR) {
            const etd_tensor *now = values[i].as.tensor;
            etd_tensor *then = (etd_tensor *)(void *)(before + ((const uint8_t *)now - arena));
            then->data = now->data;
            then->nbytes = now->nbytes;
            then->capacity = now->capacity;
            then->constant = now->constant;
            memcpy(then->sizes, now->sizes, sizeof then->sizes);
            memcpy(then->strides, now->strides, sizeof then->strides);
        }
    }
}

/* Executes, and compares the method's description before and after. The values at its start may change;
 * delegates have their memory elsewhere. */
static void execute(etd_method *method, const uint8_t *arena) {
    const uint32_t values_size = method->value_count * (uint32_t)sizeof(etd_value);
    const uint32_t size = method->method_bytes - method->delegate_bytes - values_size;
    uint8_t *before = duplicate(arena, values_size + size);
    etd_error error;
    method->instruction_budget = INSTRUCTION_BUDGET;
    zero_inputs(method);
    (void)etd_method_execute(method, &error);
    read_outputs(method);
    allow_resizing(before, arena, method->value_count);
    if (memcmp(before + values_size, arena + values_size, size) != 0) {
        abort();
    }
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static _Alignas(16) uint8_t scratch[ARENA_SIZE];
    if (size < 16) {
        return 0;
    }
    uint8_t *file = duplicate(data, size);
    etd_program program;
    etd_method method;
    etd_error error;
    if (etd_program_open(&program, file, (uint32_t)size, &error) == ETD_LINK_STATUS_OK &&
        etd_method_load(&method, &program, "forward", scratch, ARENA_SIZE, NULL, &error) ==
            ETD_LINK_STATUS_OK) {
        uint32_t needed = method.method_bytes + method.planned_bytes;
        etd_method_unload(&method);
        uint8_t *arena = duplicate(scratch, needed < 16 ? 16 : needed);
        if (etd_method_load(&method, &program, "forward", arena, needed, NULL, &error) !=
            ETD_LINK_STATUS_OK) {
            abort();
        }
        execute(&method, arena);
        etd_method_unload(&method);
        free(arena);
    }
    free(file);
    return 0;
}
