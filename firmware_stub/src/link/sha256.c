// SPDX-License-Identifier: Apache-2.0
#include "etd_sha256.h"

#include <string.h>

#define BLOCK_SIZE 64u
#define LENGTH_AT 56u /* offset of the message length in the last block */

static const uint32_t round_constants[64] = {
    0x428A2F98u, 0x71374491u, 0xB5C0FBCFu, 0xE9B5DBA5u, 0x3956C25Bu, 0x59F111F1u, 0x923F82A4u, 0xAB1C5ED5u,
    0xD807AA98u, 0x12835B01u, 0x243185BEu, 0x550C7DC3u, 0x72BE5D74u, 0x80DEB1FEu, 0x9BDC06A7u, 0xC19BF174u,
    0xE49B69C1u, 0xEFBE4786u, 0x0FC19DC6u, 0x240CA1CCu, 0x2DE92C6Fu, 0x4A7484AAu, 0x5CB0A9DCu, 0x76F988DAu,
    0x983E5152u, 0xA831C66Du, 0xB00327C8u, 0xBF597FC7u, 0xC6E00BF3u, 0xD5A79147u, 0x06CA6351u, 0x14292967u,
    0x27B70A85u, 0x2E1B2138u, 0x4D2C6DFCu, 0x53380D13u, 0x650A7354u, 0x766A0ABBu, 0x81C2C92Eu, 0x92722C85u,
    0xA2BFE8A1u, 0xA81A664Bu, 0xC24B8B70u, 0xC76C51A3u, 0xD192E819u, 0xD6990624u, 0xF40E3585u, 0x106AA070u,
    0x19A4C116u, 0x1E376C08u, 0x2748774Cu, 0x34B0BCB5u, 0x391C0CB3u, 0x4ED8AA4Au, 0x5B9CCA4Fu, 0x682E6FF3u,
    0x748F82EEu, 0x78A5636Fu, 0x84C87814u, 0x8CC70208u, 0x90BEFFFAu, 0xA4506CEBu, 0xBEF9A3F7u, 0xC67178F2u,
};

static uint32_t rotate(uint32_t x, unsigned count) {
    return x >> count | x << (32u - count);
}

static uint32_t get_big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_big_endian(uint8_t *at, uint32_t value) {
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24u - 8u * i));
    }
}

/* Returns the next word of the message schedule, which is kept as a ring of the last 16 words. */
static uint32_t schedule(uint32_t w[16], unsigned i) {
    uint32_t w15 = w[(i + 1) & 15u];
    uint32_t w2 = w[(i + 14) & 15u];
    uint32_t s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ w15 >> 3;
    uint32_t s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ w2 >> 10;
    return w[i & 15u] += s0 + w[(i + 9) & 15u] + s1;
}

/* The working variables have the names of FIPS 180-4, section 6.2.2. Moving them as an array would call the C
 * library's memmove, which copies byte by byte on some cores. */
static void compress(uint32_t state[8], const uint8_t *block) {
    uint32_t w[16];
    uint32_t a = state[0];
    uint32_t b = state[1];
    uint32_t c = state[2];
    uint32_t d = state[3];
    uint32_t e = state[4];
    uint32_t f = state[5];
    uint32_t g = state[6];
    uint32_t h = state[7];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t word = i < 16 ? (w[i] = get_big_endian(block + 4 * i)) : schedule(w, i);
        uint32_t sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t choice = (e & f) ^ (~e & g);
        uint32_t t1 = h + sum1 + choice + round_constants[i] + word;
        uint32_t sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + sum0 + majority;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

void etd_sha256_init(etd_sha256 *sha) {
    *sha = (etd_sha256){.state = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au, 0x510E527Fu,
                                  0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u}};
}

void etd_sha256_update(etd_sha256 *sha, const void *bytes, uint32_t size) {
    const uint8_t *at = bytes;
    while (size > 0) {
        uint32_t filled = (uint32_t)sha->length % BLOCK_SIZE;
        uint32_t count = BLOCK_SIZE - filled < size ? BLOCK_SIZE - filled : size;
        memcpy(sha->block + filled, at, count);
        sha->length += count;
        at += count;
        size -= count;
        if (filled + count == BLOCK_SIZE) {
            compress(sha->state, sha->block);
        }
    }
}

void etd_sha256_final(etd_sha256 *sha, uint8_t digest[ETD_LINK_DIGEST_SIZE]) {
    static const uint8_t padding[BLOCK_SIZE] = {0x80};
    uint64_t bits = sha->length * 8u;
    uint32_t filled = (uint32_t)sha->length % BLOCK_SIZE;
    etd_sha256_update(sha, padding, (filled < LENGTH_AT ? LENGTH_AT : LENGTH_AT + BLOCK_SIZE) - filled);
    uint8_t length[8];
    put_big_endian(length, (uint32_t)(bits >> 32));
    put_big_endian(length + 4, (uint32_t)bits);
    etd_sha256_update(sha, length, sizeof length);
    for (unsigned i = 0; i < 8; i++) {
        put_big_endian(digest + 4 * i, sha->state[i]);
    }
}
