// SPDX-License-Identifier: Apache-2.0
/* Numbers of the device's compact event log. Generated from schema/compact_log.toml by schema/generate.py. */
#ifndef ETD_LOG_FORMAT_H
#define ETD_LOG_FORMAT_H

/* "ETLG" read as a little-endian u32 */
#define ETD_LOG_MAGIC 0x474C5445u
/* log format version */
#define ETD_LOG_VERSION 0x3
/* bytes */
#define ETD_LOG_HEADER_SIZE 0x40
/* bytes */
#define ETD_LOG_RECORD_SIZE 0x10
/* header flag: the buffer filled, later events were counted and dropped */
#define ETD_LOG_FLAG_FULL 0x1
/* name id of an event without a name */
#define ETD_LOG_NO_NAME 0xFFFF
/* longest name in bytes; longer ones are cut */
#define ETD_LOG_MAX_NAME 0xFF
/* allocation offset that is not known */
#define ETD_LOG_NO_OFFSET 0xFFFFFFFFu
/* BLOCK and ALLOCATOR flag: a copy of a record of an earlier chunk */
#define ETD_LOG_CARRIED 0x1
/* DELEGATE flag: there is metadata, of whatever length */
#define ETD_LOG_DELEGATE_METADATA 0x1
/* of a tensor's bytes in the debug buffer */
#define ETD_LOG_PAYLOAD_ALIGNMENT 0x10
/* the bits of a VALUE's type */
#define ETD_LOG_VALUE_TYPE_MASK 0x7
/* VALUE flag: the method returned it */
#define ETD_LOG_VALUE_IS_OUTPUT 0x80
/* ALLOCATION flag: there was not enough memory */
#define ETD_LOG_ALLOCATION_FAILED 0x1

/* record kinds */
enum {
    /* a timed scope, appended when it ends */
    ETD_LOG_RECORD_PROFILE = 0x1,
    /* a new event block begins */
    ETD_LOG_RECORD_BLOCK = 0x2,
    /* an allocator is declared */
    ETD_LOG_RECORD_ALLOCATOR = 0x3,
    /* an allocation from a declared allocator */
    ETD_LOG_RECORD_ALLOCATION = 0x4,
    /* prefix with full-width chain and instruction */
    ETD_LOG_RECORD_WIDE = 0x5,
    /* prefix with delegate ids and metadata */
    ETD_LOG_RECORD_DELEGATE = 0x6,
    /* a value that was computed */
    ETD_LOG_RECORD_VALUE = 0x7,
};

/* types of values, numbered as in ETDump */
enum {
    /* no value */
    ETD_LOG_VALUE_NONE = 0x0,
    /* a 64-bit integer */
    ETD_LOG_VALUE_INT = 0x1,
    /* a truth value */
    ETD_LOG_VALUE_BOOL = 0x2,
    /* a 64-bit float */
    ETD_LOG_VALUE_DOUBLE = 0x4,
    /* a tensor */
    ETD_LOG_VALUE_TENSOR = 0x5,
    /* a list of tensors */
    ETD_LOG_VALUE_TENSOR_LIST = 0x6,
};

#endif
