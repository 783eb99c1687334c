/* SPDX-License-Identifier: BSD-3-Clause */
/* id.c - creates, finds and destroys identifiers and their groups. */
#include "ucma/id.h"

#include <errno.h>
#include <stdlib.h>

#include "core/shard.h"
#include "ucma/bind.h"

/* Numbers of identifiers and of groups, under the channels lock. As in the kernel, a new object
 * gets the lowest free number: librdmacm has a table of 65536 entries, indexed by these numbers. */
struct numbers {
    void **owners;
    uint32_t count;
    uint32_t lowest; /* no number below it is free */
};
static struct numbers ids;
static struct numbers groups;

#define FIRST_COUNT 64u

static bool grow(struct numbers *numbers)
{
    uint32_t count = numbers->count == 0 ? FIRST_COUNT : numbers->count * 2;
    void **owners = realloc(numbers->owners, count * sizeof *owners);

    if (owners == NULL)
        return false;
    for (uint32_t i = numbers->count; i < count; i++)
        owners[i] = NULL;
    numbers->owners = owners;
    numbers->count = count;
    return true;
}

/* Takes a number. Returns false when out of memory. */
static bool take_number(struct numbers *numbers, void *owner, uint32_t *number)
{
    while (numbers->lowest < numbers->count && numbers->owners[numbers->lowest] != NULL)
        numbers->lowest++;
    if (numbers->lowest == numbers->count && !grow(numbers))
        return false;
    *number = numbers->lowest;
    numbers->owners[*number] = owner;
    return true;
}

static void give_number(struct numbers *numbers, uint32_t number)
{
    numbers->owners[number] = NULL;
    if (number < numbers->lowest)
        numbers->lowest = number;
}

static void *find(const struct numbers *numbers, uint32_t number)
{
    uro_channel_lock();
    void *owner = number < numbers->count ? numbers->owners[number] : NULL;
    uro_channel_unlock();
    return owner;
}

struct uro_id *uro_id_new(struct uro_channel *channel, uint64_t uid, uint16_t port_space,
                          uint8_t qp_type)
{
    struct uro_id *id = calloc(1, sizeof *id);

    if (id == NULL)
        return NULL;
    id->uid = uid;
    id->channel = channel;
    id->port_space = port_space;
    id->qp_type = qp_type;
    id->qkey = URO_ID_QKEY;
    id->resolve.user = id;
    uro_list_init(&id->mcasts);
    uro_channel_lock();
    bool numbered = take_number(&ids, id, &id->number);
    if (numbered)
        uro_list_append(&channel->ids, &id->channel_link);
    uro_channel_unlock();
    if (numbered)
        return id;
    free(id);
    return NULL;
}

int uro_id_find(const struct uro_channel *channel, uint32_t number, struct uro_id **id)
{
    *id = find(&ids, number);
    if (*id == NULL || !(*id)->known)
        return -ENOENT;
    if ((*id)->channel != channel)
        return -EINVAL;
    return (*id)->removed ? -ENXIO : 0;
}

struct uro_id *uro_id_next(uint32_t *number)
{
    struct uro_id *id = NULL;

    uro_channel_lock();
    while (*number < ids.count && (id = ids.owners[*number]) == NULL)
        ++*number;
    uro_channel_unlock();
    return id;
}

/* Returns whether the listener is the first of its device. Listeners of a device are adjacent, and
 * all identifiers have the devices in the same order. */
static bool is_first_listener(const struct uro_id *id, uint32_t i)
{
    return id->listeners[i].device != NULL &&
           (i == 0 || id->listeners[i - 1].device != id->listeners[i].device);
}

void uro_id_lock(const struct uro_id *id)
{
    if (id->device != NULL)
        uro_device_lock(id->device);
    for (uint32_t i = 0; id->device == NULL && i < id->listener_count; i++)
        if (is_first_listener(id, i))
            uro_device_lock(id->listeners[i].device);
}

void uro_id_unlock(const struct uro_id *id)
{
    if (id->device != NULL)
        uro_device_unlock(id->device);
    for (uint32_t i = 0; id->device == NULL && i < id->listener_count; i++)
        if (is_first_listener(id, i))
            uro_device_unlock(id->listeners[i].device);
}

struct uro_gid uro_id_local(const struct uro_id *id)
{
    return uro_device_config(id->device)->gids[id->sgid_index];
}

/* rule CM.MTU.ROUTE */
uint8_t uro_id_path_mtu(const struct uro_id *id)
{
    uint32_t most = uro_shard_path_mtu(uro_device_shard(id->device));
    uint32_t way = id->route_mtu != 0 ? uro_shard_payload_of(id->route_mtu) : most;

    return uro_conn_mtu_code(way < most ? way : most);
}

/* Removes the identifier from the engine, which reports no event of it afterwards. */
static void detach(struct uro_id *id)
{
    uro_bind_stop_listening(id);
    uro_id_lock(id);
    if (id->conn != NULL)
        uro_conn_close(id->conn, uro_device_now());
    id->conn = NULL;
    if (id->resolve.hop != NULL)
        uro_engine_resolve_end(uro_device_engine(id->device), &id->resolve);
    uro_id_unlock(id);
}

void uro_id_cut_off(struct uro_id *id)
{
    detach(id);
    uro_bind_release(id);
    id->removed = true;
}

static uint32_t drop_group(struct uro_mcast *mcast, struct uro_list *events)
{
    uro_channel_withdraw(mcast->id, mcast, events);
    uro_list_remove(&mcast->link);
    uro_channel_lock();
    give_number(&groups, mcast->number);
    uro_channel_unlock();
    uint32_t reported = mcast->events_reported;
    free(mcast);
    return reported;
}

/* Frees the identifier. Its unreported events are left in @events. */
static uint32_t take_down(struct uro_id *id, struct uro_list *events)
{
    struct uro_link *group;

    detach(id);
    uro_bind_release(id);
    while ((group = uro_list_pop(&id->mcasts)) != NULL)
        (void)drop_group(URO_CONTAINER_OF(group, struct uro_mcast, link), events);
    uro_channel_withdraw(id, NULL, events);
    uro_channel_lock();
    give_number(&ids, id->number);
    uro_list_remove(&id->channel_link);
    uro_channel_unlock();
    uint32_t reported = id->events_reported;
    free(id->listeners);
    free(id);
    return reported;
}

/* Frees events. Rejects the requests among them, and destroys their identifiers, which the program
 * has not received. Events of these identifiers are appended to the list. */
static void discard(struct uro_list *events, const struct uro_id *gone)
{
    struct uro_link *link;

    while ((link = uro_list_pop(events)) != NULL) {
        struct uro_channel_event *event = URO_CONTAINER_OF(link, struct uro_channel_event, link);
        struct uro_id *made = event->made;
        free(event);
        if (made != NULL && made != gone)
            (void)take_down(made, events);
    }
}

uint32_t uro_id_destroy(struct uro_id *id)
{
    struct uro_list events;

    uro_list_init(&events);
    uint32_t reported = take_down(id, &events);
    discard(&events, id);
    return reported;
}

/* ---- groups -------------------------------------------------------------------------------- */

struct uro_mcast *uro_id_mcast_new(struct uro_id *id, uint64_t uid)
{
    struct uro_mcast *mcast = calloc(1, sizeof *mcast);

    if (mcast == NULL)
        return NULL;
    mcast->id = id;
    mcast->uid = uid;
    uro_channel_lock();
    bool numbered = take_number(&groups, mcast, &mcast->number);
    uro_channel_unlock();
    if (!numbered) {
        free(mcast);
        return NULL;
    }
    uro_list_append(&id->mcasts, &mcast->link);
    return mcast;
}

int uro_id_mcast_find(const struct uro_channel *channel, uint32_t number, struct uro_mcast **mcast)
{
    *mcast = find(&groups, number);
    if (*mcast == NULL)
        return -ENOENT;
    if ((*mcast)->id->channel != channel)
        return -EINVAL;
    return (*mcast)->id->removed ? -ENXIO : 0;
}

uint32_t uro_id_mcast_drop(struct uro_mcast *mcast)
{
    const struct uro_id *id = mcast->id;
    struct uro_list events;

    uro_list_init(&events);
    uint32_t reported = drop_group(mcast, &events);
    discard(&events, id);
    return reported;
}
