/* SPDX-License-Identifier: BSD-3-Clause */
/* forger.h - writes RoCE frames that no engine sends: with any addresses and any content, then with lengths and an
 * ICRC that are correct.
 */
#pragma once

#include "sim/net/host.h"
#include "wire/bth.h"
#include "wire/ip.h"

#define SIM_FORGER_ROOM 4400u

struct sim_forged {
    uint8_t octets[SIM_FORGER_ROOM];
    size_t network; /* where the IP header begins */
    size_t length;  /* end of the frame: headers behind the BTH are appended here */
    struct uro_ip ip;
    struct uro_bth bth; /* written last */
};

/* Begins a frame from address @index of @from to that of @to. The caller may change @forged->ip, except the version. */
void sim_forger_begin(struct sim_forged *forged, const struct sim_host *from,
                      const struct sim_host *to, unsigned index);

/* Delivers the bytes unchanged. */
void sim_forger_raw(struct sim_host *to, const uint8_t *octets, uint32_t length);

/* Corrects the ICRC of a frame that was changed after its IP header. */
void sim_forger_sum(uint8_t *octets, uint32_t length);

/* Writes the lengths and the ICRC. */
void sim_forger_seal(struct sim_forged *forged, uint16_t source_port);

/* Seals the frame and delivers it to @to at once. */
void sim_forger_deliver(struct sim_forged *forged, struct sim_host *to, uint16_t source_port);
