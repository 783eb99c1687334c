/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32_fold.h - powers of x modulo P, reflected, for crc32_x86.c, crc32_arm64.c and the test
 * that derives them.
 *
 * Bit i of a 32-bit value is the coefficient of x^(31-i), so x^0 is 0x80000000, and multiplying by
 * x is a shift to the right, minus P when the last bit was set: x^(n+1) = x^n >> 1 ^ (x^n & 1 ?
 * 0xedb88320 : 0).
 */
#pragma once

#include <stdint.h>

/* Factors that move a block by n bits: x^(n+63) for its low half, x^(n-1) for its high half. */
#define URO_CRC32_X127  0x9ba54c6fu
#define URO_CRC32_X191  0x65673b46u
#define URO_CRC32_X255  0x01b5fd1du
#define URO_CRC32_X319  0x9570d495u
#define URO_CRC32_X383  0x2a283862u
#define URO_CRC32_X447  0x69ccfc0du
#define URO_CRC32_X511  0xcad38e8fu
#define URO_CRC32_X575  0x653d9822u
#define URO_CRC32_X1023 0x7406fa95u
#define URO_CRC32_X1087 0x7d657a10u
#define URO_CRC32_X1535 0xc56d9496u
#define URO_CRC32_X1599 0x67f79476u
#define URO_CRC32_X2047 0x03f9f863u
#define URO_CRC32_X2111 0x7cc8e1e7u

/* Factors that reduce 128 bits to 64. */
#define URO_CRC32_X95 0xccaa009eu
#define URO_CRC32_X63 0xb8bc6765u

/* Factors that reduce 64 bits to 32: the quotient of x^64 / P, and P. They have 33 bits; bit i is
 * the coefficient of x^(32-i). */
#define URO_CRC32_QUOTIENT   UINT64_C(0x1f7011641)
#define URO_CRC32_POLYNOMIAL UINT64_C(0x1db710641)
