/* Arm MPS3 with AN547: UART 0 polled; the system counter, read through system timer 0, as the tick counter.
 * All devices at their Secure addresses. */
#include "cmsdk_uart.h"
#include "cortex_m.h"
#include "et_port.h"

#define COUNTER_CTRL REGISTER(0x58100000u)
#define COUNTER_LOW REGISTER(0x58100008u)
#define COUNTER_HIGH REGISTER(0x5810000Cu)
#define COUNTER_CTRL_ON 1u
#define TIMER_COUNT_LOW REGISTER(0x58000000u)

static uint32_t ticks(void) {
    return TIMER_COUNT_LOW;
}

/* The counter has 64 bits; it takes a value only while it stands. */
static void restart_clock(void) {
    COUNTER_CTRL = 0;
    COUNTER_LOW = 0;
    COUNTER_HIGH = 0;
    COUNTER_CTRL = COUNTER_CTRL_ON;
}

int main(void) {
    static const et_port port = {
        .read = cmsdk_uart_read,
        .write = cortex_m_console,
        .idle = cmsdk_uart_idle,
        .ticks = ticks,
        .restart_clock = restart_clock,
        .reboot = cmsdk_uart_reboot,
    };
    static const et_target target = {
        .board = ET_BOARD,
        .cpu = ET_CPU,
        .clock_name = "system counter",
        .clock_hz_numerator = ET_CLOCK_HZ,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
    };
    cmsdk_uart_start();
    restart_clock();
    et_app_main(&port, &target);
}
