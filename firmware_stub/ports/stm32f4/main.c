/* STM32F405: USART 1 on PB6 (sends) and PB7 (receives), which the Netduino Plus 2 has on its header as SCL
 * and SDA; TIM2 as the tick counter. Everything runs from the oscillator that is on after reset. */
#include "bare_metal.h"

#define CLOCK_HZ 16000000u
#define BAUD 115200u

#define RCC_AHB1ENR REGISTER(0x40023830u)
#define RCC_APB1ENR REGISTER(0x40023840u)
#define RCC_APB2ENR REGISTER(0x40023844u)
#define AHB1ENR_PORT_B (1u << 1)
#define APB1ENR_TIM2 1u
#define APB2ENR_USART1 (1u << 4)

#define PORT_B_MODE REGISTER(0x40020400u)
#define PORT_B_PULL REGISTER(0x4002040Cu)
#define PORT_B_FUNCTION REGISTER(0x40020420u)
#define MODE_MASK (15u << 12)
#define MODE_FUNCTION (10u << 12)
#define PULL_MASK (15u << 12)
#define PULL_UP_PB7 (1u << 14)
#define FUNCTION_MASK (0xFFu << 24)
#define FUNCTION_USART1 (0x77u << 24)

#define UART_STATE REGISTER(0x40011000u)
#define UART_DATA REGISTER(0x40011004u)
#define UART_DIVIDER REGISTER(0x40011008u)
#define UART_CTRL REGISTER(0x4001100Cu)
#define STATE_OVERRUN (1u << 3)
#define STATE_RECEIVED (1u << 5)
#define STATE_SENT (1u << 6)
#define STATE_BUFFER_FREE (1u << 7)
#define CTRL_ON (1u << 13 | 1u << 3 | 1u << 2)
#define CTRL_INT_RECEIVED (1u << 5)
#define CTRL_INT_ROOM (1u << 7)

#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_EVENT REGISTER(0x40000014u)
#define TIMER_COUNT REGISTER(0x40000024u)
#define TIMER_PRESCALER REGISTER(0x40000028u)
#define TIMER_RELOAD REGISTER(0x4000002Cu)
#define TIMER_CTRL_ON 1u
#define TIMER_EVENT_UPDATE 1u

static const uint32_t bauds[] = {BAUD, 230400, 460800};

void port_set_baud(uint32_t baud) {
    UART_DIVIDER = (CLOCK_HZ + baud / 2) / baud;
}

void port_start(void) {
    RCC_AHB1ENR |= AHB1ENR_PORT_B;
    RCC_APB2ENR |= APB2ENR_USART1;
    /* A device answers two cycles after its clock starts; a read takes that long. */
    (void)RCC_APB2ENR;
    PORT_B_FUNCTION = (PORT_B_FUNCTION & ~FUNCTION_MASK) | FUNCTION_USART1;
    PORT_B_PULL = (PORT_B_PULL & ~PULL_MASK) | PULL_UP_PB7;
    PORT_B_MODE = (PORT_B_MODE & ~MODE_MASK) | MODE_FUNCTION;
    port_set_baud(BAUD);
    UART_CTRL = CTRL_ON;
}

/* Reading the state and then the data forgets an overrun. */
int32_t port_receive(void) {
    uint32_t state = UART_STATE;
    if ((state & STATE_RECEIVED) == 0) {
        return -1;
    }
    return (int32_t)(UART_DATA & 0xFFu) | ((state & STATE_OVERRUN) != 0 ? ET_UART_OVERRUN : 0);
}

bool port_send(uint8_t byte) {
    if ((UART_STATE & STATE_BUFFER_FREE) == 0) {
        return false;
    }
    UART_DATA = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    UART_CTRL = CTRL_ON | (received ? CTRL_INT_RECEIVED : 0) | (room ? CTRL_INT_ROOM : 0);
}

void port_finish_sending(void) {
    while ((UART_STATE & STATE_SENT) == 0) {
    }
}

uint32_t port_ticks(void) {
    return TIMER_COUNT;
}

void port_restart_clock(void) {
    RCC_APB1ENR |= APB1ENR_TIM2;
    (void)RCC_APB1ENR;
    TIMER_CTRL = 0;
    TIMER_PRESCALER = 0;
    TIMER_RELOAD = UINT32_MAX;
    /* Takes these over and clears the prescaler. */
    TIMER_EVENT = TIMER_EVENT_UPDATE;
    TIMER_COUNT = 0;
    TIMER_CTRL = TIMER_CTRL_ON;
}

const et_target port_target = {
    .board = ET_BOARD,
    .cpu = ET_CPU,
    .clock_name = "TIM2",
    .clock_hz_numerator = ET_TIMER_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
