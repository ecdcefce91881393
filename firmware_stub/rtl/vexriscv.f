// SPDX-License-Identifier: Apache-2.0
// The variant of VexRiscv with caches and counters. It never caches addresses with the highest bit set, so devices
// have it, and RAM has not.
-CFLAGS -DETD_DEVICES=0x80000000u
${ETD_RTL}/VexRiscv_IMAC.v
