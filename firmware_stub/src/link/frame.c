// SPDX-License-Identifier: Apache-2.0
#include "etd_frame.h"

#include "cobs.h"
#include "etd_bytes.h"

enum { STATE_TEXT, STATE_FRAME, STATE_SKIP };

uint32_t etd_frame_encode(uint8_t *payload, uint32_t size, uint8_t *out) {
    uint32_t checked = size - ETD_LINK_CRC_SIZE;
    etd_put_u32(payload + checked, etd_crc32(0, payload, checked));
    out[0] = 0;
    uint32_t length = 1u + etd_cobs_encode(payload, size, out + 1);
    out[length] = 0;
    return length + 1u;
}

void etd_frame_decoder_init(etd_frame_decoder *decoder, uint8_t *payload, uint32_t capacity) {
    *decoder = (etd_frame_decoder){.payload = payload, .capacity = capacity, .state = STATE_TEXT};
}

static etd_frame_result accumulate(etd_frame_decoder *decoder, uint8_t byte) {
    if (decoder->size == decoder->capacity) {
        decoder->state = STATE_SKIP;
        return ETD_FRAME_TOO_LONG;
    }
    decoder->payload[decoder->size++] = byte;
    return ETD_FRAME_NOTHING;
}

static etd_frame_result finish(etd_frame_decoder *decoder) {
    decoder->state = STATE_TEXT;
    if (!etd_cobs_decode(decoder->payload, &decoder->size)) {
        return ETD_FRAME_BAD_COBS;
    }
    if (decoder->size < ETD_LINK_HEADER_SIZE + ETD_LINK_CRC_SIZE) {
        return ETD_FRAME_TOO_SHORT;
    }
    if (decoder->payload[0] != 0) {
        return ETD_FRAME_BAD_MARKER;
    }
    uint32_t checked = decoder->size - ETD_LINK_CRC_SIZE;
    if (etd_get_u32(decoder->payload + checked) != etd_crc32(0, decoder->payload, checked)) {
        return ETD_FRAME_BAD_CRC;
    }
    return ETD_FRAME_GOOD;
}

etd_frame_result etd_frame_decode(etd_frame_decoder *decoder, uint8_t byte) {
    switch (decoder->state) {
    case STATE_FRAME:
        return byte == 0 ? finish(decoder) : accumulate(decoder, byte);
    case STATE_SKIP:
        if (byte == 0) {
            decoder->state = STATE_TEXT;
        }
        return ETD_FRAME_NOTHING;
    default:
        if (byte == ETD_LINK_SOH) {
            decoder->state = STATE_FRAME;
            decoder->size = 0;
            return accumulate(decoder, byte);
        }
        return byte == 0 ? ETD_FRAME_NOTHING : ETD_FRAME_TEXT;
    }
}
