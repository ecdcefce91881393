// SPDX-License-Identifier: Apache-2.0
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "machine.hpp"

FirmwareImage read_firmware_image(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    Elf32_Ehdr header;
    if (!file || bytes.size() < sizeof header) {
        throw std::runtime_error("cannot read " + path);
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS32 ||
        header.e_machine != EM_RISCV) {
        throw std::runtime_error(path + " is not a 32-bit ELF file for RISC-V");
    }
    FirmwareImage image{header.e_entry, {}};
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf32_Phdr part;
        size_t at = header.e_phoff + i * sizeof part;
        if (at > bytes.size() || bytes.size() - at < sizeof part) {
            throw std::runtime_error(path + " is truncated");
        }
        std::memcpy(&part, &bytes[at], sizeof part);
        if (part.p_type != PT_LOAD || part.p_filesz == 0) {
            continue; /* cleared by the firmware, or kept over a reset */
        }
        if (part.p_offset > bytes.size() || bytes.size() - part.p_offset < part.p_filesz) {
            throw std::runtime_error(path + " is truncated");
        }
        auto begin = bytes.begin() + part.p_offset;
        image.segments.push_back({part.p_paddr, {begin, begin + part.p_filesz}});
    }
    return image;
}
