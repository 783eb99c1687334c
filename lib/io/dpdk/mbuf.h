/* SPDX-License-Identifier: BSD-3-Clause */
/* mbuf.h - turns received buffers of DPDK into the frames that the engine needs. */
#pragma once

#include <rte_mbuf.h>

/* Makes each buffer one segment with the frame as on the wire. Drops buffers for which that is not
 * possible, and adds their number to @dropped. Returns the number of buffers left.
 *
 * A driver may put a frame into several segments, or remove its VLAN tag, although the port
 * requests neither. The driver's flags for wrong checksums are ignored, because the engine verifies
 * checksums. */
uint16_t uro_mbuf_restore(struct rte_mbuf **mbufs, uint16_t count, uint64_t *dropped);
