/* SPDX-License-Identifier: BSD-3-Clause */
/* broker.c - see broker.h: which member gets a datagram, and what the network reported. */
#include "io/udp/broker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/ext.h"

/* ---- which member a datagram is for --------------------------------------- */

#define MAD_AT (URO_BTH_LEN + URO_DETH_LEN)

static bool is_member(const struct uro_broker *broker, uint32_t share)
{
    return share > 0 && share < URO_SHARES && broker->members[share].fd >= 0;
}

/* Returns the first member. It answers datagrams that name no process. */
static uint32_t anybody(const struct uro_broker *broker)
{
    for (uint32_t share = 1; share < URO_SHARES; share++)
        if (is_member(broker, share))
            return share;
    return 0;
}

static uint32_t who_listens(const struct uro_broker *broker, uint64_t service)
{
    for (uint32_t share = 1; share < URO_SHARES; share++)
        for (uint32_t i = 0; is_member(broker, share) && i < broker->members[share].service_count;
             i++)
            if (broker->members[share].services[i].id == service)
                return share;
    return anybody(broker);
}

static uint32_t who_has(const struct uro_broker *broker, uint64_t id)
{
    uint32_t share = (uint32_t)(id >> (32 - URO_SHARE_BITS));

    return is_member(broker, share) ? share : anybody(broker);
}

uint32_t uro_broker_route(const struct uro_broker *broker, const uint8_t *bth, uint32_t length,
                          struct uro_cm_msg *msg)
{
    msg->kind = URO_CM_KIND_COUNT;
    if (length < URO_BTH_LEN)
        return 0;
    uint32_t share = uro_hub_share_of(bth);
    if (share != 0)
        return is_member(broker, share) ? share : 0;
    if (uro_get_be24(bth + URO_HUB_AT_QPN) != URO_CM_MAD_QPN || length < MAD_AT + URO_MAD_LEN)
        return 0;
    if (uro_cm_decode(bth + MAD_AT, msg) != URO_CM_OK) {
        msg->kind = URO_CM_KIND_COUNT;
        return anybody(broker);
    }
    switch (msg->kind) {
    case URO_CM_REQ:
    case URO_CM_SIDR_REQ:
        return who_listens(broker, msg->value[URO_CM_SERVICE_ID]);
    case URO_CM_SIDR_REP:
        return who_has(broker, msg->value[URO_CM_REQUEST_ID]);
    case URO_CM_MRA:
    case URO_CM_REJ:
    case URO_CM_REP:
    case URO_CM_RTU:
    case URO_CM_DREQ:
    case URO_CM_DREP:
    case URO_CM_LAP:
    case URO_CM_APR:
    case URO_CM_KIND_COUNT:
        break;
    }
    return who_has(broker, msg->value[URO_CM_REMOTE_ID]);
}

/* ---- reports of the network ------------------------------------------------ */

/* The kernel does not examine the packet that an ICMP message quotes: it gives the report to any of
 * the sockets. So every member gets the report, and ignores reports about other destinations than
 * its own. */

#define AT_ONCE     64u  /* reports read from one socket in a row */
#define SECOND_MOST 100u /* reports a second: ICMP is easy to forge */

static bool may_pass(struct uro_broker *broker)
{
    const int64_t now = broker->clock_s();

    if (now != broker->reports_since) {
        broker->reports_since = now;
        broker->reports = 0;
    }
    return broker->reports++ < SECOND_MOST;
}

/* Sends a report to all members but @source. A member whose buffer is full loses the report. */
static void pass_report(struct uro_broker *broker, uint32_t source,
                        const union uro_sock_address *to, const struct uro_hub_report *report)
{
    struct uro_hub_header header = { .version = URO_HUB_VERSION,
                                     .kind = URO_HUB_REPORT,
                                     .from = *to };
    struct uro_hub_report body = *report;
    struct iovec parts[2] = { { &header, sizeof header }, { &body, sizeof body } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    if (!may_pass(broker))
        return;
    for (uint32_t share = 1; share <= URO_BROKER_MEMBERS; share++)
        if (share != source && broker->members[share].fd >= 0)
            (void)sendmsg(broker->members[share].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_reports(struct uro_broker *broker, uint32_t share)
{
    struct uro_sock_report report;
    int error;
    socklen_t length = sizeof error;

    for (uint32_t i = 0; i < AT_ONCE; i++) {
        if (!uro_sock_take_report(broker->socks[share], &report)) {
            /* A report that found no room leaves only the socket's error, which would wake us
             * forever. */
            (void)getsockopt(broker->socks[share], SOL_SOCKET, SO_ERROR, &error, &length);
            return;
        }
        const struct uro_hub_report body = uro_hub_report_of(&report);
        if (report.network)
            pass_report(broker, share, &report.to, &body);
    }
}

static void pass_members_report(struct uro_broker *broker, uint32_t share,
                                const union uro_sock_address *to, const uint8_t *octets,
                                uint32_t length)
{
    struct uro_hub_report report;

    if (length != sizeof report)
        return;
    memcpy(&report, octets, sizeof report);
    pass_report(broker, share, to, &report);
}

/* ---- datagrams ---------------------------------------------------------- */

static uint8_t record[URO_HUB_RECORD];

static void pass(const struct uro_broker *broker, struct uro_hub_header *header, uint32_t length)
{
    struct uro_cm_msg msg;
    uint32_t share = uro_broker_route(broker, record, length, &msg);
    struct iovec parts[2] = { { header, sizeof *header }, { record, length } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    header->version = URO_HUB_VERSION;
    header->kind = URO_HUB_DATAGRAM;
    header->share = share;
    if (msg.kind != URO_CM_KIND_COUNT) {
        const struct uro_gid peer = uro_sock_gid_of(&header->from);
        uro_broker_disconnect_note(broker->disconnect, share, &peer, &msg);
    }
    if (share != 0) /* a slow member loses the datagram */
        (void)sendmsg(broker->members[share].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void from_network(const struct uro_broker *broker)
{
    struct uro_hub_header header = { 0 };
    socklen_t length = sizeof header.from;
    ssize_t got = recvfrom(broker->socks[0], record, sizeof record, MSG_DONTWAIT | MSG_TRUNC,
                           &header.from.any, &length);

    if (got > 0 && (size_t)got <= sizeof record)
        pass(broker, &header, (uint32_t)got);
}

static void learn_services(struct uro_broker_member *member, uint32_t octets)
{
    uint32_t count = octets / (uint32_t)sizeof(struct uro_listened);
    struct uro_listened *copy = malloc(octets + 1);

    if (copy == NULL)
        return;
    memcpy(copy, record, octets);
    free(member->services);
    member->services = copy;
    member->service_count = count;
}

static void from_member(struct uro_broker *broker, uint32_t share)
{
    struct uro_hub_header header;
    struct iovec parts[2] = { { &header, sizeof header }, { record, sizeof record } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t got = recvmsg(broker->members[share].fd, &message, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < (ssize_t)sizeof header || header.version != URO_HUB_VERSION) {
        uro_broker_dismiss(broker, share);
        return;
    }
    uint32_t octets = (uint32_t)got - (uint32_t)sizeof header;
    if (header.kind == URO_HUB_SERVICES)
        learn_services(&broker->members[share], octets);
    else if (header.kind == URO_HUB_DATAGRAM)
        pass(broker, &header, octets);
    else if (header.kind == URO_HUB_REPORT)
        pass_members_report(broker, share, &header.from, record, octets);
}

/* ---- the loop --------------------------------------------------------------- */

int uro_broker_open(struct uro_broker *broker, const struct uro_gid *address,
                    int64_t (*clock_s)(void), char error[static URO_PORT_ERROR_MAX])
{
    *broker = (struct uro_broker){
        .address = *address, .clock_s = clock_s, .lock = -1, .listener = -1, .spare = -1
    };
    for (uint32_t share = 0; share < URO_SHARES; share++) {
        broker->socks[share] = -1;
        broker->members[share].fd = -1;
    }
    broker->disconnect = uro_broker_disconnect_open();
    if (broker->disconnect == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "out of memory");
        return -1;
    }
    const int result = uro_broker_open_listener(broker, error);
    return result == 1 && !uro_broker_open_socks(broker, error) ? -1 : result;
}

/* Returns what to wait for: records of the member, or reports at a socket that no process has. */
static struct pollfd look_at(const struct uro_broker *broker, uint32_t share)
{
    if (broker->members[share].fd >= 0)
        return (struct pollfd){ .fd = broker->members[share].fd, .events = POLLIN };
    return (struct pollfd){ .fd = broker->socks[share], .events = share == 0 ? POLLIN : 0 };
}

static void serve_share(struct uro_broker *broker, uint32_t share, short ready)
{
    if (broker->members[share].fd >= 0) {
        from_member(broker, share);
        return;
    }
    if ((ready & POLLERR) != 0)
        take_reports(broker, share);
    if ((ready & POLLIN) != 0)
        from_network(broker);
}

void uro_broker_serve(struct uro_broker *broker, int idle_ms)
{
    enum { LISTENER = URO_BROKER_MEMBERS + 1 };
    struct pollfd ready[LISTENER + 1];

    for (;;) {
        for (uint32_t share = 0; share <= URO_BROKER_MEMBERS; share++)
            ready[share] = look_at(broker, share);
        ready[LISTENER] = (struct pollfd){ .fd = broker->listener, .events = POLLIN };
        int wait_ms = uro_broker_disconnect_wait_ms(broker);
        const bool idle = wait_ms < 0 && broker->member_count == 0;
        int found = poll(ready, LISTENER + 1, idle ? idle_ms : wait_ms);
        if (found == 0 && idle && !uro_broker_has_users(broker))
            return;
        uro_broker_disconnect_repeat(broker);
        if (found <= 0)
            continue;
        for (uint32_t share = 1; share <= URO_BROKER_MEMBERS; share++)
            if (ready[share].revents != 0)
                serve_share(broker, share, ready[share].revents);
        if (ready[0].revents != 0)
            serve_share(broker, 0, ready[0].revents);
        if (ready[LISTENER].revents != 0)
            uro_broker_welcome(broker);
    }
}
