/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.c - see resolve.h. */
#include "engine/resolve.h"

#include <errno.h>

#include "base/mark.h"

void uro_resolver_init(struct uro_resolver *resolver, struct uro_neigh *neigh)
{
    resolver->neigh = neigh;
    uro_list_init(&resolver->waiting);
    uro_list_init(&resolver->done);
}

static struct uro_resolve *of(struct uro_link *link)
{
    return URO_CONTAINER_OF(link, struct uro_resolve, link);
}

int uro_resolver_begin(struct uro_resolver *resolver, struct uro_resolve *resolve,
                       uint8_t sgid_index, const struct uro_gid *dest, uro_time deadline,
                       uro_time now)
{
    int error = uro_neigh_get(resolver->neigh, sgid_index, dest, now, &resolve->hop);

    if (error != 0)
        return error;
    resolve->deadline = deadline;
    resolve->status = 0;
    uro_list_append(&resolver->waiting, &resolve->link);
    return 0;
}

void uro_resolver_end(struct uro_resolver *resolver, struct uro_resolve *resolve)
{
    if (resolve->hop == NULL)
        return;
    uro_list_remove(&resolve->link);
    uro_neigh_put(resolver->neigh, resolve->hop);
    resolve->hop = NULL;
}

struct uro_resolve *uro_resolver_fetch(struct uro_resolver *resolver)
{
    struct uro_link *link = uro_list_pop(&resolver->done);

    return link == NULL ? NULL : of(link);
}

void uro_resolver_run(struct uro_resolver *resolver, uro_time now)
{
    struct uro_link *next;

    for (struct uro_link *link = resolver->waiting.head.next; link != &resolver->waiting.head;
         link = next) {
        struct uro_resolve *resolve = of(link);
        next = link->next;
        bool known = resolve->hop->state == URO_HOP_KNOWN;
        if (!known && resolve->deadline > now)
            continue;
        if (!known) {
            URO_MARK("CM.RESOLVE.TIMEOUT");
            resolve->status = -ETIMEDOUT;
        }
        uro_list_remove(link);
        uro_list_append(&resolver->done, link);
    }
}

uro_time uro_resolver_next(const struct uro_resolver *resolver, uro_time now)
{
    uro_time next = URO_TIME_NEVER;

    for (struct uro_link *link = resolver->waiting.head.next; link != &resolver->waiting.head;
         link = link->next) {
        const struct uro_resolve *resolve = of(link);
        uro_time due = resolve->hop->state == URO_HOP_KNOWN ? now : resolve->deadline;
        if (due < next)
            next = due;
    }
    return next;
}
