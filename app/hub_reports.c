/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_reports.c - what the network says of packets that could not be delivered. The kernel does not
 * look into the one that is quoted: it gives the report to any of the sockets. So every member is
 * told, and knows where it sent to. */
#define _GNU_SOURCE /* CLOCK_MONOTONIC */
#include <string.h>
#include <time.h>

#include "hub.h"

#define AT_ONCE     64u  /* from one socket, before others are looked at */
#define SECOND_MOST 100u /* passed on in a second: anybody can write ICMP */

static bool may_pass(struct hub *hub)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec != hub->reports_since) {
        hub->reports_since = now.tv_sec;
        hub->reports = 0;
    }
    return hub->reports++ < SECOND_MOST;
}

/* Sends a report to all members but @source. A member whose buffer is full loses the report. */
static void tell(struct hub *hub, uint32_t source, const union uro_sock_address *to,
                 const struct uro_hub_report *report)
{
    struct uro_hub_header header = { .version = URO_HUB_VERSION,
                                     .kind = URO_HUB_REPORT,
                                     .from = *to };
    struct uro_hub_report body = *report;
    struct iovec parts[2] = { { &header, sizeof header }, { &body, sizeof body } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    if (!may_pass(hub))
        return;
    for (uint32_t share = 1; share <= HUB_MEMBERS; share++)
        if (share != source && hub->members[share].fd >= 0)
            (void)sendmsg(hub->members[share].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void hub_reports_take(struct hub *hub, uint32_t share)
{
    struct uro_sock_report report;
    int error;
    socklen_t length = sizeof error;

    for (uint32_t i = 0; i < AT_ONCE; i++) {
        if (!uro_sock_take_report(hub->socks[share], &report)) {
            /* A report that found no room leaves only the socket's error, which would wake us
             * forever. */
            (void)getsockopt(hub->socks[share], SOL_SOCKET, SO_ERROR, &error, &length);
            return;
        }
        const struct uro_hub_report body = uro_hub_report_of(&report);
        if (report.network)
            tell(hub, share, &report.to, &body);
    }
}

void hub_reports_pass(struct hub *hub, uint32_t share, const union uro_sock_address *to,
                      const uint8_t *octets, uint32_t length)
{
    struct uro_hub_report report;

    if (length != sizeof report)
        return;
    memcpy(&report, octets, sizeof report);
    tell(hub, share, to, &report);
}
