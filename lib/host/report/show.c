/* SPDX-License-Identifier: BSD-3-Clause */
/* show.c - opens the page that shows a device to other processes, and writes the state of the
 * device to it. If a reader requests them, also writes the objects of the device. */
#include "host/device.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/netdev.h"
#include "core/shard.h"
#include "host/limits.h"

/* Returns what other processes see of the card. */
static struct uro_stats_card shown_card(const struct uro_card *card)
{
    struct uro_stats_card shown = { .given = uro_card_given(card),
                                    .hw_ver_known = uro_card_knows(card, URO_CARD_HW_VER),
                                    .hw_ver = (uint32_t)card->numbers[URO_CARD_HW_VER] };

    static_assert(URO_STATS_CARD_MAX == URO_CARD_TEXT_MAX, "each text of a card fits");
    memcpy(shown.fw_ver, card->fw_ver, sizeof shown.fw_ver);
    memcpy(shown.hca_type, card->hca_type, sizeof shown.hca_type);
    memcpy(shown.board_id, card->board_id, sizeof shown.board_id);
    return shown;
}

void uro_show_open(struct uro_device *device)
{
    const struct uro_device_config *config = &device->config;
    char ndevs[URO_ENGINE_ADDRESSES_MAX][URO_STATS_NDEV_MAX] = { "" };
    const struct uro_stats_card card = shown_card(&config->card);
    const struct uro_stats_device shown = { .name = config->name,
                                            .link = config->link,
                                            .guid = config->guid,
                                            .gids = config->gids,
                                            .ndevs = ndevs,
                                            .gid_count = config->gid_count,
                                            .roce_v1 = config->card.roce_v1,
                                            .engine = device->engine_index,
                                            .card = &card,
                                            .started = uro_host_wall_clock(),
                                            .clock_offset =
                                                uro_host_wall_clock() - uro_device_now() };
    char problem[URO_STATS_PROBLEM_MAX];

    static_assert(sizeof ndevs[0] == IF_NAMESIZE, "the name of an interface fits");
    for (uint32_t i = 0; i < config->gid_count; i++)
        if (!uro_netdev_name(config, i, ndevs[i]))
            ndevs[i][0] = '\0';
    if (uro_stats_open(&device->stats, &shown, problem) != 0 &&
        (config->verbose || getenv("UROCE_STATE_DIR") != NULL))
        fprintf(stderr,
                "uroce: %s: other processes cannot see the counters of this process: %s; name "
                "another directory in UROCE_STATE_DIR\n",
                config->name, problem);
    uro_impair_show(device);
}

void uro_show_state(struct uro_device *device, enum uro_stats_state state)
{
    struct uro_stats_page *page = device->stats.page;

    if (page == NULL)
        return;
    const bool up = device->link_up || (device->awaits_peer && !device->link_was_up);
    atomic_store_explicit(&page->link_up, up,
                          memory_order_relaxed); /* uro_device_link_up() of a single engine */
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
