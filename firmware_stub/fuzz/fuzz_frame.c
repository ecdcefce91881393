// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the frame decoder, which must stay within its memory. Accepted frames and all payloads must survive
 * a round trip through encoder and decoder. The first byte sets the decoder's capacity. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "etd_frame.h"

#define LONGEST 4096u

static void check(int truth) {
    if (!truth) {
        abort();
    }
}

/* Encodes a payload with room for its CRC and decodes it again. */
static void round_trip(const uint8_t *bytes, uint32_t size) {
    static uint8_t encoded[ETD_FRAME_ENCODED_SIZE(LONGEST)];
    static uint8_t again[ETD_FRAME_ENCODED_SIZE(LONGEST)];
    uint8_t *payload = malloc(size);
    check(payload != NULL);
    memcpy(payload, bytes, size);
    uint32_t length = etd_frame_encode(payload, size, encoded);
    check(length <= ETD_FRAME_ENCODED_SIZE(size));

    etd_frame_decoder decoder;
    etd_frame_decoder_init(&decoder, again, sizeof again);
    etd_frame_result result = ETD_FRAME_NOTHING;
    for (uint32_t i = 0; i < length; i++) {
        check(result == ETD_FRAME_NOTHING);
        result = etd_frame_decode(&decoder, encoded[i]);
    }
    check(result == ETD_FRAME_GOOD && decoder.size == size && memcmp(again, payload, size) == 0);
    free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    uint32_t capacity =
        2u * (uint8_t)(data[0] - 1u); /* a payload begins with 0, so 0 sets the largest capacity */
    uint8_t *payload = malloc(capacity > 0 ? capacity : 1u);
    check(payload != NULL);
    etd_frame_decoder decoder;
    etd_frame_decoder_init(&decoder, payload, capacity);
    for (size_t i = 1; i < size; i++) {
        if (etd_frame_decode(&decoder, data[i]) == ETD_FRAME_GOOD) {
            round_trip(payload, decoder.size);
        }
    }
    free(payload);
    if (size >= ETD_LINK_HEADER_SIZE + ETD_LINK_CRC_SIZE && size <= LONGEST && data[0] == 0) {
        round_trip(data, (uint32_t)size);
    }
    return 0;
}
