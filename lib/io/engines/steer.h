/* SPDX-License-Identifier: BSD-3-Clause */
/* steer.h - finds the engines of a device that must get a frame.
 *
 * The upper bits of a QPN, its prefix, are the index of an engine plus 1.
 */
#pragma once

#include "core/pkt.h"
#include "core/tx.h"

#define URO_STEER_ENGINES_MAX 16u

#define URO_STEER_FIRST 1u       /* only the first engine */
#define URO_STEER_ALL   0xffffu  /* all engines */
#define URO_STEER_WIRE  0x10000u /* the link; only of a frame to send */

/* Returns the QPN prefix of an engine. */
static inline uint8_t uro_steer_prefix(uint32_t engine)
{
    return (uint8_t)(engine + 1);
}

/* Returns the engines that must get a received frame, bit 0 for the first engine. The first engine
 * answers requests of other hosts and handles connections. Every engine has its own next hops and
 * groups. */
uint32_t uro_steer_received(const struct uro_pkt *pkt);

/* Returns the engines, and URO_STEER_WIRE, to which a frame must be sent. The MAC address does not
 * count, because another host may have the same one, for example on another ipvlan interface. */
uint32_t uro_steer_sent(const struct uro_tx *tx);
