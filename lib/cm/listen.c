/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.c - listeners and their backlogs. */
#include <errno.h>

#include "base/mark.h"
#include "cm/conn_inside.h"

/* Requests beyond the backlog are not answered, so their peers retransmit them while the
 * application takes earlier requests. If PATIENCE times the backlog arrive while the application
 * takes no request, they are a flood, or the application does not read its requests. Further
 * requests are then rejected. */
#define PATIENCE 16u

static bool matches(const struct uro_listener *listener, uint64_t service_id,
                    const struct uro_gid *address)
{
    return listener->service_id == service_id &&
           (listener->any_address || uro_gid_equal(&listener->address, address));
}

struct uro_listener *uro_listen_find(struct uro_cm *cm, uint64_t service_id,
                                     const struct uro_gid *address)
{
    struct uro_listener *found = NULL;

    for (struct uro_link *link = cm->listeners.head.next; link != &cm->listeners.head;
         link = link->next) {
        struct uro_listener *listener = URO_CONTAINER_OF(link, struct uro_listener, link);
        if (!matches(listener, service_id, address))
            continue;
        if (!listener->any_address) {
            URO_MARK("CM.LISTEN");
            return listener;
        }
        found = listener;
    }
    return found;
}

static bool same_address(const struct uro_listener *one, const struct uro_listener *other)
{
    return one->any_address || other->any_address || uro_gid_equal(&one->address, &other->address);
}

int uro_conn_listen(struct uro_cm *cm, struct uro_listener *listener)
{
    uint32_t count = 0;

    for (struct uro_link *link = cm->listeners.head.next; link != &cm->listeners.head;
         link = link->next) {
        const struct uro_listener *other = URO_CONTAINER_OF(link, struct uro_listener, link);
        if (other->service_id == listener->service_id &&
            other->any_address == listener->any_address &&
            (other->any_address || uro_gid_equal(&other->address, &listener->address)))
            return -EADDRINUSE;
        count += same_address(other, listener);
    }
    if (cm->config.services != 0 && count >= cm->config.services) {
        cm->services_full = true;
        return -ENOMEM;
    }
    listener->waiting = listener->unanswered = 0;
    uro_list_append(&cm->listeners, &listener->link);
    cm->listener_count++;
    cm->listeners_version++;
    return 0;
}

void uro_conn_noticed(struct uro_conn *conn)
{
    uro_listen_done(conn);
}

void uro_conn_unlisten(struct uro_cm *cm, struct uro_listener *listener)
{
    uro_list_remove(&listener->link);
    cm->listener_count--;
    cm->listeners_version++;
    for (uint32_t i = 0; i < cm->pool_used; i++) {
        struct uro_conn *conn = &cm->pool[i];
        if (conn->listener == listener && !conn->owned)
            uro_conn_close(conn, cm->now);
        else if (conn->listener == listener)
            uro_listen_done(conn);
    }
}

bool uro_listen_overrun(struct uro_listener *listener)
{
    if (listener->unanswered / PATIENCE >= listener->backlog) {
        URO_MARK("CM.FLOOD");
        return true;
    }
    listener->unanswered++;
    return false;
}

bool uro_listen_take(struct uro_listener *listener, struct uro_conn *conn)
{
    if (listener->waiting >= listener->backlog) {
        URO_MARK("CM.BACKLOG");
        return false;
    }
    listener->waiting++;
    conn->listener = listener;
    return true;
}

void uro_listen_done(struct uro_conn *conn)
{
    if (conn->listener == NULL)
        return;
    conn->listener->waiting--;
    conn->listener->unanswered = 0;
    conn->listener = NULL;
}
