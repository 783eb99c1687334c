/* SPDX-License-Identifier: BSD-3-Clause */
/* forger.h - a RoCE frame that somebody else than an engine writes: addresses, what he likes, and then
 * lengths and an ICRC that are right.
 */
#pragma once

#include "sim/net/host.h"
#include "wire/bth.h"
#include "wire/ip.h"

#define SIM_FORGER_ROOM 4400u

struct sim_forged {
    uint8_t octets[SIM_FORGER_ROOM];
    size_t network; /* where the IP header begins */
    size_t length;  /* what follows the BTH is added here */
    struct uro_ip ip;
    struct uro_bth bth; /* written last */
};

/* From the address @index of @from to that of @to; ip may be changed, but for its version. */
void sim_forger_begin(struct sim_forged *forged, const struct sim_host *from,
                      const struct sim_host *to, unsigned index);

/* Octets as they are. */
void sim_forger_raw(struct sim_host *to, const uint8_t *octets, uint32_t length);

/* Of a frame that was changed behind its IP header: the ICRC is right again. */
void sim_forger_sum(uint8_t *octets, uint32_t length);

/* Writes lengths and sum: it is whole. */
void sim_forger_seal(struct sim_forged *forged, uint16_t source_port);

/* To @to, which receives it at once. */
void sim_forger_deliver(struct sim_forged *forged, struct sim_host *to, uint16_t source_port);
