// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE

#include "crash.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include <unistd.h>

#include "etd_port.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define STACK_BYTES 65536u

/* From the linker: start of the image, which symbol addresses are relative to. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker chose the name */
extern const char __executable_start[], etext[];

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static volatile sig_atomic_t settled;
static void (*restart_program)(void);

static void set(etd_fault *fault, uint32_t number, uintptr_t value) {
    fault->registers[number] = (uint32_t)value;
    fault->known |= 1u << number;
}

static void read_pc(etd_fault *fault, const void *context) {
    const ucontext_t *at = context;
#if defined(__x86_64__)
    uintptr_t pc = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    uintptr_t pc = (uintptr_t)at->uc_mcontext.pc;
#else
    uintptr_t pc = 0;
    (void)at;
#endif
    uintptr_t start = (uintptr_t)__executable_start;
    /* Otherwise the address is in a library, which has other symbols. */
    if (pc >= start && pc < (uintptr_t)etext) {
        set(fault, ETD_POSTMORTEM_SIGNAL_PC, pc - start);
    }
}

static void on_crash(int number, siginfo_t *info, void *context) {
    if (settled == 0 || gettid() != getpid()) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
        return;
    }
    settled = 0;
    etd_fault fault = {.kind = ETD_POSTMORTEM_FAULT_SIGNAL, .number = (uint32_t)number};
    read_pc(&fault, context);
    /* Only a fault raised by the kernel has an address, not a signal sent by a process. */
    if (info->si_code > 0 && (number == SIGSEGV || number == SIGBUS)) {
        uint64_t address = (uintptr_t)info->si_addr;
        set(&fault, ETD_POSTMORTEM_SIGNAL_ADDRESS, (uintptr_t)(address & UINT32_MAX));
        set(&fault, ETD_POSTMORTEM_SIGNAL_ADDRESS_HIGH, (uintptr_t)(address >> 32));
    }
    etd_app_fault(&fault);
    restart_program();
}

void crash_catch(void (*restart)(void)) {
    /* Use another stack, because the main one may be the cause of the fault. */
    static uint8_t stack[STACK_BYTES];
    const stack_t place = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    restart_program = restart;
    if (SANITIZED || sigaltstack(&place, NULL) != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)sigaction(signals[i], &action, NULL);
    }
}

void crash_settled(void) {
    settled = 1;
}
