/* Numbers of the device's compact event log. Generated from schema/compact_log.toml by schema/generate.py. */
#ifndef ET_LOG_FORMAT_H
#define ET_LOG_FORMAT_H

/* "ETLG" read as a little-endian u32 */
#define ET_LOG_MAGIC 0x474C5445u
/* log format version */
#define ET_LOG_VERSION 0x3
/* bytes */
#define ET_LOG_HEADER_SIZE 0x40
/* bytes */
#define ET_LOG_RECORD_SIZE 0x10
/* header flag: the buffer filled, later events were counted and dropped */
#define ET_LOG_FLAG_FULL 0x1
/* name id of an event without a name */
#define ET_LOG_NO_NAME 0xFFFF
/* longest name in bytes; longer ones are cut */
#define ET_LOG_MAX_NAME 0xFF
/* allocation offset that is not known */
#define ET_LOG_NO_OFFSET 0xFFFFFFFFu
/* BLOCK and ALLOCATOR flag: a copy of a record of an earlier chunk */
#define ET_LOG_CARRIED 0x1
/* DELEGATE flag: there is metadata, of whatever length */
#define ET_LOG_DELEGATE_METADATA 0x1
/* of a tensor's bytes in the debug buffer */
#define ET_LOG_PAYLOAD_ALIGNMENT 0x10
/* the bits of a VALUE's type */
#define ET_LOG_VALUE_TYPE_MASK 0x7
/* VALUE flag: the method returned it */
#define ET_LOG_VALUE_IS_OUTPUT 0x80
/* ALLOCATION flag: there was not enough memory */
#define ET_LOG_ALLOCATION_FAILED 0x1

/* record kinds */
enum {
    /* a timed scope, appended when it ends */
    ET_LOG_RECORD_PROFILE = 0x1,
    /* a new event block begins */
    ET_LOG_RECORD_BLOCK = 0x2,
    /* an allocator is declared */
    ET_LOG_RECORD_ALLOCATOR = 0x3,
    /* an allocation from a declared allocator */
    ET_LOG_RECORD_ALLOCATION = 0x4,
    /* prefix with full-width chain and instruction */
    ET_LOG_RECORD_WIDE = 0x5,
    /* prefix with delegate ids and metadata */
    ET_LOG_RECORD_DELEGATE = 0x6,
    /* a value that was computed */
    ET_LOG_RECORD_VALUE = 0x7,
};

/* types of values, numbered as in ETDump */
enum {
    /* no value */
    ET_LOG_VALUE_NONE = 0x0,
    /* a 64-bit integer */
    ET_LOG_VALUE_INT = 0x1,
    /* a truth value */
    ET_LOG_VALUE_BOOL = 0x2,
    /* a 64-bit float */
    ET_LOG_VALUE_DOUBLE = 0x4,
    /* a tensor */
    ET_LOG_VALUE_TENSOR = 0x5,
    /* a list of tensors */
    ET_LOG_VALUE_TENSOR_LIST = 0x6,
};

#endif
