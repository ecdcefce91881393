"""Constants of the link protocol. Generated from ``schema/link.toml`` by ``schema/generate.py``."""

from enum import IntEnum
from typing import Final

VERSION: Final = 0x1
"""Version of the link protocol, negotiated in HELLO."""
HEADER_SIZE: Final = 0x4
"""Bytes before the body: marker, type, sequence number."""
CRC_SIZE: Final = 0x4
"""Bytes after the body: CRC-32 over header and body."""
MIN_MTU: Final = 0x100
"""Smallest MTU in bytes that a device may offer; limit for the host before HELLO."""
RESPONSE: Final = 0x80
"""Set in the frame type of an answer."""
DIGEST_SIZE: Final = 0x20
"""Size of a SHA-256 digest in bytes."""
READ_QUEUE: Final = 0x4
"""Maximum number of pending READs, including the active one."""
LISTEN_MS: Final = 0x12C
"""Longest time in ms that a running device waits after an execution for the rest of a request; hosts repeat HELLO and CANCEL more often."""
BAUD_TRIAL_MS: Final = 0x3E8
"""Time in ms without a good frame after which the device returns to its first rate; starts at a change of rate and when invalid bytes arrive."""
STREAM_WAIT_MS: Final = 0x2710
"""Longest time in ms that a device waits between operators for the host to get on with a streamed log; starts again when the host has received more of it."""
STREAM_ASK_MS: Final = 0xFA
"""Time in ms after which a waiting device sends NOTE_LOG_WAIT again."""
MAX_COUNTERS: Final = 0x8
"""Most hardware counters that a run can read."""
SOH: Final = 0x1
"""First byte of every encoded frame; does not occur in console text."""


class Op(IntEnum):
    """Request types; the answer has the same type with RESPONSE set."""

    HELLO = 0x1
    """Negotiate the version and identify the target."""
    PING = 0x2
    """Read the tick counter for clock alignment."""
    STATUS = 0x3
    """Read the state of the device and its link statistics."""
    RESET = 0x4
    """Drop the model or the postmortem, or reboot."""
    BAUD = 0x5
    """Change the line rate after the answer."""
    BATCH = 0x6
    """Several requests in one frame, answered in one frame."""
    COUNTERS = 0x7
    """List the hardware counters that RUN can select."""
    OPEN = 0x10
    """Announce the size of a region to be written."""
    WRITE = 0x11
    """Write bytes to an open region."""
    COMMIT = 0x12
    """Verify the region's digest and take it into use."""
    RUN = 0x20
    """Load the method and execute it."""
    CANCEL = 0x21
    """End the run after the current execution."""
    STAT = 0x30
    """Read size and digest of a region."""
    READ = 0x31
    """Read part of a region; the device streams it."""
    NOTE_PROGRESS = 0x40
    """Notification: executions completed so far."""
    NOTE_DONE = 0x41
    """Notification: the run ended, with its result."""
    NOTE_STARTED = 0x42
    """Notification: the firmware has restarted and lost its state."""
    NOTE_DAMAGED = 0x43
    """Notification: a corrupt frame was received."""
    NOTE_LOG = 0x44
    """Notification: part of a chunk of the log, sent during the run."""
    LOG_ACK = 0x50
    """Acknowledge a chunk of the log, or request bytes of it again; not answered."""
    NOTE_LOG_WAIT = 0x51
    """Notification: the device waits for LOG_ACK of a chunk."""


class RunFlag(IntEnum):
    """Flags of RUN."""

    STREAM = 0x1
    """Send the log in chunks during the run."""
    CRASH = 0x2
    """Fault on purpose in the second execution, to prove the postmortem; refused by ports that cannot."""
    CONTINUE = 0x4
    """Clock and log go on from the run before, whose log the host has read; refused with several tracers."""
    KEEP_STATE = 0x8
    """With CONTINUE: the method is not loaded again, so mutable buffers keep their contents."""


class Region(IntEnum):
    """Regions for OPEN, WRITE, COMMIT, STAT and READ."""

    MODEL = 0x1
    """The .pte file."""
    INPUT = 0x2
    """Data of input tensor number `index`."""
    OUTPUT = 0x3
    """Data of output tensor number `index`."""
    TRACE = 0x4
    """Trace of the last run: index 0 is the compact log, and those of further tracers behind it, or the ETDump of a runtime that writes one; index 1 is its debug buffer."""
    POSTMORTEM = 0x5
    """Postmortem record (postmortem.toml), available until the next RUN."""


class State(IntEnum):
    """State of the device."""

    IDLE = 0x0
    """No model loaded."""
    READY = 0x1
    """A model is loaded and checked."""
    RUNNING = 0x2
    """Executing."""
    DONE = 0x3
    """A run has ended; outputs and trace are readable."""


class Info(IntEnum):
    """Tags of the target information in the answer to HELLO; format: u8 tag, u8 length, value."""

    BOARD = 0x1
    """Text: board name."""
    CPU = 0x2
    """Text: CPU name."""
    BUILD_ID = 0x3
    """Text: build id of the firmware."""
    CLOCK = 0x4
    """U8 bits, u8 down, u16 zero, u32 rate numerator (Hz), u32 rate denominator, text name; one per clock, in the order of the clock numbers in events."""
    MODEL_CAPACITY = 0x5
    """U32 capacity for the model in bytes."""
    ARENA_CAPACITY = 0x6
    """U32 capacity of the arena in bytes, for planned memory and method state."""
    INPUT_CAPACITY = 0x7
    """U32 capacity for staged inputs in bytes."""
    TRACE_CAPACITY = 0x8
    """U32 capacity of the compact log in bytes, with those of further tracers."""
    PROBE_COST = 0x9
    """U32 ticks, u32 pairs: time of that many empty start/end pairs, measured at start-up."""
    OPERATORS = 0xA
    """U32 number of kernels linked in."""
    POSTMORTEM = 0xB
    """U8 condition (postmortem.toml); present if the region POSTMORTEM can be read."""
    BAUDS = 0xC
    """U32 each: rates that BAUD accepts, in bits per second, the rate after reset first."""
    DEBUG_CAPACITY = 0xD
    """U32 capacity for logged tensor data in bytes."""
    RUNTIME = 0xE
    """Text: runtime that executes models, with its version if it has one of its own."""
    KERNELS = 0xF
    """Text: kernel library linked with the runtime."""
    LAST_RUN = 0x11
    """U8 state, u32 id of the last run."""
    PLACED_MODEL = 0x10
    """8 bytes: start of the SHA-256 of a model in the firmware image, which COMMIT with that digest loads without an upload; text: its name, cut to what the answer has room for."""


class Reset(IntEnum):
    """Kinds of RESET."""

    SESSION = 0x0
    """Drop model, inputs and trace."""
    REBOOT = 0x1
    """Restart the firmware after answering."""
    POSTMORTEM = 0x2
    """Clear the postmortem record."""


class Status(IntEnum):
    """First byte of every answer, and the C runtime's result codes."""

    OK = 0x0
    """Success."""
    BAD_REQUEST = 0x1
    """Malformed request body."""
    UNKNOWN_OP = 0x2
    """Unknown request; detail is its type."""
    WRONG_STATE = 0x3
    """Not possible in the current state."""
    TOO_LARGE = 0x4
    """Too large; detail is the capacity in bytes."""
    GAP = 0x5
    """Bytes before this offset are missing; detail is the expected offset."""
    DIGEST_MISMATCH = 0x6
    """The digest of the received bytes differs from the announced one."""
    BAD_PROGRAM = 0x7
    """Invalid .pte file; detail is the offset in the file."""
    UNSUPPORTED_OPERATOR = 0x8
    """The operator named in the message has no kernel; detail is the instruction."""
    UNSUPPORTED_FEATURE = 0x9
    """The program needs an unsupported feature; detail depends on the feature."""
    OUT_OF_MEMORY = 0xA
    """The arena is too small; detail is the size needed in bytes."""
    KERNEL_FAILED = 0xB
    """A kernel rejected its arguments; detail is the instruction."""
    BAD_INPUT = 0xC
    """An input is missing or has the wrong size; detail is the expected size in bytes."""
    BAD_REGION = 0xD
    """Invalid region, index or range."""
    BAD_VERSION = 0xE
    """Unsupported link version; detail is the device's version."""
    NO_METHOD = 0xF
    """Method not found; detail is the number of methods in the program."""
    CANCELLED = 0x10
    """A CANCEL ended the run; detail is the number of executions requested."""
    BUSY = 0x11
    """The device is running a model; the answer says which run and how far it is."""
    LOG_UNDELIVERED = 0x14
    """The host did not acknowledge a chunk of a streamed log in time; detail is the longest wait in ms."""


class DetailKind(IntEnum):
    """Meaning of the detail of a status other than OK."""

    STATUS = 0x0
    """As documented with the status."""
    EXECUTORCH = 0x1
    """An error code of ExecuTorch."""


class ExecutorchError(IntEnum):
    """Error codes of ExecuTorch's runtime, of its version 1.5."""

    INTERNAL = 0x1
    """Internal error."""
    INVALID_STATE = 0x2
    """Not possible in the current state."""
    END_OF_METHOD = 0x3
    """No more steps to execute."""
    ALREADY_LOADED = 0x4
    """Already loaded."""
    NOT_SUPPORTED = 0x10
    """Not supported."""
    NOT_IMPLEMENTED = 0x11
    """Not implemented."""
    INVALID_ARGUMENT = 0x12
    """Invalid argument."""
    INVALID_TYPE = 0x13
    """Invalid type of an object."""
    OPERATOR_MISSING = 0x14
    """No kernel is registered for an operator."""
    REGISTRATION_EXCEEDING_MAX_KERNELS = 0x15
    """More kernels than the registry holds."""
    REGISTRATION_ALREADY_REGISTERED = 0x16
    """A kernel was registered twice."""
    NOT_FOUND = 0x20
    """A resource was not found."""
    MEMORY_ALLOCATION_FAILED = 0x21
    """Not enough memory."""
    ACCESS_FAILED = 0x22
    """A resource cannot be accessed."""
    INVALID_PROGRAM = 0x23
    """Invalid contents of a program."""
    INVALID_EXTERNAL_DATA = 0x24
    """Invalid contents of external data."""
    OUT_OF_RESOURCES = 0x25
    """Not enough resources."""
    DELEGATE_INVALID_COMPATIBILITY = 0x30
    """A backend got an incompatible version of its data."""
    DELEGATE_MEMORY_ALLOCATION_FAILED = 0x31
    """A backend found not enough memory."""
    DELEGATE_INVALID_HANDLE = 0x32
    """Invalid handle of a delegate."""


class DebugLevel(IntEnum):
    """Values that RUN logs, numbered as in ExecuTorch."""

    NO_LOGGING = 0x0
    """No values."""
    PROGRAM_OUTPUTS = 0x1
    """Outputs of the method."""
    INTERMEDIATE_OUTPUTS = 0x2
    """Also outputs of every instruction."""


class ProfilingLevel(IntEnum):
    """Events that RUN logs, numbered as in ExecuTorch."""

    METHOD_ONLY = 0x0
    """Scopes around a whole method."""
    ALL_EVENTS = 0x1
    """Also events inside instructions."""


class WhenFull(IntEnum):
    """Behavior of RUN when the log is full."""

    STOP = 0x0
    """Stop logging and count dropped events."""
    DROP_OLDEST_RUNS = 0x1
    """Drop whole executions, the oldest first, and count them."""
