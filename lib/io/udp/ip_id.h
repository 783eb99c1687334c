/* SPDX-License-Identifier: BSD-3-Clause */
/* ip_id.h - the IPv4 identification and the DF bit next to it. The ICRC covers them, but a UDP
 * socket can neither set nor read them.
 *
 * A CRC is linear: when bytes of a packet change by @delta, the CRC register changes by the CRC of
 * @delta alone. So a register can be moved from one identification to another. And the difference
 * of two ICRCs gives the identification that another sender used.
 */
#pragma once

#include "base/defs.h"

/* Identification pattern of a sender. All zero at first. */
struct uro_ip_id_history {
    uint32_t plain;   /* consecutive packets that followed our pattern */
    uint32_t foreign; /* consecutive packets rejected, as they did not follow it */
};

/* IPv4 packets that are accepted, by their identification. */
enum uro_ip_id_rule {
    URO_IP_ID_ANY,
    URO_IP_ID_PLAIN, /* only packets in our pattern: DF set, identification below URO_IP_ID_BATCH */
    URO_IP_ID_FULL,  /* any, if a raw tap allows all of the ICRC to be checked */
};

#define URO_IP_ID_BATCH 64u /* identifications 0 .. 63: the packets of one segmented send */

/* Returns the change of the register, @behind bytes after the identification, when the
 * identification is @id instead of 0. */
uint32_t uro_ip_id_change(uint16_t id, uint32_t behind);

/* Finds the change of the identification, and whether DF changed, that explain a register
 * difference of @difference. @behind is the number of bytes after the identification, the flags
 * among them. Returns false when no change explains the difference: the packet was damaged. One in
 * 32768 damaged packets has an explanation by accident. */
URO_NODISCARD bool uro_ip_id_solve(uint32_t difference, uint32_t behind, uint16_t *id,
                                   bool *fragmentable);

/* Records one more packet of a sender. @plain: the packet has DF and an identification below
 * URO_IP_ID_BATCH. Once a sender has followed this pattern, deviating packets are rejected until it
 * has clearly changed. Returns false to reject the packet. */
URO_NODISCARD bool uro_ip_id_accept(struct uro_ip_id_history *habit, bool plain);
