/* SPDX-License-Identifier: BSD-3-Clause */
/* hostile_mad.h - management datagrams of two stations that a hostile read and says again, in their names: as
 * they were, or spoiled so that nobody may believe them. None changes anything but counters.
 *
 * A request that is said again after its connection has ended would be a new one: requests are only spoiled.
 */
#pragma once

#include "io/sim/hostile.h"
#include "wire/frame.h"

/* A message to the station of @side. */
void uro_hostile_mad_overhear(struct uro_hostile *hostile, unsigned side,
                              const struct uro_frame *frame, enum uro_cm_kind kind);

/* False when he has read none yet. */
bool uro_hostile_mad_say(struct uro_hostile *hostile);
