/* SPDX-License-Identifier: BSD-3-Clause */
/* vectors.h - frames that other implementations sent.
 *
 * A vector has the octets from the IP header to the ICRC, captured from Linux rxe and from two
 * NICs. uroce's encoders made none of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct vector {
    const char *name;
    bool v6;
    const char *opcode; /* its name in the table */
    uint32_t dest_qpn;
    uint32_t psn;
    uint32_t payload_length;
    const char *hex;
};

#define VECTOR_OCTETS_MAX 256u

static const struct vector vectors[] = {
    { "rxe ACK over IPv4", false, "RC_ACK", 0x11, 0x4def7b, 0,
      "450000302ed040004011f7dc0a0700010a070002f0f212b7001c0000"
      "1100ffff00000011004def7b1f000001d1c30f41" },
    { "rxe SEND_ONLY over IPv4", false, "RC_SEND_ONLY", 0x11, 0x4def7b, 16,
      "4500003c141340004011128e0a0700020a070001f0f212b700280000"
      "0400ffff00000011804def7b0000560d202fc5c000000542000000649d8592d6" },
    { "rxe READ_REQUEST over IPv4", false, "RC_READ_REQUEST", 0x11, 0xd7ac85, 0,
      "4500003c2ed140004011f7cf0a0700010a070002f0f212b700280000"
      "0c00ffff0000001180d7ac850000560d202fc5c000000542000000648ad0abbb" },
    { "rxe FETCH_ADD over IPv4", false, "RC_FETCH_ADD", 0x18, 0x192b0e, 0,
      "4500004821aa4000401104eb0a0700020a070001c24012b700340000"
      "1400ffff0000001880192b0e0000562bdef3800000000d8c0000000000000001"
      "00000000000000009e0d0eb0" },
    { "rxe ATOMIC_ACK over IPv4", false, "RC_ATOMIC_ACK", 0x18, 0x192b0e, 0,
      "4500003839bb40004011ece90a0700010a070002c24012b700240000"
      "1200ffff0000001800192b0e1f000001e81ba0dbb792c13f1c517b66" },
    { "rxe SEND_ONLY over IPv6", true, "RC_SEND_ONLY", 0x12, 0x6ec6e8, 16,
      "6000000000281140fd000007000000000000000000000002fd000007000000000000000000000001"
      "e80112b7002800000400ffff00000012806ec6e8000055f87e0a86e0000009a700000040c4aeb1d1" },
    { "rxe ACK over IPv6", true, "RC_ACK", 0x12, 0x6ec6e8, 0,
      "60000000001c1140fd000007000000000000000000000001fd000007000000000000000000000002"
      "e80112b7001c00001100ffff00000012006ec6e81f00000123e5c48a" },
    { "ConnectX-4 CNP", false, "CNP", 0x118, 0, 0,
      "45c2003c718c4000401191610a0011010a001201000012b700280000"
      "8100ffff40000118000000000000000000000000000000000000000082fd002a" },
    { "ConnectX UC_SEND_ONLY with two octets of padding", false, "UC_SEND_ONLY", 211, 13571856, 18,
      "45010040047840004011b4d5c0a80007c0a80007c00012b7002c0000"
      "2460ffff000000d300cf1710"
      "4630818be28935d90e9a95505401be885e50000078f353f3" },
};

static inline int vector_digit(char c)
{
    return c >= 'a' ? c - 'a' + 10 : c - '0';
}

/* Converts the text of a vector to octets. Spaces in the text are ignored. */
static inline uint32_t vector_octets(const char *hex, uint8_t out[static VECTOR_OCTETS_MAX])
{
    uint32_t length = 0;

    while (*hex != '\0') {
        if (*hex == ' ') {
            hex++;
            continue;
        }
        out[length++] = (uint8_t)(vector_digit(hex[0]) << 4 | vector_digit(hex[1]));
        hex += 2;
    }
    return length;
}

/* Returns the octets of a vector after an Ethernet header. */
static inline uint32_t vector_frame(const struct vector *vector,
                                    uint8_t out[static VECTOR_OCTETS_MAX])
{
    static const uint8_t macs[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };
    uint8_t octets[VECTOR_OCTETS_MAX];
    const uint32_t length = vector_octets(vector->hex, octets);

    memcpy(out, macs, sizeof macs);
    out[12] = vector->v6 ? 0x86 : 0x08;
    out[13] = vector->v6 ? 0xdd : 0x00;
    memcpy(out + 14, octets, length);
    return 14 + length;
}
