/* SPDX-License-Identifier: BSD-3-Clause */
/* forge.h - a RoCE frame that somebody else than an engine writes: addresses, what he likes, and then
 * lengths and an ICRC that are right.
 */
#pragma once

#include "io/sim/station.h"
#include "wire/bth.h"
#include "wire/ip.h"

#define URO_FORGE_ROOM 4400u

struct uro_forged {
    uint8_t octets[URO_FORGE_ROOM];
    size_t network; /* where the IP header begins */
    size_t length;  /* what follows the BTH is added here */
    struct uro_ip ip;
    struct uro_bth bth; /* written last */
};

/* From the address @index of @from to that of @to; ip may be changed, but for its version. */
void uro_forge_begin(struct uro_forged *forged, const struct uro_station *from,
                     const struct uro_station *to, unsigned index);

/* Octets as they are. */
void uro_forge_raw(struct uro_station *to, const uint8_t *octets, uint32_t length);

/* Of a frame that was changed behind its IP header: the ICRC is right again. */
void uro_forge_sum(uint8_t *octets, uint32_t length);

/* Writes lengths and sum: it is whole. */
void uro_forge_seal(struct uro_forged *forged, uint16_t source_port);

/* To @to, which receives it at once. */
void uro_forge_deliver(struct uro_forged *forged, struct uro_station *to, uint16_t source_port);
