// SPDX-License-Identifier: Apache-2.0
/* Constants of the device's compact event log. Generated from schema/compact_log.toml by schema/generate.py. */
#ifndef ETD_LOG_FORMAT_H
#define ETD_LOG_FORMAT_H

/* "ETLG" read as a little-endian u32 */
#define ETD_LOG_MAGIC 0x474C5445u
/* version of the log format */
#define ETD_LOG_VERSION 0x3
/* size in bytes */
#define ETD_LOG_HEADER_SIZE 0x40
/* size in bytes */
#define ETD_LOG_RECORD_SIZE 0x10
/* header flag: the buffer was full, later events were dropped and counted */
#define ETD_LOG_FLAG_FULL 0x1
/* name id of an event without a name */
#define ETD_LOG_NO_NAME 0xFFFF
/* longest name in bytes; longer names are truncated */
#define ETD_LOG_MAX_NAME 0xFF
/* unknown offset of an allocation */
#define ETD_LOG_NO_OFFSET 0xFFFFFFFFu
/* BLOCK, ALLOCATOR, COUNTER, COUNTING and CLOCK flag: copy of a record of an earlier chunk */
#define ETD_LOG_CARRIED 0x1
/* bits of the kind that ALLOCATOR, COUNTER, COUNTING and CLOCK, and only these, have in common */
#define ETD_LOG_DECLARATION_MASK 0x7
/* CLOCK: no reading of clock 0 */
#define ETD_LOG_NO_INSTANT 0xFFFFFFFFFFFFu
/* most counters of a log */
#define ETD_LOG_COUNTERS 0x8
/* counts in a COUNTS record */
#define ETD_LOG_COUNTS_PER_RECORD 0x3
/* DELEGATE flag: metadata is present, possibly empty */
#define ETD_LOG_DELEGATE_METADATA 0x1
/* alignment in bytes of tensor data in the debug buffer */
#define ETD_LOG_PAYLOAD_ALIGNMENT 0x10
/* bits of a VALUE record's type */
#define ETD_LOG_VALUE_TYPE_MASK 0x7
/* VALUE flag: output of the method */
#define ETD_LOG_VALUE_IS_OUTPUT 0x80
/* ALLOCATION flag: not enough memory */
#define ETD_LOG_ALLOCATION_FAILED 0x1
/* size of a value of a method in bytes */
#define ETD_LOG_METHOD_VALUE_SIZE 0x10
/* kind of a value that is a tensor */
#define ETD_LOG_METHOD_VALUE_TENSOR 0x4
/* SWITCH flag: the context begins, instead of ends */
#define ETD_LOG_SWITCH_BEGINS 0x1
/* SWITCH flag: it is an interrupt, which the task before it outlasts */
#define ETD_LOG_SWITCH_INTERRUPT 0x2
/* SAMPLE flag: the value is an f32 */
#define ETD_LOG_SAMPLE_FLOAT 0x1
/* "ETR" and version 1 of a tracer's fields, read as a little-endian u32 */
#define ETD_LOG_TRACER_MAGIC 0x1525445u

/* record kinds */
enum {
    /* timed scope, appended when it ends */
    ETD_LOG_RECORD_PROFILE = 0x1,
    /* start of an event block */
    ETD_LOG_RECORD_BLOCK = 0x2,
    /* declaration of an allocator */
    ETD_LOG_RECORD_ALLOCATOR = 0x3,
    /* allocation from a declared allocator */
    ETD_LOG_RECORD_ALLOCATION = 0x4,
    /* prefix with full-width chain and instruction */
    ETD_LOG_RECORD_WIDE = 0x5,
    /* prefix with delegate ids and metadata */
    ETD_LOG_RECORD_DELEGATE = 0x6,
    /* logged value */
    ETD_LOG_RECORD_VALUE = 0x7,
    /* counts of hardware counters in the event before */
    ETD_LOG_RECORD_COUNTS = 0x8,
    /* a task or an interrupt begins or ends */
    ETD_LOG_RECORD_SWITCH = 0x9,
    /* named instant */
    ETD_LOG_RECORD_MARK = 0xA,
    /* declaration of a hardware counter */
    ETD_LOG_RECORD_COUNTER = 0xB,
    /* value of a named counter */
    ETD_LOG_RECORD_SAMPLE = 0xC,
    /* cost of an event with the declared hardware counters */
    ETD_LOG_RECORD_COUNTING = 0x13,
    /* counter of a tracer, and a pair of readings that places its log */
    ETD_LOG_RECORD_CLOCK = 0x1B,
};

/* value types, numbered as in ETDump */
enum {
    /* no value */
    ETD_LOG_VALUE_NONE = 0x0,
    /* 64-bit integer */
    ETD_LOG_VALUE_INT = 0x1,
    /* boolean */
    ETD_LOG_VALUE_BOOL = 0x2,
    /* 64-bit float */
    ETD_LOG_VALUE_DOUBLE = 0x4,
    /* tensor */
    ETD_LOG_VALUE_TENSOR = 0x5,
    /* list of tensors */
    ETD_LOG_VALUE_TENSOR_LIST = 0x6,
};

/* offsets in bytes of the fields of a tracer, with 32-bit pointers */
enum {
    /* pointer to the log's buffer */
    ETD_LOG_TRACER_FIELD_BUFFER = 0x4,
    /* u32, size of that buffer in bytes */
    ETD_LOG_TRACER_FIELD_CAPACITY = 0x8,
    /* pointer to the debug buffer */
    ETD_LOG_TRACER_FIELD_DEBUG = 0xC,
    /* u32, size of that buffer in bytes */
    ETD_LOG_TRACER_FIELD_DEBUG_CAPACITY = 0x10,
    /* u32; the header's fields from this one on follow in its order */
    ETD_LOG_TRACER_FIELD_RECORD_COUNT = 0x14,
    /* u16 */
    ETD_LOG_TRACER_FIELD_NAME_COUNT = 0x18,
    /* u16, the tracer's number */
    ETD_LOG_TRACER_FIELD_NUMBER = 0x1A,
    /* u32 */
    ETD_LOG_TRACER_FIELD_NAMES_SIZE = 0x1C,
    /* u32 */
    ETD_LOG_TRACER_FIELD_DROPPED_EVENTS = 0x20,
    /* u32 */
    ETD_LOG_TRACER_FIELD_DROPPED_BLOCKS = 0x24,
    /* u32 */
    ETD_LOG_TRACER_FIELD_FILTERED_EVENTS = 0x28,
    /* u32 */
    ETD_LOG_TRACER_FIELD_DROPPED_VALUES = 0x2C,
    /* u32 */
    ETD_LOG_TRACER_FIELD_DROPPED_RUNS = 0x30,
    /* u32 */
    ETD_LOG_TRACER_FIELD_CHUNK = 0x34,
    /* u32 */
    ETD_LOG_TRACER_FIELD_FIRST_RECORD = 0x38,
    /* u32 */
    ETD_LOG_TRACER_FIELD_DEBUG_USED = 0x3C,
    /* u32 */
    ETD_LOG_TRACER_FIELD_STACK_USED = 0x40,
    /* u32 */
    ETD_LOG_TRACER_FIELD_STACK_SIZE = 0x44,
    /* u8 */
    ETD_LOG_TRACER_FIELD_FULL = 0x48,
    /* u8, number of open events */
    ETD_LOG_TRACER_FIELD_OPEN_COUNT = 0x49,
};

/* offsets in bytes of the fields of a loaded method, with 32-bit pointers */
enum {
    /* pointer to its tracer */
    ETD_LOG_METHOD_FIELD_TRACER = 0x0,
    /* pointer to its name, which ends with a zero */
    ETD_LOG_METHOD_FIELD_NAME = 0x4,
    /* pointer to its values */
    ETD_LOG_METHOD_FIELD_VALUES = 0x8,
    /* pointer to the value numbers of its outputs, u32 */
    ETD_LOG_METHOD_FIELD_OUTPUTS = 0x18,
    /* u32 */
    ETD_LOG_METHOD_FIELD_VALUE_COUNT = 0x1C,
    /* u32, of all chains */
    ETD_LOG_METHOD_FIELD_INSTRUCTION_COUNT = 0x20,
    /* u32 */
    ETD_LOG_METHOD_FIELD_INPUT_COUNT = 0x38,
    /* u32 */
    ETD_LOG_METHOD_FIELD_OUTPUT_COUNT = 0x3C,
};

/* offsets in bytes of the fields of a method's value */
enum {
    /* u8 */
    ETD_LOG_VALUE_FIELD_KIND = 0x0,
    /* pointer to the tensor */
    ETD_LOG_VALUE_FIELD_TENSOR = 0x8,
};

/* offsets in bytes of the fields of a tensor, with 32-bit pointers */
enum {
    /* pointer to its elements */
    ETD_LOG_TENSOR_FIELD_DATA = 0x0,
    /* u32, size of its elements in bytes */
    ETD_LOG_TENSOR_FIELD_NBYTES = 0x8,
    /* u32, bytes of memory for them */
    ETD_LOG_TENSOR_FIELD_CAPACITY = 0xC,
    /* i32 for each of up to 8 dimensions */
    ETD_LOG_TENSOR_FIELD_SIZES = 0x10,
    /* u8 for each of up to 8 dimensions */
    ETD_LOG_TENSOR_FIELD_DIM_ORDER = 0x50,
    /* u8, number of dimensions */
    ETD_LOG_TENSOR_FIELD_NDIM = 0x58,
    /* u8, its scalar type */
    ETD_LOG_TENSOR_FIELD_DTYPE = 0x59,
};

#endif
