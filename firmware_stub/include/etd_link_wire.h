// SPDX-License-Identifier: Apache-2.0
/* Numbers of the link protocol. Generated from schema/link.toml by schema/generate.py. */
#ifndef ETD_LINK_WIRE_H
#define ETD_LINK_WIRE_H

/* link protocol version, agreed in HELLO */
#define ETD_LINK_VERSION 0x1
/* bytes before the body: marker, type, sequence number */
#define ETD_LINK_HEADER_SIZE 0x4
/* bytes after the body: CRC-32 over header and body */
#define ETD_LINK_CRC_SIZE 0x4
/* smallest frame payload a device may offer, and the most a host sends before HELLO */
#define ETD_LINK_MIN_MTU 0x100
/* set in the type of a frame that answers a request */
#define ETD_LINK_RESPONSE 0x80
/* bytes of a SHA-256 digest */
#define ETD_LINK_DIGEST_SIZE 0x20
/* READs that the device keeps waiting at most, the one under way included */
#define ETD_LINK_READ_QUEUE 0x4
/* after a change of rate, or when bytes come that are no frame: how long the device stays at a rate other than the first without hearing a good frame */
#define ETD_LINK_BAUD_TRIAL_MS 0x3E8
/* first byte of every encoded frame; never part of console text */
#define ETD_LINK_SOH 0x1

/* request types; the answer carries the same type with RESPONSE set */
enum {
    /* agree on a version, learn what the target is */
    ETD_LINK_OP_HELLO = 0x1,
    /* read the tick counter, for clock alignment */
    ETD_LINK_OP_PING = 0x2,
    /* what the device is doing and what its link has seen */
    ETD_LINK_OP_STATUS = 0x3,
    /* drop the model, or reboot */
    ETD_LINK_OP_RESET = 0x4,
    /* change the rate of the line, once this is answered */
    ETD_LINK_OP_BAUD = 0x5,
    /* announce the size of a region that will be written */
    ETD_LINK_OP_OPEN = 0x10,
    /* put bytes into an open region */
    ETD_LINK_OP_WRITE = 0x11,
    /* compare the region's digest and take it into use */
    ETD_LINK_OP_COMMIT = 0x12,
    /* load the method and execute it a number of times */
    ETD_LINK_OP_RUN = 0x20,
    /* size and digest of a readable region */
    ETD_LINK_OP_STAT = 0x30,
    /* stream part of a region */
    ETD_LINK_OP_READ = 0x31,
    /* unasked: executions completed so far */
    ETD_LINK_OP_NOTE_PROGRESS = 0x40,
    /* unasked: the run ended, and how */
    ETD_LINK_OP_NOTE_DONE = 0x41,
    /* unasked: the firmware has started, and knows nothing of what was before */
    ETD_LINK_OP_NOTE_STARTED = 0x42,
    /* unasked: a frame from the host arrived corrupt */
    ETD_LINK_OP_NOTE_DAMAGED = 0x43,
    /* unasked: part of a chunk of the log, sent while the run goes on */
    ETD_LINK_OP_NOTE_LOG = 0x44,
};

/* flags of RUN */
enum {
    /* send the log in chunks while the run goes on */
    ETD_LINK_RUN_FLAG_STREAM = 0x1,
};

/* what OPEN, WRITE, COMMIT, STAT and READ address */
enum {
    /* the .pte file */
    ETD_LINK_REGION_MODEL = 0x1,
    /* bytes of input tensor number `index` */
    ETD_LINK_REGION_INPUT = 0x2,
    /* bytes of output tensor number `index` */
    ETD_LINK_REGION_OUTPUT = 0x3,
    /* the trace of the last run: index 0 its compact log, or the ETDump of a runtime that makes one; index 1 the debug buffer that goes with it */
    ETD_LINK_REGION_TRACE = 0x4,
    /* what has survived a reset (postmortem.toml); there until the next RUN */
    ETD_LINK_REGION_POSTMORTEM = 0x5,
};

/* what the device is doing */
enum {
    /* no model */
    ETD_LINK_STATE_IDLE = 0x0,
    /* a model is loaded and checked */
    ETD_LINK_STATE_READY = 0x1,
    /* executing */
    ETD_LINK_STATE_RUNNING = 0x2,
    /* a run has ended; outputs and trace can be read */
    ETD_LINK_STATE_DONE = 0x3,
};

/* tags of the target information in the answer to HELLO: u8 tag, u8 length, value */
enum {
    /* text: board name */
    ETD_LINK_INFO_BOARD = 0x1,
    /* text: CPU name */
    ETD_LINK_INFO_CPU = 0x2,
    /* text: identity of the firmware image */
    ETD_LINK_INFO_BUILD_ID = 0x3,
    /* u8 bits, u8 down, u16 zero, u32 rate numerator (Hz), u32 rate denominator, text name; repeated, the position is the clock number in events */
    ETD_LINK_INFO_CLOCK = 0x4,
    /* u32 bytes */
    ETD_LINK_INFO_MODEL_CAPACITY = 0x5,
    /* u32 bytes for planned memory and method state together */
    ETD_LINK_INFO_ARENA_CAPACITY = 0x6,
    /* u32 bytes that staged inputs may take */
    ETD_LINK_INFO_INPUT_CAPACITY = 0x7,
    /* u32 bytes for the compact log */
    ETD_LINK_INFO_TRACE_CAPACITY = 0x8,
    /* u32 ticks, u32 pairs: time that so many empty start/end pairs took at start-up */
    ETD_LINK_INFO_PROBE_COST = 0x9,
    /* u32 number of kernels linked in */
    ETD_LINK_INFO_OPERATORS = 0xA,
    /* u8 condition (postmortem.toml): there is a region POSTMORTEM to read */
    ETD_LINK_INFO_POSTMORTEM = 0xB,
    /* u32 each: rates that BAUD takes, bits per second, the one after a reset first */
    ETD_LINK_INFO_BAUDS = 0xC,
    /* u32 bytes for the values of tensors */
    ETD_LINK_INFO_DEBUG_CAPACITY = 0xD,
};

/* kinds of RESET */
enum {
    /* forget model, inputs and trace */
    ETD_LINK_RESET_SESSION = 0x0,
    /* restart the firmware after answering */
    ETD_LINK_RESET_REBOOT = 0x1,
    /* forget what has survived a reset */
    ETD_LINK_RESET_POSTMORTEM = 0x2,
};

/* first byte of every answer, and the C runtime's result codes */
enum {
    /* done */
    ETD_LINK_STATUS_OK = 0x0,
    /* malformed body */
    ETD_LINK_STATUS_BAD_REQUEST = 0x1,
    /* no such request; detail is its type */
    ETD_LINK_STATUS_UNKNOWN_OP = 0x2,
    /* not possible in the present state */
    ETD_LINK_STATUS_WRONG_STATE = 0x3,
    /* does not fit; detail is the capacity in bytes */
    ETD_LINK_STATUS_TOO_LARGE = 0x4,
    /* bytes are missing before this offset; detail is the offset expected */
    ETD_LINK_STATUS_GAP = 0x5,
    /* the bytes received are not the bytes announced */
    ETD_LINK_STATUS_DIGEST_MISMATCH = 0x6,
    /* the .pte file is not valid; detail is the offset in the file */
    ETD_LINK_STATUS_BAD_PROGRAM = 0x7,
    /* no kernel for the operator named in the message; detail is the instruction */
    ETD_LINK_STATUS_UNSUPPORTED_OPERATOR = 0x8,
    /* the program needs something this runtime has not; detail is where */
    ETD_LINK_STATUS_UNSUPPORTED_FEATURE = 0x9,
    /* an arena is too small; detail is the bytes needed */
    ETD_LINK_STATUS_OUT_OF_MEMORY = 0xA,
    /* a kernel refused its arguments; detail is the instruction */
    ETD_LINK_STATUS_KERNEL_FAILED = 0xB,
    /* an input is missing or of the wrong size; detail is the size expected */
    ETD_LINK_STATUS_BAD_INPUT = 0xC,
    /* no such region, index or range */
    ETD_LINK_STATUS_BAD_REGION = 0xD,
    /* no common link version; detail is the device's version */
    ETD_LINK_STATUS_BAD_VERSION = 0xE,
    /* the program has no method of the name asked for; detail is how many it has */
    ETD_LINK_STATUS_NO_METHOD = 0xF,
};

/* which values RUN logs, as ExecuTorch numbers it */
enum {
    /* none */
    ETD_LINK_DEBUG_LEVEL_NO_LOGGING = 0x0,
    /* what the method returns */
    ETD_LINK_DEBUG_LEVEL_PROGRAM_OUTPUTS = 0x1,
    /* what every instruction computes, too */
    ETD_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS = 0x2,
};

/* which events RUN logs, as ExecuTorch numbers it */
enum {
    /* scopes around a whole method */
    ETD_LINK_PROFILING_LEVEL_METHOD_ONLY = 0x0,
    /* what happens within instructions, too */
    ETD_LINK_PROFILING_LEVEL_ALL_EVENTS = 0x1,
};

/* what RUN does when the log is full */
enum {
    /* log nothing more, and count */
    ETD_LINK_WHEN_FULL_STOP = 0x0,
    /* give up the oldest executions, whole, and count them */
    ETD_LINK_WHEN_FULL_DROP_OLDEST_RUNS = 0x1,
};

#endif
