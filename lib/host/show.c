/* SPDX-License-Identifier: BSD-3-Clause */
/* show.c - writes the state of a device for other processes, and its objects if a reader requests
 * them. */
#include "host/device.h"

#include "core/shard.h"
#include "host/limits.h"

void uro_show_state(struct uro_device *device, enum uro_stats_state state)
{
    struct uro_stats_page *page = device->stats.page;

    if (page == NULL)
        return;
    const bool up = device->link_up || (device->awaits_peer && !device->link_was_up);
    atomic_store_explicit(&page->link_up, up,
                          memory_order_relaxed); /* the same value as uro_device_link_up() */
    atomic_store_explicit(&page->speed, device->speed, memory_order_relaxed);
    atomic_store_explicit(&page->mtu, device->port->mtu, memory_order_relaxed);
    atomic_store_explicit(&page->header.state, state, memory_order_release);
}

/* Copies the identifiers of rdma_cm to @rows. Returns their number, or -EAGAIN. */
static int list_ids(const struct uro_device *device, struct uro_snapshot_id *rows,
                    uint32_t capacity)
{
    const struct uro_conn_handlers *handlers = uro_host_conn_handlers();

    return handlers != NULL && handlers->list != NULL ? handlers->list(device, rows, capacity) : 0;
}

/* Adds the identifiers to the snapshot. Returns false if the caller must try again. */
static bool add_ids(struct uro_device *device)
{
    struct uro_snapshot *snapshot = &device->snapshot;
    const uint32_t capacity = snapshot->rows.capacity[URO_SNAPSHOT_IDS];
    const int count = list_ids(device, snapshot->rows.ids, capacity);

    if (count < 0)
        return false;
    snapshot->incomplete = snapshot->incomplete || (uint32_t)count > capacity;
    snapshot->count[URO_SNAPSHOT_IDS] = (uint32_t)count < capacity ? (uint32_t)count : capacity;
    return true;
}

/* Begins a snapshot. Returns false if the file cannot grow for it. */
static bool begin(struct uro_device *device)
{
    struct uro_shard *shard = uro_engine_shard(device->engine);
    struct uro_snapshot_rows rows;
    uint32_t wanted[URO_SNAPSHOT_KINDS];

    for (unsigned kind = 0; kind < URO_SNAPSHOT_KINDS; kind++)
        wanted[kind] = uro_snapshot_objects(shard, (enum uro_snapshot_kind)kind);
    const int ids = list_ids(device, NULL, 0);
    wanted[URO_SNAPSHOT_IDS] = ids > 0 ? (uint32_t)ids : 0;
    if (uro_stats_table_begin(&device->table, &device->stats, wanted, &rows) != 0)
        return false;
    uro_snapshot_begin(&device->snapshot, shard, &rows);
    return true;
}

bool uro_show_objects(struct uro_device *device, uro_time now)
{
    if (device->stats.page == NULL || device->stats.fd < 0)
        return false;
    if (device->snapshot.shard == NULL)
        return uro_stats_table_wanted(&device->table, device->stats.page) && begin(device);
    if (!uro_snapshot_step(&device->snapshot, URO_SHOW_ROWS) || !add_ids(device))
        return true;
    uro_stats_table_end(&device->table, &device->stats, &device->snapshot, now);
    uro_snapshot_cancel(&device->snapshot);
    return false;
}

bool uro_show_in_progress(const struct uro_device *device)
{
    return device->snapshot.shard != NULL;
}
