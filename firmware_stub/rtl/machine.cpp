// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace {

constexpr uint32_t UART = ETD_DEVICES + 0x10000000u;
constexpr uint32_t UART_SIZE = 8;
constexpr uint32_t UART_DATA = 0;
constexpr uint32_t UART_INTERRUPTS = 1;
constexpr uint32_t UART_FORMAT = 3;
constexpr uint32_t UART_STATE = 5;
constexpr uint8_t FORMAT_DIVIDER = 0x80;
constexpr uint8_t INTERRUPT_RECEIVED = 1;
constexpr uint8_t INTERRUPT_ROOM = 2;
constexpr uint8_t STATE_RECEIVED = 1;
constexpr uint8_t STATE_SENT = 0x60; /* there is always room, and nothing left to send */

constexpr uint32_t UART_IRQ = 10;
constexpr uint32_t PLIC_PRIORITY = ETD_DEVICES + 0x0C000000u + 4 * UART_IRQ;
constexpr uint32_t PLIC_ENABLE = ETD_DEVICES + 0x0C002000u;
constexpr uint32_t PLIC_THRESHOLD = ETD_DEVICES + 0x0C200000u;
constexpr uint32_t PLIC_CLAIM = ETD_DEVICES + 0x0C200004u;

constexpr uint32_t FINISHER = ETD_DEVICES + 0x00100000u;
constexpr uint32_t FINISHER_RESET = 0x7777u;

constexpr uint32_t NOP = 0x00000013u;

/* lui t0, ...; addi t0, t0, ...; jr t0 */
std::array<uint32_t, 3> jump_to(uint32_t address) {
    uint32_t upper = (address + 0x800u) & 0xFFFFF000u; /* addi adds a signed number */
    return {upper | 0x2B7u, ((address - upper) & 0xFFFu) << 20 | 0x28293u, 0x28067u};
}

} // namespace

/* The boot memory is no-operations up to a jump to the firmware, so a core may start at any word of it. */
Machine::Machine(FirmwareImage image, HostLink &link)
    : image_(std::move(image)), link_(link), ram_address_(image_.entry & ~(RAM_SIZE - 1)), ram_(RAM_SIZE) {
    boot_.fill(NOP);
    auto jump = jump_to(image_.entry);
    std::copy(jump.begin(), jump.end(), boot_.end() - jump.size());
    for (const Segment &segment : image_.segments) {
        uint32_t offset = segment.address - ram_address_;
        if (offset >= RAM_SIZE || segment.contents.size() > RAM_SIZE - offset) {
            throw std::runtime_error("the image does not fit into 16 MiB of RAM around its entry");
        }
    }
    reset();
}

void Machine::reset() {
    for (const Segment &segment : image_.segments) {
        std::copy(segment.contents.begin(), segment.contents.end(),
                  ram_.begin() + (segment.address - ram_address_));
    }
    uart_interrupt_enable_ = 0;
    uart_format_ = 0;
    enabled_ = 0;
    claimed_ = false;
    wants_reset_ = false;
}

bool Machine::access(const Access &access, uint32_t &result) {
    uint32_t offset = access.address - ram_address_;
    if (offset < RAM_SIZE) {
        uint8_t *word = &ram_[offset];
        if (!access.write) {
            std::memcpy(&result, word, 4);
            return true;
        }
        for (uint32_t i = 0; i < 4; i++) {
            if ((access.bytes >> i & 1u) != 0) {
                word[i] = static_cast<uint8_t>(access.data >> (8 * i));
            }
        }
        return true;
    }
    if (!access.write && access.address - BOOT_ADDRESS < BOOT_SIZE) {
        result = boot_[(access.address - BOOT_ADDRESS) / 4];
        return true;
    }
    bool found = true;
    result = device_register(access.address, access, found);
    return found;
}

bool Machine::uart_interrupts() const {
    return (uart_interrupt_enable_ & INTERRUPT_ROOM) != 0 ||
           ((uart_interrupt_enable_ & INTERRUPT_RECEIVED) != 0 && link_.has_received());
}

bool Machine::interrupts() const {
    return (enabled_ >> UART_IRQ & 1u) != 0 && !claimed_ && uart_interrupts();
}

uint32_t Machine::device_register(uint32_t address, const Access &access, bool &found) {
    if (address - UART < UART_SIZE) {
        uint32_t result = 0;
        for (uint32_t i = 0; i < 4; i++) {
            if ((access.bytes >> i & 1u) != 0) {
                auto value = static_cast<uint8_t>(access.data >> (8 * i));
                result |= static_cast<uint32_t>(uart_register(address - UART + i, access, value)) << (8 * i);
            }
        }
        return result;
    }
    switch (address) {
    case PLIC_PRIORITY:
    case PLIC_THRESHOLD:
        return 0; /* there is one interrupt, so its priority does not matter */
    case PLIC_ENABLE:
        if (access.write) {
            enabled_ = access.data;
        }
        return enabled_;
    case PLIC_CLAIM:
        if (access.write) {
            claimed_ = false;
            return 0;
        }
        if (!interrupts()) {
            return 0;
        }
        claimed_ = true;
        return UART_IRQ;
    case FINISHER:
        wants_reset_ = wants_reset_ || (access.write && access.data == FINISHER_RESET);
        return 0;
    default:
        found = false;
        return 0;
    }
}

/* The divider of the rate and the settings of the FIFO have no effect. */
uint8_t Machine::uart_register(uint32_t index, const Access &access, uint8_t value) {
    bool divider = (uart_format_ & FORMAT_DIVIDER) != 0;
    if (index == UART_FORMAT) {
        if (access.write) {
            uart_format_ = value;
        }
        return uart_format_;
    }
    if (index == UART_STATE) {
        return static_cast<uint8_t>(STATE_SENT | (link_.has_received() ? STATE_RECEIVED : 0));
    }
    if (index == UART_DATA && !divider) {
        if (!access.write) {
            return link_.receive();
        }
        link_.send(value);
    } else if (index == UART_INTERRUPTS && !divider) {
        if (access.write) {
            uart_interrupt_enable_ = value;
        }
        return uart_interrupt_enable_;
    }
    return 0;
}
