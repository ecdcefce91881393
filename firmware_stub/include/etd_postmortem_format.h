// SPDX-License-Identifier: Apache-2.0
/* Postmortem constants. Generated from schema/postmortem.toml by schema/generate.py. */
#ifndef ETD_POSTMORTEM_FORMAT_H
#define ETD_POSTMORTEM_FORMAT_H

/* "ETPM" read as a little-endian u32 */
#define ETD_POSTMORTEM_MAGIC 0x4D505445u
/* at the end of the head; memory after power-on is unlikely to hold both */
#define ETD_POSTMORTEM_SECOND_MAGIC 0x9E3B71C5u
/* format version */
#define ETD_POSTMORTEM_VERSION 0x1
/* size in bytes, including its CRC */
#define ETD_POSTMORTEM_HEAD_SIZE 0x40
/* size in bytes */
#define ETD_POSTMORTEM_RUN_SIZE 0x8
/* size in bytes, including its CRC */
#define ETD_POSTMORTEM_FAULT_SIZE 0x50
/* size in bytes */
#define ETD_POSTMORTEM_AFTER_SIZE 0x18
/* size in bytes; longer build ids are truncated */
#define ETD_POSTMORTEM_BUILD_ID_SIZE 0x10
/* number of registers of a fault */
#define ETD_POSTMORTEM_REGISTERS 0x10
/* maximum number of open scopes stored */
#define ETD_POSTMORTEM_SCOPES 0x4
/* size in bytes */
#define ETD_POSTMORTEM_SCOPE_SIZE 0x14
/* "KEPT" read as a little-endian u32 */
#define ETD_POSTMORTEM_KEPT 0x5450454Bu

/* what a device found after a reset */
enum {
    /* no postmortem */
    ETD_POSTMORTEM_CONDITION_NONE = 0x0,
    /* a record with valid CRCs */
    ETD_POSTMORTEM_CONDITION_WHOLE = 0x1,
    /* a record that is damaged in part */
    ETD_POSTMORTEM_CONDITION_DAMAGED = 0x2,
};

/* activity of the device */
enum {
    /* no run since the device started */
    ETD_POSTMORTEM_PHASE_IDLE = 0x454C4449u,
    /* executing a run */
    ETD_POSTMORTEM_PHASE_RUNNING = 0x214E5552u,
    /* serving the host after a run */
    ETD_POSTMORTEM_PHASE_ENDED = 0x21444E45u,
};

/* kinds of fault */
enum {
    /* no fault: a watchdog or another source reset the device */
    ETD_POSTMORTEM_FAULT_NONE = 0x0,
    /* an exception; the number is from IPSR */
    ETD_POSTMORTEM_FAULT_CORTEX_M = 0x1,
    /* a trap to machine mode; the number is mcause */
    ETD_POSTMORTEM_FAULT_RISCV = 0x2,
    /* a signal to a process of the host; the number is the host's */
    ETD_POSTMORTEM_FAULT_SIGNAL = 0x3,
};

/* fields of the tracer whose offsets are in the head */
enum {
    /* u32 */
    ETD_POSTMORTEM_FIELD_RECORD_COUNT = 0x0,
    /* u32 */
    ETD_POSTMORTEM_FIELD_NAMES_SIZE = 0x1,
    /* u16 */
    ETD_POSTMORTEM_FIELD_NAME_COUNT = 0x2,
    /* u32 */
    ETD_POSTMORTEM_FIELD_DROPPED_EVENTS = 0x3,
    /* u32 */
    ETD_POSTMORTEM_FIELD_DROPPED_BLOCKS = 0x4,
    /* u32 */
    ETD_POSTMORTEM_FIELD_FILTERED_EVENTS = 0x5,
    /* u8 */
    ETD_POSTMORTEM_FIELD_FULL = 0x6,
    /* u32 */
    ETD_POSTMORTEM_FIELD_CHUNK = 0x7,
    /* u32 */
    ETD_POSTMORTEM_FIELD_FIRST_RECORD = 0x8,
    /* u8: number of open scopes */
    ETD_POSTMORTEM_FIELD_OPEN_COUNT = 0x9,
    /* the first scope */
    ETD_POSTMORTEM_FIELD_OPEN_SCOPES = 0xA,
};

/* registers of a Cortex-M fault */
enum {
    /* as stacked */
    ETD_POSTMORTEM_CORTEX_M_R0 = 0x0,
    /* as stacked */
    ETD_POSTMORTEM_CORTEX_M_R1 = 0x1,
    /* as stacked */
    ETD_POSTMORTEM_CORTEX_M_R2 = 0x2,
    /* as stacked */
    ETD_POSTMORTEM_CORTEX_M_R3 = 0x3,
    /* as stacked */
    ETD_POSTMORTEM_CORTEX_M_R12 = 0x4,
    /* as stacked: return address of the function */
    ETD_POSTMORTEM_CORTEX_M_LR = 0x5,
    /* as stacked: the faulting instruction */
    ETD_POSTMORTEM_CORTEX_M_PC = 0x6,
    /* as stacked */
    ETD_POSTMORTEM_CORTEX_M_XPSR = 0x7,
    /* stack pointer before the exception */
    ETD_POSTMORTEM_CORTEX_M_SP = 0x8,
    /* link register in the handler */
    ETD_POSTMORTEM_CORTEX_M_EXC_RETURN = 0x9,
    /* Configurable Fault Status Register */
    ETD_POSTMORTEM_CORTEX_M_CFSR = 0xA,
    /* HardFault Status Register */
    ETD_POSTMORTEM_CORTEX_M_HFSR = 0xB,
    /* address of a MemManage fault */
    ETD_POSTMORTEM_CORTEX_M_MMFAR = 0xC,
    /* address of a BusFault */
    ETD_POSTMORTEM_CORTEX_M_BFAR = 0xD,
};

/* registers of a RISC-V trap */
enum {
    /* mepc: the faulting instruction */
    ETD_POSTMORTEM_RISCV_PC = 0x0,
    /* return address */
    ETD_POSTMORTEM_RISCV_RA = 0x1,
    /* stack pointer */
    ETD_POSTMORTEM_RISCV_SP = 0x2,
    /* mtval: the faulting address or instruction */
    ETD_POSTMORTEM_RISCV_TVAL = 0x3,
    /* mstatus */
    ETD_POSTMORTEM_RISCV_STATUS = 0x4,
};

/* data of a signal to a process */
enum {
    /* offset of the instruction in the image */
    ETD_POSTMORTEM_SIGNAL_PC = 0x0,
    /* low half of the faulting address */
    ETD_POSTMORTEM_SIGNAL_ADDRESS = 0x1,
    /* high half of the faulting address */
    ETD_POSTMORTEM_SIGNAL_ADDRESS_HIGH = 0x2,
};

/* bits of the reset reason, from a register of the device */
enum {
    /* the device has such a register */
    ETD_POSTMORTEM_REASON_KNOWN = 0x1,
    /* power-on or brown-out */
    ETD_POSTMORTEM_REASON_POWER = 0x2,
    /* reset pin */
    ETD_POSTMORTEM_REASON_PIN = 0x4,
    /* watchdog */
    ETD_POSTMORTEM_REASON_WATCHDOG = 0x8,
    /* reset by the firmware */
    ETD_POSTMORTEM_REASON_SOFTWARE = 0x10,
    /* a fault in the fault handler */
    ETD_POSTMORTEM_REASON_LOCKUP = 0x20,
};

#endif
