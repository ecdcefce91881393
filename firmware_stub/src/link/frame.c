#include "et_frame.h"

#include "cobs.h"
#include "et_bytes.h"

enum { STATE_TEXT, STATE_FRAME, STATE_SKIP };

uint32_t et_frame_encode(uint8_t *payload, uint32_t size, uint8_t *out) {
    uint32_t checked = size - ET_LINK_CRC_SIZE;
    et_put_u32(payload + checked, et_crc32(0, payload, checked));
    out[0] = 0;
    uint32_t length = 1u + et_cobs_encode(payload, size, out + 1);
    out[length] = 0;
    return length + 1u;
}

void et_frame_decoder_init(et_frame_decoder *decoder, uint8_t *payload, uint32_t capacity) {
    *decoder = (et_frame_decoder){.payload = payload, .capacity = capacity, .state = STATE_TEXT};
}

static et_frame_result accumulate(et_frame_decoder *decoder, uint8_t byte) {
    if (decoder->size == decoder->capacity) {
        decoder->state = STATE_SKIP;
        return ET_FRAME_TOO_LONG;
    }
    decoder->payload[decoder->size++] = byte;
    return ET_FRAME_NOTHING;
}

static et_frame_result finish(et_frame_decoder *decoder) {
    decoder->state = STATE_TEXT;
    if (!et_cobs_decode(decoder->payload, &decoder->size)) {
        return ET_FRAME_BAD_COBS;
    }
    if (decoder->size < ET_LINK_HEADER_SIZE + ET_LINK_CRC_SIZE) {
        return ET_FRAME_TOO_SHORT;
    }
    if (decoder->payload[0] != 0) {
        return ET_FRAME_BAD_MARKER;
    }
    uint32_t checked = decoder->size - ET_LINK_CRC_SIZE;
    if (et_get_u32(decoder->payload + checked) != et_crc32(0, decoder->payload, checked)) {
        return ET_FRAME_BAD_CRC;
    }
    return ET_FRAME_GOOD;
}

et_frame_result et_frame_decode(et_frame_decoder *decoder, uint8_t byte) {
    switch (decoder->state) {
    case STATE_FRAME:
        return byte == 0 ? finish(decoder) : accumulate(decoder, byte);
    case STATE_SKIP:
        if (byte == 0) {
            decoder->state = STATE_TEXT;
        }
        return ET_FRAME_NOTHING;
    default:
        if (byte == ET_LINK_SOH) {
            decoder->state = STATE_FRAME;
            decoder->size = 0;
            return accumulate(decoder, byte);
        }
        return byte == 0 ? ET_FRAME_NOTHING : ET_FRAME_TEXT;
    }
}
