/* Numbers of the simulated NPU's jobs. Generated from schema/npu.toml by schema/generate.py. */
#ifndef NPU_FORMAT_H
#define NPU_FORMAT_H

/* "ENPU" read as a little-endian u32 */
#define ET_NPU_MAGIC 0x55504E45u
/* version of this format */
#define ET_NPU_VERSION 0x1
/* bytes */
#define ET_NPU_HEADER_SIZE 0x10
/* bytes */
#define ET_NPU_OPERAND_SIZE 0xC
/* bytes */
#define ET_NPU_COMMAND_SIZE 0x10
/* bytes */
#define ET_NPU_METADATA_SIZE 0x8
/* operand of a command that has none in this place */
#define ET_NPU_NO_OPERAND 0xFFFF
/* command flag: negative results become 0 */
#define ET_NPU_FLAG_RELU 0x1
/* command flag: the debug id is a text */
#define ET_NPU_FLAG_NAMED 0x2
/* width of the counter */
#define ET_NPU_COUNTER_BITS 0x18
/* cycles to fetch and set up a command */
#define ET_NPU_COMMAND_CYCLES 0x20
/* bytes of operands moved per cycle */
#define ET_NPU_BYTES_PER_CYCLE 0x8
/* MACs per cycle */
#define ET_NPU_DEFAULT_LANES 0x4
/* MACs per cycle */
#define ET_NPU_MAX_LANES 0x40

/* where an operand is */
enum {
    /* an input or output of the delegate */
    ET_NPU_PLACE_ARGUMENT = 0x0,
    /* in the job */
    ET_NPU_PLACE_CONSTANT = 0x1,
    /* in local memory */
    ET_NPU_PLACE_SCRATCH = 0x2,
};

/* what a command computes */
enum {
    /* out[i,j] = c[j] + sum over k of a[i,k] * b[j,k]; c may be missing */
    ET_NPU_OP_LINEAR = 0x1,
    /* out = a + b, element by element */
    ET_NPU_OP_ADD = 0x2,
    /* out = a * b, element by element */
    ET_NPU_OP_MULTIPLY = 0x3,
    /* out = a where that is greater than 0, else 0 */
    ET_NPU_OP_RELU = 0x4,
};

#endif
