/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - one port for all engines of a device, for links whose driver cannot give each engine a
 * port of its own: engines=.
 *
 * Each engine has a port of this kind, with a QPN prefix. All of them wrap one inner port. An
 * engine that receives frames from the inner port keeps the frames for itself, and copies frames
 * for other engines to their rings. Frames from one engine to another engine of the device also go
 * through the ring, not over the link.
 *
 * One lock protects the inner port. It is also held while the inner port lends frames, from
 * receive() to release(). The thread of the first engine sleeps on the descriptors of the inner
 * port. The others sleep until a frame is in their ring. While the first thread is awake, each
 * engine receives from the inner port.
 */
#pragma once

#include "engine/port.h"

/* Opens the port of the first engine around @inner, for at most @engines engines. The port owns
 * @inner then. Returns NULL when out of memory or descriptors, with errno: the caller still owns
 * @inner. */
struct uro_port *uro_engines_port_open(struct uro_port *inner, uint32_t engines);

/* Opens the port of engine @index, from 1, of the device whose first engine has the port @first.
 * Each port is closed separately, in any order. When the first port is closed, the link of the
 * others is down. */
struct uro_port *uro_engines_port_join(struct uro_port *first, uint32_t index);
