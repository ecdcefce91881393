// SPDX-License-Identifier: Apache-2.0
/* What benchmarks/device_costs.py and its programs share: a core's counter, and how to print. */
#ifndef COSTS_H
#define COSTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the scenarios. */
#define NAME_OF_20 "native_call_relu.out"

/* Returns the core's counter: cycles or instructions, by the machine. */
uint32_t count_now(void);

/* Prints "<scenario> <count>\n". */
void print_count(const char *scenario, uint32_t count);

/* The clock of the tracer: cheap, and the same on all cores. */
uint32_t cheap_clock(void *context);

/* Measures all scenarios. */
void measure_costs(void);

#ifdef __cplusplus
}
#endif

#endif
