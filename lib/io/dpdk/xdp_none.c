/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp_none.c - replaces xdp_socket.c in builds without libxdp, in which DPDK has no af_xdp
 * driver. */
#include "io/dpdk/xdp.h"

void uro_xdp_socket_prepare(struct uro_xdp *xdp, const struct uro_port_config *config,
                            const char *interface, bool chosen)
{
    (void)xdp, (void)config, (void)interface, (void)chosen;
}

void uro_xdp_socket_made(void)
{
}
