/* Arm MPS2 with one of the CMSDK images (AN385, AN386, AN500): UART 0 polled, timer 0 as the tick counter. */
#include "cmsdk_uart.h"
#include "cortex_m.h"
#include "et_port.h"

#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)

/* The timer counts down. */
static uint32_t ticks(void) {
    return UINT32_MAX - TIMER_VALUE;
}

static void restart_clock(void) {
    TIMER_CTRL = 0;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
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
        .clock_name = "CMSDK timer 0",
        .clock_hz_numerator = ET_CLOCK_HZ,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
    };
    cmsdk_uart_start();
    restart_clock();
    et_app_main(&port, &target);
}
