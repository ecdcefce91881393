/* SHA-256 (FIPS 180-4), for proving that what arrived is what was sent. */
#ifndef ET_SHA256_H
#define ET_SHA256_H

#include <stdint.h>

#include "et_link_wire.h"

typedef struct {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
} et_sha256;

void et_sha256_init(et_sha256 *sha);
void et_sha256_update(et_sha256 *sha, const void *bytes, uint32_t size);
void et_sha256_final(et_sha256 *sha, uint8_t digest[ET_LINK_DIGEST_SIZE]);

#endif
