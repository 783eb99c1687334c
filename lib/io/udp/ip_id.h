/* SPDX-License-Identifier: BSD-3-Clause */
/* ip_id.h - the one field of the IP header that a UDP socket neither sets nor sees, and that the
 * ICRC covers: identification, with the DF bit beside it, of IPv4.
 *
 * A CRC is linear: when octets of a packet differ by @delta, its register differs by what @delta
 * alone makes of an empty one. So a register can be moved from one identification to another, and
 * what a foreign sender wrote into the field can be read off the difference of two ICRCs.
 */
#pragma once

#include "base/defs.h"

/* What the packets of a sender have been like. All zero at first. */
struct uro_ip_id_history {
    uint32_t plain;   /* in a row whose identification is one of ours */
    uint32_t foreign; /* refused in a row, because they were not */
};

/* From whom packets over IPv4 are taken. */
enum uro_ip_id_rule {
    URO_IP_ID_ANY,
    URO_IP_ID_PLAIN, /* our like */
    URO_IP_ID_FULL,  /* anybody, when all of the ICRC can be checked */
};

#define URO_IP_ID_BATCH 64u /* identifications 0 .. 63: the packets of one segmented send */

/* By how much the register differs after @behind octets that follow the identification, when that
 * is @id instead of 0. */
uint32_t uro_ip_id_change(uint16_t id, uint32_t behind);

/* The identification, and whether DF differs, that explain why two registers differ by @difference
 * after @behind octets that follow the identification, the flags among them. False when none does:
 * the packet was damaged. Of damaged packets, one in 32768 has an explanation. */
URO_NODISCARD bool uro_ip_id_solve(uint32_t difference, uint32_t behind, uint16_t *id,
                                   bool *fragmentable);

/* One more packet of a sender, @plain: with DF and an identification below URO_IP_ID_BATCH. A
 * sender that was like us all the time is held to it until it is plain that it is another now.
 * False: refuse it. */
URO_NODISCARD bool uro_ip_id_accept(struct uro_ip_id_history *habit, bool plain);
