/* SPDX-License-Identifier: BSD-3-Clause */
/* icrc.h - the invariant CRC of RoCEv2 (IBTA Annex A17): the octets that it covers and the octets
 * that it masks. */
#pragma once

#include "base/crc32.h"
#include "wire/bth.h"
#include "wire/ip.h"

/* Returns the mask for the headers from the IP header on. The mask begins with ones, which take the
 * place of the LRH: RoCEv2 does not have it. */
const struct uro_crc32_mask *uro_icrc_mask(bool v6);

/* Returns the ICRC of a whole packet: @length octets from the IP header to the octet before the
 * ICRC, at least the IP, UDP and BTH headers. Store it with uro_put_le32(). */
uint32_t uro_icrc(const uint8_t *network, bool v6, size_t length);

/* Returns the ICRC of a packet in two pieces: the octets from the IP header to the last extension
 * header, and the rest. */
uint32_t uro_icrc_apart(const uint8_t *network, bool v6, size_t headers, const uint8_t *rest,
                        size_t length);

/* Returns the ICRC that Linux rxe sends and expects for FLUSH: the headers from the BTH on count
 * twice. */
uint32_t uro_icrc_rxe_flush(const uint8_t *network, bool v6, size_t length);
