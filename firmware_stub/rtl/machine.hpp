// SPDX-License-Identifier: Apache-2.0
/* The board around a core: RAM with the firmware, and the devices of QEMU's "virt" machine that the firmware
 * uses (UART, interrupt controller, reset). */
#ifndef MACHINE_HPP
#define MACHINE_HPP

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "host_link.hpp"

/* Offset of all devices, for cores that never cache some addresses. */
#ifndef ETD_DEVICES
#define ETD_DEVICES 0u
#endif

constexpr uint32_t BOOT_ADDRESS = 0x1000u;
constexpr uint32_t BOOT_SIZE = 0x100u;
constexpr uint32_t RAM_SIZE = 16u << 20;

/* A transfer of one word, of which `bytes` selects the bytes by a bit each. */
struct Access {
    bool write;
    uint32_t address; /* of the word */
    uint32_t bytes;
    uint32_t data; /* to write */
};

/* A part of the firmware's image, loaded again at every reset. */
struct Segment {
    uint32_t address;
    std::vector<uint8_t> contents;
};

struct FirmwareImage {
    uint32_t entry;
    std::vector<Segment> segments;
};

/* Reads a 32-bit little-endian ELF file; throws std::runtime_error. */
FirmwareImage read_firmware_image(const std::string &path);

class Machine {
  public:
    Machine(FirmwareImage image, HostLink &link);

    /* Loads the image. Other memory keeps its contents. */
    void reset();

    /* Returns false if there is nothing at the address; else `result` is the word that was read. */
    bool access(const Access &access, uint32_t &result);

    /* Whether the interrupt line of the core is high. */
    bool interrupts() const;

    bool wants_reset() const {
        return wants_reset_;
    }

  private:
    uint32_t device_register(uint32_t address, const Access &access, bool &found);
    uint8_t uart_register(uint32_t index, const Access &access, uint8_t value);
    bool uart_interrupts() const;

    FirmwareImage image_;
    HostLink &link_;
    uint32_t ram_address_;
    std::vector<uint8_t> ram_;
    std::array<uint32_t, BOOT_SIZE / 4> boot_;
    uint8_t uart_interrupt_enable_ = 0;
    uint8_t uart_format_ = 0;
    uint32_t enabled_ = 0;
    bool claimed_ = false;
    bool wants_reset_ = false;
};

#endif
