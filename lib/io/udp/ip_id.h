/* SPDX-License-Identifier: BSD-3-Clause */
/* ip_id.h - the IPv4 identification and the DF bit next to it. The ICRC covers them, but a UDP
 * socket does not show them, and cannot set the identification.
 *
 * A CRC is linear. If bytes of a packet change by a difference, the CRC register changes by the CRC
 * of this difference alone. So a register can be converted from one identification to another.
 * Also, the difference of two ICRCs gives the identification that another sender used.
 */
#pragma once

#include "base/defs.h"

/* Identification pattern of a sender. All zero at first. */
struct uro_ip_id_history {
    uint32_t plain;   /* packets with uroce's pattern since another packet was accepted */
    uint32_t foreign; /* rejected packets since the last accepted packet */
};

/* IPv4 packets that are accepted, by their identification. */
enum uro_ip_id_rule {
    URO_IP_ID_ANY,
    URO_IP_ID_PLAIN, /* uroce's pattern: DF is set, the identification is below URO_IP_ID_BATCH */
    URO_IP_ID_FULL,  /* any packet, if a raw tap makes a full check of the ICRC possible */
};

#define URO_IP_ID_BATCH 64u /* identifications 0 .. 63: the packets of one segmented send */

/* Returns the change of the register, @behind bytes after the identification, when the
 * identification is @id instead of 0. */
uint32_t uro_ip_id_change(uint16_t id, uint32_t behind);

/* Finds the change of the identification and of DF that causes the register difference @difference.
 * @behind is the number of bytes after the identification, including the flags. Returns false if no
 * change causes this difference, because the packet was damaged. For one in 32768 damaged packets,
 * there is such a change by accident. */
URO_NODISCARD bool uro_ip_id_solve(uint32_t difference, uint32_t behind, uint16_t *id,
                                   bool *fragmentable);

/* Records one more packet of a sender. @plain: the packet has DF and an identification below
 * URO_IP_ID_BATCH. Once a sender has followed this pattern for long, deviating packets are rejected
 * until the sender has clearly changed. Returns false to reject the packet. */
URO_NODISCARD bool uro_ip_id_accept(struct uro_ip_id_history *habit, bool plain);
