// SPDX-License-Identifier: Apache-2.0
/* Firmware with the tracer and the runtime, and nothing to talk to a host: no link, no UART. It executes its
 * model EXECUTIONS times and then idles. MPS2 AN385; timer 0 counts down at 25 MHz. */
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "etd_runtime.h"
#include "etd_tracer.h"
#ifdef SEMIHOSTING
#include "etd_semihosting.h"
#endif

#ifndef METHOD_STORAGE
#define METHOD_STORAGE static
#endif
#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)

extern uint32_t stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

/* Aligned as the runtime asks for. */
__asm(".section .rodata.model, \"a\"\n.balign 16\n.global model\nmodel:\n.incbin \"" MODEL "\"\n"
      ".global model_end\nmodel_end:\n.balign 4\n.global input\ninput:\n.incbin \"" INPUT "\"\n"
      ".global input_end\ninput_end:\n.text\n");
extern const uint8_t model[], model_end[], input[], input_end[];

alignas(16) static uint8_t arena[524288];
alignas(16) static uint8_t log_memory[262144];
static etd_tracer tracer;

volatile uint32_t failure; /* a status, for a debugger */

static uint32_t ticks(void *context) {
    (void)context;
    return UINT32_MAX - TIMER_VALUE;
}

__attribute__((noinline)) void inference_done(void) {
    __asm volatile("" ::: "memory");
}

static etd_status run(void) {
    static etd_program program;
    METHOD_STORAGE etd_method method;
    etd_error error = {0};
    etd_tracer_init(&tracer, log_memory, sizeof log_memory, ticks, NULL);
    etd_status status = etd_program_open(&program, model, (uint32_t)(model_end - model), &error);
    if (status == 0) {
        status = etd_method_load(&method, &program, "forward", arena, sizeof arena, &tracer, &error);
    }
    for (uint32_t i = 0; status == 0 && i < EXECUTIONS; i++) {
        memcpy(etd_method_input(&method, 0)->data, input, (size_t)(input_end - input));
        status = etd_method_execute(&method, &error);
        inference_done();
    }
    return status;
}

void reset(void) {
    memcpy(data_start, data_load, (uintptr_t)data_end - (uintptr_t)data_start);
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    TIMER_CTRL = 0;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
    failure = (uint32_t)run();
#ifdef SEMIHOSTING
    bool saved = etd_semihosting_save_log(&tracer, "trace.etlog");
    etd_semihosting_print(saved ? "saved\n" : "not saved\n");
    etd_semihosting_exit(failure != 0 ? failure : !saved);
#endif
    for (;;) {
        __asm volatile("wfi");
    }
}

static void fault(void) {
    for (;;) {
    }
}

int *__errno(void) {
    static int number;
    return &number;
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top,
    (uintptr_t)reset,
    (uintptr_t)fault,
    (uintptr_t)fault,
};
