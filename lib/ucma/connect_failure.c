/* SPDX-License-Identifier: BSD-3-Clause */
/* connect_failure.c - see connect_failure.h. Correct programs are rejected while they wait for a
 * server, so only log=all prints rejections. */
#include "ucma/connect_failure.h"

#include <errno.h>
#include <stdio.h>

#include <infiniband/verbs.h>

#define TEXT_MAX      256u
#define SECONDS(time) ((unsigned)((time) / URO_MS(1000)))

#define SIDR_UNSUPPORTED 1 /* no program has the service */
#define SIDR_REJECTED    2 /* the peer's program rejected the query */

/* Returns why the peer rejected the connection, or NULL for other reasons. */
static const char *reason_of(const struct uro_id *id, int status)
{
    static const char no_listener[] =
        "no program listens there; start the server first, or check the port";
    static const char by_program[] = "the peer's program rejected it";

    if (id->qp_type == IBV_QPT_UD)
        return status == SIDR_UNSUPPORTED ? no_listener
               : status == SIDR_REJECTED  ? by_program
                                          : NULL;
    switch (status) {
    case URO_CONN_REJ_BAD_SERVICE:
        return no_listener;
    case URO_CONN_REJ_CONSUMER:
    case URO_CONN_REJ_VENDOR_OPTION:
        return by_program;
    case URO_CONN_REJ_NO_RESOURCES:
        return "the peer has no resources left";
    case URO_CONN_REJ_STALE:
        return "the peer still has an old connection of this queue pair";
    default:
        return NULL;
    }
}

static void rejected(struct uro_device *device, const struct uro_id *id, const char *peer,
                     int status)
{
    const char *reason = reason_of(id, status);
    char text[TEXT_MAX];

    if (reason != NULL)
        (void)snprintf(text, sizeof text, "%s: rejected, %s", peer, reason);
    else
        (void)snprintf(text, sizeof text, "%s: rejected with reason %d", peer, status);
    uro_log_late_failure(device, false, ECONNREFUSED, "rdma_connect", text);
}

/* Returns what the user can do about a peer that did not answer. A program that means its own
 * machine by 127.0.0.1 does not reach a device that has another loopback address. */
static const char *advice(const struct uro_device *device, const struct uro_id *id, bool active,
                          char text[static TEXT_MAX])
{
    const struct uro_device_config *config = uro_device_config(device);
    const struct uro_gid gid = uro_sock_gid(&id->dest);
    const struct uro_gid localhost = uro_gid_from_ipv4((const uint8_t[]){ 127, 0, 0, 1 });
    char there[URO_GID_TEXT_MAX], own[URO_GID_TEXT_MAX];

    if (!uro_device_link_up(device))
        return "the link of this device is down: check its interface and address";
    if (!active)
        return "the peer's program ended, or packets to it are lost";
    if (!uro_gid_equal(&gid, &localhost) || uro_gid_equal(&gid, &config->gids[1]))
        return "start the peer's program under uroce, or check its address and UDP port 4791 in "
               "firewalls";
    (void)snprintf(text, TEXT_MAX, "%s is not an address of this device, whose address is %s",
                   uro_gid_text(&gid, there), uro_gid_text(&config->gids[1], own));
    return text;
}

static void unanswered(struct uro_device *device, const struct uro_id *id, const char *peer,
                       const struct uro_conn *conn)
{
    char text[2 * TEXT_MAX], why[TEXT_MAX];

    (void)snprintf(
        text, sizeof text, "no answer from %s in %u s%s; %s", peer,
        SECONDS(uro_device_now() - id->began),
        conn->undelivered_count > 0 ? ", and ICMP says that UDP port 4791 is closed there" : "",
        advice(device, id, conn->active, why));
    uro_log_late_failure(device, true, ETIMEDOUT, conn->active ? "rdma_connect" : "rdma_accept",
                         text);
}

void uro_connect_failure(struct uro_device *device, const struct uro_id *id,
                         const struct uro_conn_event *event)
{
    const struct uro_gid gid = uro_sock_gid(&id->dest);
    char address[URO_GID_TEXT_MAX], peer[URO_GID_TEXT_MAX + 16];

    if (event->kind != URO_CONN_REJECTED && event->kind != URO_CONN_UNREACHABLE)
        return;
    (void)snprintf(peer, sizeof peer, "%s port %u", uro_gid_text(&gid, address),
                   uro_sock_port(&id->dest));
    if (event->kind == URO_CONN_REJECTED)
        rejected(device, id, peer, event->status);
    else
        unanswered(device, id, peer, event->conn);
}

void uro_resolve_failure(struct uro_device *device, const struct uro_id *id)
{
    char text[TEXT_MAX], address[URO_GID_TEXT_MAX];

    (void)snprintf(
        text, sizeof text,
        "%s was not found on the link in %u s: check the address, and that its host runs",
        uro_gid_text(&id->remote, address), SECONDS(uro_device_now() - id->began));
    uro_log_late_failure(device, true, ETIMEDOUT, "rdma_resolve_addr", text);
}
