// SPDX-License-Identifier: Apache-2.0
/* The names that both sides of benchmarks/tracer_cost.py log. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#define LONG_NAME "native_call_relu.out" /* 20 bytes */

#define NAMES 16u

/* The names that a network logs, in turn. */
static const char *const network[NAMES] = {
    "OPERATOR_CALL", "native_call_convolution.out",  "OPERATOR_CALL", "native_call_relu.out",
    "OPERATOR_CALL", "native_call_avg_pool2d.out",   "OPERATOR_CALL", "native_call_view_copy.out",
    "OPERATOR_CALL", "native_call_permute_copy.out", "OPERATOR_CALL", "native_call_addmm.out",
    "OPERATOR_CALL", "native_call__softmax.out",     "DELEGATE_CALL", "Method::execute",
};

#endif
