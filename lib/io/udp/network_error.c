/* SPDX-License-Identifier: BSD-3-Clause */
/* network_error.c - see network_error.h. */
#include "io/udp/network_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/udp/share.h"

/* Prints once that the MTU of a path is too small. Prints it without verbose=yes, too, because
 * nothing else explains the lost packets. The ICMP error of a router may be forged, so this line is
 * its only effect. */
static void print_narrow(struct uro_sock *sock, const struct uro_sock_report *report)
{
    char text[URO_GID_TEXT_MAX];
    const struct uro_gid gid = uro_sock_gid_of(&report->to);

    if (sock->printed_narrow)
        return;
    sock->printed_narrow = true;
    fprintf(stderr,
            "uroce: %sthe path to %s carries IP packets of at most %u bytes; %sset mtu=%u, or "
            "choose a smaller path MTU in the program\n",
            report->network ? "a router reports that " : "", uro_gid_text(&gid, text), report->info,
            report->network ? "if long messages are lost, " : "", report->info);
}

static void print_report(struct uro_sock *sock, const struct uro_sock_report *report)
{
    char text[URO_GID_TEXT_MAX];
    const struct uro_gid gid = uro_sock_gid_of(&report->to);

    /* The report may be about a packet of another process. */
    if (report->network && sock->share != NULL && sock->recent_peers != NULL &&
        !uro_recent_peers_has(sock->recent_peers, &gid))
        return;
    if (report->error == EMSGSIZE)
        print_narrow(sock, report);
    else if (sock->verbose)
        fprintf(stderr, "uroce: %s: %s\n", uro_gid_text(&gid, text), strerror((int)report->error));
}

/* Keeps a report for the engine, which checks whether this process sent the datagram. Reports about
 * datagrams to the peer's connection manager have priority, because a connection waits for them. */
static void keep(struct uro_sock *sock, const struct uro_sock_report *report)
{
    struct uro_undelivered *kept = sock->undelivered;
    struct uro_bth bth;

    if (kept == NULL || kept->count == URO_UNDELIVERED_MAX || !report->network ||
        report->error != ECONNREFUSED || report->quoted_length < URO_BTH_LEN)
        return;
    uro_bth_decode(report->quoted, &bth);
    if (bth.dest_qpn != URO_CM_MAD_QPN && kept->count > 0)
        return;
    kept->by[kept->count] = sock;
    kept->reports[kept->count++] = *report;
}

uint32_t uro_network_error_take(struct uro_sock *sock, const union uro_sock_address *tried)
{
    struct uro_sock_report report;
    uint32_t count = 0;

    while (uro_sock_take_report(sock->fd, &report)) {
        count += report.network;
        if (report.network && sock->share != NULL)
            uro_share_report(sock->share, &report);
        if (report.to.any.sa_family == AF_UNSPEC && tried != NULL)
            report.to = *tried;
        if (report.to.any.sa_family == AF_UNSPEC)
            continue;
        keep(sock, &report);
        print_report(sock, &report);
    }
    return count;
}

void uro_network_error_receive(struct uro_sock *sock, const struct uro_hub_header *header,
                               uint32_t octets)
{
    struct uro_sock_report report = { .network = true, .to = header->from };
    struct uro_hub_report body;

    if (octets != sizeof body || report.to.any.sa_family != (sock->v6 ? AF_INET6 : AF_INET))
        return;
    memcpy(&body, sock->share->record, sizeof body);
    report.error = body.error;
    report.info = body.info;
    report.quoted_length =
        body.quoted_length < sizeof body.quoted ? body.quoted_length : sizeof body.quoted;
    memcpy(report.quoted, body.quoted, sizeof report.quoted);
    keep(sock, &report);
    print_report(sock, &report);
}
