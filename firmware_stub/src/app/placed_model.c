// SPDX-License-Identifier: Apache-2.0
/* Includes the file ETD_PLACED_MODEL in the image, in read-only memory. The assembler reads the file, because
 * a C array of megabytes takes a compiler minutes. */
#include "placed_model.h"

extern const uint8_t etd_app_placed_bytes[];

__asm__(".section .rodata.etd_placed_model, \"a\"\n"
        ".balign 16\n"
        ".global etd_app_placed_bytes\n"
        "etd_app_placed_bytes:\n"
        ".incbin \"" ETD_PLACED_MODEL "\"\n"
        ".balign 4\n"
        ".previous\n");

static const uint8_t digest[ETD_LINK_DIGEST_SIZE] = {ETD_PLACED_DIGEST};

const etd_placed_model etd_app_placed_model = {
    .bytes = etd_app_placed_bytes,
    .size = ETD_PLACED_SIZE,
    .digest = digest,
    .name = ETD_PLACED_NAME,
};
