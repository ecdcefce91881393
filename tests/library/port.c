// SPDX-License-Identifier: Apache-2.0
/* A port of ports/bare_metal on this computer, whose UART accepts nothing. With OPTIONAL it has the optional
 * functions: a watchdog, and a limit of the time that a write waits. Prints what the application sees. */
#include "bare_metal.h"

#include <stdio.h>
#include <stdlib.h>

uint32_t stack_bottom[1], stack_top[1];
static uint32_t now, fed, sleeps;
const etd_target port_target = {.board = "host"};

#ifdef OPTIONAL
void port_alive(void *context) {
    fed += context == NULL;
}

uint32_t port_send_timeout(void) {
    return 1000;
}
#endif

void port_start(void) {
}

int32_t port_receive(void) {
    return -1;
}

bool port_send(uint8_t byte) {
    (void)byte;
    return false;
}

void port_interrupts(bool received, bool room) {
    (void)received;
    (void)room;
}

void port_finish_sending(void) {
}

uint32_t port_ticks(void) {
    return now += 10;
}

void port_restart_clock(void) {
    now = 0;
}

void core_start_interrupts(void) {
}

void core_mask_interrupts(bool on) {
    (void)on;
}

void core_sleep(void) {
    sleeps++;
}

_Noreturn void core_reset(void) {
    exit(EXIT_FAILURE);
}

_Noreturn void etd_app_main(const etd_port *port, const etd_target *target) {
    (void)target;
    port->idle(port->context);
    printf("alive %d idle %u sleeps %u", port->alive != NULL, (unsigned)fed, (unsigned)sleeps);
    if (port->alive != NULL) {
        port->alive(port->context);
        port->write(port->context, (const uint8_t *)"lost", 4);
        printf(" fed %u waited %d", (unsigned)fed, now > 1000 && now < 2000);
    }
    printf("\n");
    exit(EXIT_SUCCESS);
}
