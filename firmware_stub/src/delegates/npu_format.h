// SPDX-License-Identifier: Apache-2.0
/* Constants of the simulated NPU's job format. Generated from schema/npu.toml by schema/generate.py. */
#ifndef ETD_NPU_FORMAT_H
#define ETD_NPU_FORMAT_H

/* "ENPU" read as a little-endian u32 */
#define ETD_NPU_MAGIC 0x55504E45u
/* version of the job format */
#define ETD_NPU_VERSION 0x1
/* size in bytes */
#define ETD_NPU_HEADER_SIZE 0x10
/* size in bytes */
#define ETD_NPU_OPERAND_SIZE 0xC
/* size in bytes */
#define ETD_NPU_COMMAND_SIZE 0x10
/* size in bytes */
#define ETD_NPU_METADATA_SIZE 0x8
/* marks an unused operand of a command */
#define ETD_NPU_NO_OPERAND 0xFFFF
/* command flag: replace negative results by 0 */
#define ETD_NPU_FLAG_RELU 0x1
/* command flag: the debug id is a string */
#define ETD_NPU_FLAG_NAMED 0x2
/* width of the counter in bits */
#define ETD_NPU_COUNTER_BITS 0x18
/* cycles to fetch and start a command */
#define ETD_NPU_COMMAND_CYCLES 0x20
/* bytes of operands transferred per cycle */
#define ETD_NPU_BYTES_PER_CYCLE 0x8
/* MACs per cycle */
#define ETD_NPU_DEFAULT_LANES 0x4
/* MACs per cycle */
#define ETD_NPU_MAX_LANES 0x40

/* location of an operand */
enum {
    /* an input or output of the delegate */
    ETD_NPU_PLACE_ARGUMENT = 0x0,
    /* in the job */
    ETD_NPU_PLACE_CONSTANT = 0x1,
    /* in local memory */
    ETD_NPU_PLACE_SCRATCH = 0x2,
};

/* operation of a command */
enum {
    /* out[i,j] = c[j] + sum over k of a[i,k] * b[j,k]; c may be missing */
    ETD_NPU_OP_LINEAR = 0x1,
    /* out = a + b, element by element */
    ETD_NPU_OP_ADD = 0x2,
    /* out = a * b, element by element */
    ETD_NPU_OP_MULTIPLY = 0x3,
    /* out = a where a > 0, else 0 */
    ETD_NPU_OP_RELU = 0x4,
};

#endif
