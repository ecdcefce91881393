// SPDX-License-Identifier: Apache-2.0
/* The firmware: static buffers of the sizes set by the port, and a server over the port. */
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "etd_port.h"
#include "etd_server.h"
#include "placed_model.h"

#ifndef ETD_DEBUG_CAPACITY
#define ETD_DEBUG_CAPACITY 0 /* no values of tensors */
#endif

/* Firmware with a placed model needs no buffer for uploads. Linker scripts may leave this buffer and `debug`
 * uncleared. */
#if ETD_MODEL_CAPACITY > 0
alignas(16) static uint8_t model[ETD_MODEL_CAPACITY];
#else
static uint8_t *const model = NULL;
#endif
alignas(16) static uint8_t arena[ETD_ARENA_CAPACITY];
alignas(16) static uint8_t inputs[ETD_INPUT_CAPACITY];
#if ETD_DEBUG_CAPACITY > 0
alignas(16) static uint8_t debug[ETD_DEBUG_CAPACITY];
#else
static uint8_t *const debug = NULL;
#endif
static uint8_t receive[ETD_SERVER_RECEIVE_SIZE(ETD_MTU)];
static uint8_t send[ETD_MTU];
static uint8_t encoded[ETD_FRAME_ENCODED_SIZE(ETD_MTU)];
static etd_server server;

/* Start-up code does not clear this memory, so its contents survive a reset. Record and log are one object,
 * so that they can be dumped together. */
static struct {
    etd_postmortem record;
    alignas(16) uint8_t trace[ETD_TRACE_CAPACITY];
} kept __attribute__((section(".noinit")));

static void print(const etd_port *port, const char *text) {
    port->write(port->context, (const uint8_t *)text, (uint32_t)strlen(text));
}

void etd_app_fault(const etd_fault *fault) {
    etd_postmortem_fault(&kept.record, fault);
}

ETD_NORETURN void etd_app_main(const etd_port *port, const etd_target *target) {
    const etd_server_config config = {
        .port = port,
        .target = target,
        .build_id = ETD_BUILD_ID,
        .model = model,
        .model_capacity = ETD_MODEL_CAPACITY,
        .arena = arena,
        .arena_capacity = sizeof arena,
        .inputs = inputs,
        .input_capacity = sizeof inputs,
        .trace = kept.trace,
        .trace_capacity = sizeof kept.trace,
        .debug = debug,
        .debug_capacity = ETD_DEBUG_CAPACITY,
        .kept = &kept.record,
        .receive = receive,
        .send = send,
        .encoded = encoded,
        .mtu = ETD_MTU,
#ifdef ETD_PLACED_MODEL
        .placed = &etd_app_placed_model,
#endif
    };
    etd_server_init(&server, &config);
    /* The host finds the build id of an image by this text (harness/flash/image.py). Keep it in one piece. */
    print(port, "etdump stub " ETD_BUILD_ID " on ");
    print(port, target->board);
    print(port, server.postmortem == ETD_POSTMORTEM_CONDITION_NONE
                    ? "\n"
                    : "\nthe last run crashed or was reset; read it with `etharness postmortem`\n");
    etd_server_announce(&server);
    for (;;) {
        if (!etd_server_poll(&server)) {
            port->idle(port->context);
        }
    }
}
