/* The firmware: static memory of the sizes the port states, and a server over the port. */
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "et_port.h"
#include "et_server.h"

#ifndef ET_DEBUG_CAPACITY
#define ET_DEBUG_CAPACITY 0 /* no room for the values of tensors */
#endif

alignas(16) static uint8_t model[ET_MODEL_CAPACITY];
alignas(16) static uint8_t arena[ET_ARENA_CAPACITY];
alignas(16) static uint8_t inputs[ET_INPUT_CAPACITY];
#if ET_DEBUG_CAPACITY > 0
alignas(16) static uint8_t debug[ET_DEBUG_CAPACITY];
#else
static uint8_t *const debug = NULL;
#endif
static uint8_t receive[ET_SERVER_RECEIVE_SIZE(ET_MTU)];
static uint8_t send[ET_MTU];
static uint8_t encoded[ET_FRAME_ENCODED_SIZE(ET_MTU)];
static et_server server;

/* Left alone by start-up, so that what a crash leaves can be read after the reset. One thing, so that it can
 * also be dumped as one. */
static struct {
    et_postmortem record;
    alignas(16) uint8_t trace[ET_TRACE_CAPACITY];
} kept __attribute__((section(".noinit")));

static void print(const et_port *port, const char *text) {
    port->write((const uint8_t *)text, (uint32_t)strlen(text));
}

void et_app_fault(const et_fault *fault) {
    et_postmortem_fault(&kept.record, fault);
}

_Noreturn void et_app_main(const et_port *port, const et_target *target) {
    const et_server_config config = {
        .port = port,
        .target = target,
        .build_id = ET_BUILD_ID,
        .model = model,
        .model_capacity = sizeof model,
        .arena = arena,
        .arena_capacity = sizeof arena,
        .inputs = inputs,
        .input_capacity = sizeof inputs,
        .trace = kept.trace,
        .trace_capacity = sizeof kept.trace,
        .debug = debug,
        .debug_capacity = ET_DEBUG_CAPACITY,
        .kept = &kept.record,
        .receive = receive,
        .send = send,
        .encoded = encoded,
        .mtu = ET_MTU,
    };
    et_server_init(&server, &config);
    /* The host finds the build id of an image in this text (harness/flash/image.py): it must stay whole. */
    print(port, "etdump stub " ET_BUILD_ID " on ");
    print(port, target->board);
    print(port, server.postmortem == ET_POSTMORTEM_CONDITION_NONE
                    ? "\n"
                    : "\nit crashed or was reset in a run: `etharness postmortem` tells\n");
    et_server_announce(&server);
    for (;;) {
        if (!et_server_poll(&server)) {
            port->idle();
        }
    }
}
