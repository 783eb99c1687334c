/* SPDX-License-Identifier: BSD-3-Clause */
/* attacker_mad.h - management datagrams of two hosts that a attacker read and says again, in their names: as
 * they were, or spoiled so that nobody may believe them. None changes anything but counters.
 *
 * A request that is said again after its connection has ended would be a new one: requests are only spoiled.
 */
#pragma once

#include "sim/net/attacker.h"
#include "wire/frame.h"

/* A message to the host of @side. */
void sim_attacker_mad_overhear(struct sim_attacker *attacker, unsigned side,
                               const struct uro_frame *frame, enum uro_cm_kind kind);

/* False when he has read none yet. */
bool sim_attacker_mad_say(struct sim_attacker *attacker);
