/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp_socket.c - see xdp.h. DPDK's driver can load a program only from a file. So the linker
 * redirects the call that makes its socket to this file (ld's --wrap). */
#include "io/dpdk/xdp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>
#include <net/if.h>
#include <xdp/libxdp.h>
#include <xdp/xsk.h>

/* Program of the port that is being opened. NULL: the driver uses the program of xdp_prog=, or that
 * of libxdp. */
static struct uro_xdp *current;

static struct {
    libbpf_print_fn_t bpf;
    libxdp_print_fn_t xdp;
    bool quiet;
} before;

int __real_xsk_socket__create(struct xsk_socket **socket, const char *interface, uint32_t queue,
                              struct xsk_umem *umem, struct xsk_ring_cons *rx,
                              struct xsk_ring_prod *tx, const struct xsk_socket_config *config);
int __wrap_xsk_socket__create(struct xsk_socket **socket, const char *interface, uint32_t queue,
                              struct xsk_umem *umem, struct xsk_ring_cons *rx,
                              struct xsk_ring_prod *tx, const struct xsk_socket_config *config);
int __real_xsk_socket__create_shared(struct xsk_socket **socket, const char *interface,
                                     uint32_t queue, struct xsk_umem *umem,
                                     struct xsk_ring_cons *rx, struct xsk_ring_prod *tx,
                                     struct xsk_ring_prod *fill, struct xsk_ring_cons *done,
                                     const struct xsk_socket_config *config);
int __wrap_xsk_socket__create_shared(struct xsk_socket **socket, const char *interface,
                                     uint32_t queue, struct xsk_umem *umem,
                                     struct xsk_ring_cons *rx, struct xsk_ring_prod *tx,
                                     struct xsk_ring_prod *fill, struct xsk_ring_cons *done,
                                     const struct xsk_socket_config *config);

static struct xsk_socket_config without_program(const struct xsk_socket_config *config)
{
    struct xsk_socket_config own = *config;

    if (current != NULL)
        own.libbpf_flags |= XSK_LIBBPF_FLAGS__INHIBIT_PROG_LOAD;
    return own;
}

/* Adds a new socket to the map. On failure deletes the socket, because it would receive nothing,
 * and returns the error to the driver. */
static int add(int result, struct xsk_socket **socket, uint32_t queue)
{
    if (result != 0 || current == NULL)
        return result;
    result = uro_xdp_add(current, queue, xsk_socket__fd(*socket));
    if (result != 0)
        xsk_socket__delete(*socket);
    return result;
}

/* The parameters are the library's. NOLINTNEXTLINE(readability-function-size) */
int __wrap_xsk_socket__create(struct xsk_socket **socket, const char *interface, uint32_t queue,
                              struct xsk_umem *umem, struct xsk_ring_cons *rx,
                              struct xsk_ring_prod *tx, const struct xsk_socket_config *config)
{
    const struct xsk_socket_config own = without_program(config);
    const int result = __real_xsk_socket__create(socket, interface, queue, umem, rx, tx, &own);

    return add(result, socket, queue);
}

/* The parameters are the library's. NOLINTNEXTLINE(readability-function-size) */
int __wrap_xsk_socket__create_shared(struct xsk_socket **socket, const char *interface,
                                     uint32_t queue, struct xsk_umem *umem,
                                     struct xsk_ring_cons *rx, struct xsk_ring_prod *tx,
                                     struct xsk_ring_prod *fill, struct xsk_ring_cons *done,
                                     const struct xsk_socket_config *config)
{
    const struct xsk_socket_config own = without_program(config);
    const int result =
        __real_xsk_socket__create_shared(socket, interface, queue, umem, rx, tx, fill, done, &own);

    return add(result, socket, queue);
}

static void complain(const struct uro_port_config *config, const char *interface, int error)
{
    (void)fprintf(
        stderr,
        "uroce: %s: WARNING: while this device is open the kernel gets none of the packets "
        "of %s, TCP included, because a filter for RoCE cannot be put there: %s%s; use "
        "net_af_packet0,iface=%s or udp where that matters\n",
        config->device, interface, strerror(-error),
        error == -EBUSY ? " (it has an XDP program already)" : "", interface);
}

void uro_xdp_socket_prepare(struct uro_xdp *xdp, const struct uro_port_config *config,
                            const char *interface, bool chosen)
{
    current = NULL;
    before.quiet = !config->verbose;
    if (before.quiet) {
        before.bpf = libbpf_set_print(NULL);
        before.xdp = libxdp_set_print(NULL);
    }
    if (chosen || config->address_count == 0)
        return;
    const int error = uro_xdp_open(xdp, config, if_nametoindex(interface));
    if (error == 0)
        current = xdp;
    else
        complain(config, interface, error);
}

void uro_xdp_socket_made(void)
{
    current = NULL;
    if (!before.quiet)
        return;
    (void)libbpf_set_print(before.bpf);
    (void)libxdp_set_print(before.xdp);
}
