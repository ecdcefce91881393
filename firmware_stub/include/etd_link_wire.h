// SPDX-License-Identifier: Apache-2.0
/* Constants of the link protocol. Generated from schema/link.toml by schema/generate.py. */
#ifndef ETD_LINK_WIRE_H
#define ETD_LINK_WIRE_H

/* version of the link protocol, negotiated in HELLO */
#define ETD_LINK_VERSION 0x1
/* bytes before the body: marker, type, sequence number */
#define ETD_LINK_HEADER_SIZE 0x4
/* bytes after the body: CRC-32 over header and body */
#define ETD_LINK_CRC_SIZE 0x4
/* smallest MTU in bytes that a device may offer; limit for the host before HELLO */
#define ETD_LINK_MIN_MTU 0x100
/* set in the frame type of an answer */
#define ETD_LINK_RESPONSE 0x80
/* size of a SHA-256 digest in bytes */
#define ETD_LINK_DIGEST_SIZE 0x20
/* maximum number of pending READs, including the active one */
#define ETD_LINK_READ_QUEUE 0x4
/* longest time in ms that a running device waits after an execution for the rest of a request; hosts repeat HELLO and CANCEL more often */
#define ETD_LINK_LISTEN_MS 0x12C
/* time in ms without a good frame after which the device returns to its first rate; starts at a change of rate and when invalid bytes arrive */
#define ETD_LINK_BAUD_TRIAL_MS 0x3E8
/* longest time in ms that a device waits between operators for the host to get on with a streamed log; starts again when the host has received more of it */
#define ETD_LINK_STREAM_WAIT_MS 0x2710
/* time in ms after which a waiting device sends NOTE_LOG_WAIT again */
#define ETD_LINK_STREAM_ASK_MS 0xFA
/* most hardware counters that a run can read */
#define ETD_LINK_MAX_COUNTERS 0x8
/* first byte of every encoded frame; does not occur in console text */
#define ETD_LINK_SOH 0x1

/* request types; the answer has the same type with RESPONSE set */
enum {
    /* negotiate the version and identify the target */
    ETD_LINK_OP_HELLO = 0x1,
    /* read the tick counter for clock alignment */
    ETD_LINK_OP_PING = 0x2,
    /* read the state of the device and its link statistics */
    ETD_LINK_OP_STATUS = 0x3,
    /* drop the model or the postmortem, or reboot */
    ETD_LINK_OP_RESET = 0x4,
    /* change the line rate after the answer */
    ETD_LINK_OP_BAUD = 0x5,
    /* several requests in one frame, answered in one frame */
    ETD_LINK_OP_BATCH = 0x6,
    /* list the hardware counters that RUN can select */
    ETD_LINK_OP_COUNTERS = 0x7,
    /* announce the size of a region to be written */
    ETD_LINK_OP_OPEN = 0x10,
    /* write bytes to an open region */
    ETD_LINK_OP_WRITE = 0x11,
    /* verify the region's digest and take it into use */
    ETD_LINK_OP_COMMIT = 0x12,
    /* load the method and execute it */
    ETD_LINK_OP_RUN = 0x20,
    /* end the run after the current execution */
    ETD_LINK_OP_CANCEL = 0x21,
    /* read size and digest of a region */
    ETD_LINK_OP_STAT = 0x30,
    /* read part of a region; the device streams it */
    ETD_LINK_OP_READ = 0x31,
    /* notification: executions completed so far */
    ETD_LINK_OP_NOTE_PROGRESS = 0x40,
    /* notification: the run ended, with its result */
    ETD_LINK_OP_NOTE_DONE = 0x41,
    /* notification: the firmware has restarted and lost its state */
    ETD_LINK_OP_NOTE_STARTED = 0x42,
    /* notification: a corrupt frame was received */
    ETD_LINK_OP_NOTE_DAMAGED = 0x43,
    /* notification: part of a chunk of the log, sent during the run */
    ETD_LINK_OP_NOTE_LOG = 0x44,
    /* acknowledge a chunk of the log, or request bytes of it again; not answered */
    ETD_LINK_OP_LOG_ACK = 0x50,
    /* notification: the device waits for LOG_ACK of a chunk */
    ETD_LINK_OP_NOTE_LOG_WAIT = 0x51,
};

/* flags of RUN */
enum {
    /* send the log in chunks during the run */
    ETD_LINK_RUN_FLAG_STREAM = 0x1,
    /* fault on purpose in the second execution, to prove the postmortem; refused by ports that cannot */
    ETD_LINK_RUN_FLAG_CRASH = 0x2,
    /* clock and log go on from the run before, whose log the host has read; refused with several tracers */
    ETD_LINK_RUN_FLAG_CONTINUE = 0x4,
    /* with CONTINUE: the method is not loaded again, so mutable buffers keep their contents */
    ETD_LINK_RUN_FLAG_KEEP_STATE = 0x8,
};

/* regions for OPEN, WRITE, COMMIT, STAT and READ */
enum {
    /* the .pte file */
    ETD_LINK_REGION_MODEL = 0x1,
    /* data of input tensor number `index` */
    ETD_LINK_REGION_INPUT = 0x2,
    /* data of output tensor number `index` */
    ETD_LINK_REGION_OUTPUT = 0x3,
    /* trace of the last run: index 0 is the compact log, and those of further tracers behind it, or the ETDump of a runtime that writes one; index 1 is its debug buffer */
    ETD_LINK_REGION_TRACE = 0x4,
    /* postmortem record (postmortem.toml), available until the next RUN */
    ETD_LINK_REGION_POSTMORTEM = 0x5,
};

/* state of the device */
enum {
    /* no model loaded */
    ETD_LINK_STATE_IDLE = 0x0,
    /* a model is loaded and checked */
    ETD_LINK_STATE_READY = 0x1,
    /* executing */
    ETD_LINK_STATE_RUNNING = 0x2,
    /* a run has ended; outputs and trace are readable */
    ETD_LINK_STATE_DONE = 0x3,
};

/* tags of the target information in the answer to HELLO; format: u8 tag, u8 length, value */
enum {
    /* text: board name */
    ETD_LINK_INFO_BOARD = 0x1,
    /* text: CPU name */
    ETD_LINK_INFO_CPU = 0x2,
    /* text: build id of the firmware */
    ETD_LINK_INFO_BUILD_ID = 0x3,
    /* u8 bits, u8 down, u16 zero, u32 rate numerator (Hz), u32 rate denominator, text name; one per clock, in the order of the clock numbers in events */
    ETD_LINK_INFO_CLOCK = 0x4,
    /* u32 capacity for the model in bytes */
    ETD_LINK_INFO_MODEL_CAPACITY = 0x5,
    /* u32 capacity of the arena in bytes, for planned memory and method state */
    ETD_LINK_INFO_ARENA_CAPACITY = 0x6,
    /* u32 capacity for staged inputs in bytes */
    ETD_LINK_INFO_INPUT_CAPACITY = 0x7,
    /* u32 capacity of the compact log in bytes, with those of further tracers */
    ETD_LINK_INFO_TRACE_CAPACITY = 0x8,
    /* u32 ticks, u32 pairs: time of that many empty start/end pairs, measured at start-up */
    ETD_LINK_INFO_PROBE_COST = 0x9,
    /* u32 number of kernels linked in */
    ETD_LINK_INFO_OPERATORS = 0xA,
    /* u8 condition (postmortem.toml); present if the region POSTMORTEM can be read */
    ETD_LINK_INFO_POSTMORTEM = 0xB,
    /* u32 each: rates that BAUD accepts, in bits per second, the rate after reset first */
    ETD_LINK_INFO_BAUDS = 0xC,
    /* u32 capacity for logged tensor data in bytes */
    ETD_LINK_INFO_DEBUG_CAPACITY = 0xD,
    /* text: runtime that executes models, with its version if it has one of its own */
    ETD_LINK_INFO_RUNTIME = 0xE,
    /* text: kernel library linked with the runtime */
    ETD_LINK_INFO_KERNELS = 0xF,
    /* u8 state, u32 id of the last run */
    ETD_LINK_INFO_LAST_RUN = 0x11,
    /* 8 bytes: start of the SHA-256 of a model in the firmware image, which COMMIT with that digest loads without an upload; text: its name, cut to what the answer has room for */
    ETD_LINK_INFO_PLACED_MODEL = 0x10,
};

/* kinds of RESET */
enum {
    /* drop model, inputs and trace */
    ETD_LINK_RESET_SESSION = 0x0,
    /* restart the firmware after answering */
    ETD_LINK_RESET_REBOOT = 0x1,
    /* clear the postmortem record */
    ETD_LINK_RESET_POSTMORTEM = 0x2,
};

/* first byte of every answer, and the C runtime's result codes */
enum {
    /* success */
    ETD_LINK_STATUS_OK = 0x0,
    /* malformed request body */
    ETD_LINK_STATUS_BAD_REQUEST = 0x1,
    /* unknown request; detail is its type */
    ETD_LINK_STATUS_UNKNOWN_OP = 0x2,
    /* not possible in the current state */
    ETD_LINK_STATUS_WRONG_STATE = 0x3,
    /* too large; detail is the capacity in bytes */
    ETD_LINK_STATUS_TOO_LARGE = 0x4,
    /* bytes before this offset are missing; detail is the expected offset */
    ETD_LINK_STATUS_GAP = 0x5,
    /* the digest of the received bytes differs from the announced one */
    ETD_LINK_STATUS_DIGEST_MISMATCH = 0x6,
    /* invalid .pte file; detail is the offset in the file */
    ETD_LINK_STATUS_BAD_PROGRAM = 0x7,
    /* the operator named in the message has no kernel; detail is the instruction */
    ETD_LINK_STATUS_UNSUPPORTED_OPERATOR = 0x8,
    /* the program needs an unsupported feature; detail depends on the feature */
    ETD_LINK_STATUS_UNSUPPORTED_FEATURE = 0x9,
    /* the arena is too small; detail is the size needed in bytes */
    ETD_LINK_STATUS_OUT_OF_MEMORY = 0xA,
    /* a kernel rejected its arguments; detail is the instruction */
    ETD_LINK_STATUS_KERNEL_FAILED = 0xB,
    /* an input is missing or has the wrong size; detail is the expected size in bytes */
    ETD_LINK_STATUS_BAD_INPUT = 0xC,
    /* invalid region, index or range */
    ETD_LINK_STATUS_BAD_REGION = 0xD,
    /* unsupported link version; detail is the device's version */
    ETD_LINK_STATUS_BAD_VERSION = 0xE,
    /* method not found; detail is the number of methods in the program */
    ETD_LINK_STATUS_NO_METHOD = 0xF,
    /* a CANCEL ended the run; detail is the number of executions requested */
    ETD_LINK_STATUS_CANCELLED = 0x10,
    /* the device is running a model; the answer says which run and how far it is */
    ETD_LINK_STATUS_BUSY = 0x11,
    /* the host did not acknowledge a chunk of a streamed log in time; detail is the longest wait in ms */
    ETD_LINK_STATUS_LOG_UNDELIVERED = 0x14,
};

/* meaning of the detail of a status other than OK */
enum {
    /* as documented with the status */
    ETD_LINK_DETAIL_KIND_STATUS = 0x0,
    /* an error code of ExecuTorch */
    ETD_LINK_DETAIL_KIND_EXECUTORCH = 0x1,
};

/* error codes of ExecuTorch's runtime, of its version 1.5 */
enum {
    /* internal error */
    ETD_LINK_EXECUTORCH_ERROR_INTERNAL = 0x1,
    /* not possible in the current state */
    ETD_LINK_EXECUTORCH_ERROR_INVALID_STATE = 0x2,
    /* no more steps to execute */
    ETD_LINK_EXECUTORCH_ERROR_END_OF_METHOD = 0x3,
    /* already loaded */
    ETD_LINK_EXECUTORCH_ERROR_ALREADY_LOADED = 0x4,
    /* not supported */
    ETD_LINK_EXECUTORCH_ERROR_NOT_SUPPORTED = 0x10,
    /* not implemented */
    ETD_LINK_EXECUTORCH_ERROR_NOT_IMPLEMENTED = 0x11,
    /* invalid argument */
    ETD_LINK_EXECUTORCH_ERROR_INVALID_ARGUMENT = 0x12,
    /* invalid type of an object */
    ETD_LINK_EXECUTORCH_ERROR_INVALID_TYPE = 0x13,
    /* no kernel is registered for an operator */
    ETD_LINK_EXECUTORCH_ERROR_OPERATOR_MISSING = 0x14,
    /* more kernels than the registry holds */
    ETD_LINK_EXECUTORCH_ERROR_REGISTRATION_EXCEEDING_MAX_KERNELS = 0x15,
    /* a kernel was registered twice */
    ETD_LINK_EXECUTORCH_ERROR_REGISTRATION_ALREADY_REGISTERED = 0x16,
    /* a resource was not found */
    ETD_LINK_EXECUTORCH_ERROR_NOT_FOUND = 0x20,
    /* not enough memory */
    ETD_LINK_EXECUTORCH_ERROR_MEMORY_ALLOCATION_FAILED = 0x21,
    /* a resource cannot be accessed */
    ETD_LINK_EXECUTORCH_ERROR_ACCESS_FAILED = 0x22,
    /* invalid contents of a program */
    ETD_LINK_EXECUTORCH_ERROR_INVALID_PROGRAM = 0x23,
    /* invalid contents of external data */
    ETD_LINK_EXECUTORCH_ERROR_INVALID_EXTERNAL_DATA = 0x24,
    /* not enough resources */
    ETD_LINK_EXECUTORCH_ERROR_OUT_OF_RESOURCES = 0x25,
    /* a backend got an incompatible version of its data */
    ETD_LINK_EXECUTORCH_ERROR_DELEGATE_INVALID_COMPATIBILITY = 0x30,
    /* a backend found not enough memory */
    ETD_LINK_EXECUTORCH_ERROR_DELEGATE_MEMORY_ALLOCATION_FAILED = 0x31,
    /* invalid handle of a delegate */
    ETD_LINK_EXECUTORCH_ERROR_DELEGATE_INVALID_HANDLE = 0x32,
};

/* values that RUN logs, numbered as in ExecuTorch */
enum {
    /* no values */
    ETD_LINK_DEBUG_LEVEL_NO_LOGGING = 0x0,
    /* outputs of the method */
    ETD_LINK_DEBUG_LEVEL_PROGRAM_OUTPUTS = 0x1,
    /* also outputs of every instruction */
    ETD_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS = 0x2,
};

/* events that RUN logs, numbered as in ExecuTorch */
enum {
    /* scopes around a whole method */
    ETD_LINK_PROFILING_LEVEL_METHOD_ONLY = 0x0,
    /* also events inside instructions */
    ETD_LINK_PROFILING_LEVEL_ALL_EVENTS = 0x1,
};

/* behavior of RUN when the log is full */
enum {
    /* stop logging and count dropped events */
    ETD_LINK_WHEN_FULL_STOP = 0x0,
    /* drop whole executions, the oldest first, and count them */
    ETD_LINK_WHEN_FULL_DROP_OLDEST_RUNS = 0x1,
};

#endif
