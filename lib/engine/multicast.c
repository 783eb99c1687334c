/* SPDX-License-Identifier: BSD-3-Clause */
/* multicast.c - the table of groups, and the times of their reports.
 *
 *   change   a group was joined or left, or the link came up: reported at once and, because a
 *            report may be lost, again within a second
 *   answer   a query arrived: all requested groups are reported at a random time within the time
 *            that the query names
 *
 * All records that are due at the same time go into one report for each IP version. A report has as
 * many frames as it needs. While a router queries in an older version, each group has a message of
 * that version. A query that names sources is answered as a query without sources, because we
 * receive from all sources.
 */
#include "engine/multicast.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "engine/igmp_mld.h"
#include "wire/icmp.h"
#include "wire/igmp.h"
#include "wire/mld.h"

#define ROBUSTNESS         2u /* number of reports of a change */
#define CHANGE_INTERVAL_MS 1000u
#define OLDER_FOR          URO_MS(260000) /* two query intervals of the usual 125 s, plus 10 s */

#define NONE UINT16_MAX
static_assert(URO_ENGINE_MACS_MAX < NONE, "the number of a group must fit");
static_assert(URO_ENGINE_MACS_MAX >= URO_MCAST_GROUPS_MAX + URO_ENGINE_ADDRESSES_MAX + 2,
              "the table must have space for our own groups and the joined groups");

static const struct uro_gid all_hosts = { { [10] = 0xff, 0xff, 224, 0, 0, 1 } };
static const struct uro_gid all_nodes = { { 0xff, 0x02, [15] = 1 } };

static bool in_use(const struct uro_member_group *group)
{
    return group->joined || group->own;
}

static struct uro_member_reports *reports_of(struct uro_member *member, const struct uro_gid *group)
{
    return &member->reports[uro_gid_is_ipv4(group) ? 0 : 1];
}

/* Returns whether the group is reported. The all-hosts and all-nodes groups, and IPv6 groups that
 * stay inside the machine, are not. */
static bool is_reported(const struct uro_gid *group)
{
    if (uro_gid_is_ipv4(group) ? !uro_gid_equal(group, &all_hosts)
                               : (group->octets[1] & 0xf) > 1 && !uro_gid_equal(group, &all_nodes))
        return true;
    URO_MARK("MCAST.SILENT");
    return false;
}

/* ---- the table ---------------------------------------------------------- */

/* Groups of one MAC address share a bucket. */
static uint32_t bucket_of(const struct uro_gid *group)
{
    const struct uro_mac mac = uro_mac_multicast(group);
    const uint32_t low = (uint32_t)mac.octets[2] << 24 | (uint32_t)mac.octets[3] << 16 |
                         (uint32_t)mac.octets[4] << 8 | mac.octets[5];

    return low * 0x9e3779b1u >> 22; /* Fibonacci hashing: the upper bits are mixed */
}
static_assert(URO_MEMBER_BUCKETS == 1u << (32 - 22), "the shift must fit the table");

static struct uro_member_group *find(const struct uro_member *member, const struct uro_gid *group)
{
    uint16_t index = member->buckets[bucket_of(group)];

    while (index != NONE && !uro_gid_equal(&member->groups[index].gid, group))
        index = member->groups[index].next;
    return index != NONE ? (struct uro_member_group *)&member->groups[index] : NULL;
}

static void unlink_group(struct uro_member *member, uint16_t index)
{
    uint16_t *link = &member->buckets[bucket_of(&member->groups[index].gid)];

    while (*link != index)
        link = &member->groups[*link].next;
    *link = member->groups[index].next;
}

/* Returns a free entry. If there is none, takes the entry of a group that was left, if need be
 * before the leave was reported. There is such an entry, because the table has room for all groups
 * in use. */
static uint16_t take(struct uro_member *member)
{
    uint16_t index = NONE;

    if (member->used < URO_ARRAY_LEN(member->groups))
        return (uint16_t)member->used++;
    for (uint32_t i = 0; i < URO_ARRAY_LEN(member->groups); i++) {
        const struct uro_member_group *group = &member->groups[i];
        if (in_use(group))
            continue;
        index = (uint16_t)i;
        if (group->changes == 0 && group->record == 0)
            break;
    }
    unlink_group(member, index);
    return index;
}

static struct uro_member_group *find_or_add(struct uro_member *member, const struct uro_gid *gid)
{
    struct uro_member_group *group = find(member, gid);
    uint16_t *bucket = &member->buckets[bucket_of(gid)];

    if (group != NULL)
        return group;
    const uint16_t index = take(member);
    group = &member->groups[index];
    *group = (struct uro_member_group){ .gid = *gid, .next = *bucket };
    *bucket = index;
    return group;
}

void uro_member_init(struct uro_member *member, const struct uro_engine_config *config,
                     struct uro_counters *counters, struct uro_rng *rng)
{
    member->config = config;
    member->counters = counters;
    member->rng = rng;
    member->joined = member->version = member->used = 0;
    for (int i = 0; i < 2; i++)
        member->reports[i] = (struct uro_member_reports){ .change_due = URO_TIME_NEVER,
                                                          .answer_due = URO_TIME_NEVER };
    memset(member->buckets, 0xff, sizeof member->buckets); /* NONE */

    find_or_add(member, &all_hosts)->own = true;
    find_or_add(member, &all_nodes)->own = true;
    for (uint32_t i = 0; i < config->address_count; i++) {
        const struct uro_gid group = uro_gid_solicited_node(&config->addresses[i].gid);
        if (!uro_gid_is_ipv4(&config->addresses[i].gid))
            find_or_add(member, &group)->own = true;
    }
}

/* ---- joining and leaving ------------------------------------------------ */

static void report_change(struct uro_member *member, struct uro_member_group *group, uro_time now)
{
    if (!is_reported(&group->gid))
        return;
    group->changes = ROBUSTNESS;
    reports_of(member, &group->gid)->change_due = now;
}

static uint32_t groups_max(const struct uro_engine_config *config)
{
    return config->groups != 0 ? config->groups : URO_MCAST_GROUPS_MAX;
}

int uro_member_join(struct uro_member *member, const struct uro_gid *gid, uro_time now)
{
    if (!uro_gid_is_multicast(gid))
        return -EINVAL;
    if (uro_member_of(member, gid))
        return 0;
    if (member->joined == groups_max(member->config))
        return -ENOMEM;

    struct uro_member_group *group = find_or_add(member, gid);
    group->joined = true;
    member->joined++;
    member->version++;
    if (group->own)
        return 0;
    URO_MARK("MCAST.JOIN");
    report_change(member, group, now);
    return 0;
}

void uro_member_leave(struct uro_member *member, const struct uro_gid *gid, uro_time now)
{
    struct uro_member_group *group = find(member, gid);

    if (group == NULL || !group->joined)
        return;
    group->joined = false;
    member->joined--;
    member->version++;
    if (group->own)
        return;
    URO_MARK("MCAST.LEAVE");
    report_change(member, group, now);
}

bool uro_member_of(const struct uro_member *member, const struct uro_gid *gid)
{
    const struct uro_member_group *group = find(member, gid);

    return group != NULL && group->joined;
}

void uro_member_report_all(struct uro_member *member, uro_time now)
{
    URO_MARK("MCAST.LINK");
    for (uint32_t i = 0; i < member->used; i++)
        if (in_use(&member->groups[i]))
            report_change(member, &member->groups[i], now);
}

/* ---- queries ------------------------------------------------------------ */

static uint8_t newest(bool v6)
{
    return v6 ? URO_MEMBERSHIP_MLD : URO_MEMBERSHIP_IGMP;
}

/* Returns the oldest version in which a router queries. */
static uint8_t version_at(const struct uro_member_reports *reports, bool v6, uro_time now)
{
    uint8_t version = 1;

    while (version < newest(v6) && now >= reports->older_until[version - 1])
        version++;
    if (version < newest(v6))
        URO_MARK("MCAST.OLDER");
    return version;
}

void uro_member_input(struct uro_member *member, const struct uro_frame *frame, uro_time now)
{
    const bool v6 = frame->ip.v6;
    struct uro_membership_query query;

    switch (v6 ? uro_mld_decode(&frame->ip, frame->body, frame->body_length, &query)
               : uro_igmp_decode(frame->body, frame->body_length, &query)) {
    case URO_MEMBERSHIP_BAD:
        uro_count(member->counters, URO_COUNT_DROP_MEMBERSHIP);
        return;
    case URO_MEMBERSHIP_OTHER:
        return;
    case URO_MEMBERSHIP_QUERY:
        break;
    }
    uro_count(member->counters, URO_COUNT_MEMBERSHIP_RX);

    struct uro_member_reports *reports = &member->reports[v6];
    if (query.version < newest(v6))
        reports->older_until[query.version - 1] = now + OLDER_FOR;
    if (uro_gid_is_zero(&query.group)) {
        URO_MARK("MCAST.QUERY.ALL");
        reports->all_queried = true;
    } else {
        struct uro_member_group *group = find(member, &query.group);
        if (group == NULL || !in_use(group))
            return;
        URO_MARK("MCAST.QUERY.GROUP");
        group->queried = true;
    }
    const uro_time due = now + URO_MS(uro_rng_below(member->rng, query.max_response_ms + 1));
    if (due < reports->answer_due)
        reports->answer_due = due;
}

/* ---- reports ------------------------------------------------------------ */

/* Returns the record that the next report has for @group. @changes: changes are due. @query_due: an
 * answer to a query for the group is due. */
static uint8_t record_of(const struct uro_member_group *group, bool changes, bool query_due)
{
    if (changes && group->changes > 0)
        return in_use(group) ? URO_MEMBERSHIP_TO_EXCLUDE : URO_MEMBERSHIP_TO_INCLUDE;
    if (query_due && group->record == 0 && in_use(group) && is_reported(&group->gid))
        return URO_MEMBERSHIP_IS_EXCLUDE;
    return group->record;
}

static void begin_report(struct uro_member *member, bool v6, uro_time now)
{
    struct uro_member_reports *reports = &member->reports[v6];
    const bool changes = reports->change_due <= now;
    const bool query_due = reports->answer_due <= now;
    bool again = false;

    for (uint32_t i = 0; i < member->used; i++) {
        struct uro_member_group *group = &member->groups[i];
        if (uro_gid_is_ipv4(&group->gid) == v6)
            continue;
        group->record =
            record_of(group, changes, query_due && (reports->all_queried || group->queried));
        if (query_due)
            group->queried = false;
        if (changes && group->changes > 0)
            again |= --group->changes > 0;
    }
    if (changes)
        reports->change_due = again
                                  ? now + URO_MS(1 + uro_rng_below(member->rng, CHANGE_INTERVAL_MS))
                                  : URO_TIME_NEVER;
    if (query_due) {
        reports->answer_due = URO_TIME_NEVER;
        reports->all_queried = false;
    }
    reports->version = version_at(reports, v6, now);
    reports->pending = true;
    reports->cursor = 0;
}

void uro_member_run(struct uro_member *member, uro_time now)
{
    for (int v6 = 0; v6 < 2; v6++)
        if (member->reports[v6].change_due <= now || member->reports[v6].answer_due <= now)
            begin_report(member, v6, now);
}

/* Writes the next frame of the current report. Returns false when no record is left. */
static bool next_frame(struct uro_member *member, bool v6, uint8_t *octets, struct uro_tx *tx)
{
    struct uro_member_reports *reports = &member->reports[v6];
    struct uro_member_writer writer;

    uro_member_writer_init(&writer, member->config, v6, reports->version, octets);
    for (; reports->cursor < member->used; reports->cursor++) {
        struct uro_member_group *group = &member->groups[reports->cursor];
        if (group->record == 0 || uro_gid_is_ipv4(&group->gid) == v6)
            continue;
        if (!uro_member_writer_add(&writer, group->record, &group->gid)) {
            URO_MARK("MCAST.REPORT.SPLIT");
            break;
        }
        group->record = 0;
    }
    reports->pending = reports->cursor < member->used;
    return uro_member_writer_finish(&writer, tx);
}

uint32_t uro_member_output(struct uro_member *member, struct uro_tx *tx, uint32_t max)
{
    const uint32_t most = max < URO_MEMBER_FRAMES_MAX ? max : URO_MEMBER_FRAMES_MAX;
    uint32_t count = 0;

    for (int v6 = 0; v6 < 2; v6++)
        while (count < most && member->reports[v6].pending)
            count += next_frame(member, v6, member->frames[count], &tx[count]);
    member->counters->value[URO_COUNT_MEMBERSHIP_TX] += count;
    return count;
}

uro_time uro_member_next(const struct uro_member *member, uro_time now)
{
    uro_time next = URO_TIME_NEVER;

    for (int i = 0; i < 2; i++) {
        const struct uro_member_reports *reports = &member->reports[i];
        const uro_time due =
            reports->change_due < reports->answer_due ? reports->change_due : reports->answer_due;
        if (reports->pending)
            return now;
        next = due < next ? due : next;
    }
    return next;
}

/* ---- MAC addresses ------------------------------------------------------ */

static bool add_mac(const struct uro_mac *mac, struct uro_mac *macs, uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i < count; i++)
        if (memcmp(&macs[i], mac, sizeof *mac) == 0)
            return false;
    macs[count] = *mac;
    return true;
}

uint32_t uro_member_macs(const struct uro_member *member, struct uro_mac *macs, uint32_t max)
{
    uint32_t count = 0;

    URO_MARK("MCAST.MAC");
    for (uint32_t i = 0; i < URO_MEMBER_BUCKETS; i++) {
        const uint32_t from = count; /* groups with the same MAC address share a bucket */
        for (uint16_t index = member->buckets[i]; index != NONE;
             index = member->groups[index].next) {
            const struct uro_mac mac = uro_mac_multicast(&member->groups[index].gid);
            if (in_use(&member->groups[index]) && count < max)
                count += add_mac(&mac, macs, from, count);
        }
    }
    return count;
}

uint32_t uro_member_groups(const struct uro_member *member, struct uro_gid *groups, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < URO_MEMBER_BUCKETS; i++)
        for (uint16_t index = member->buckets[i]; index != NONE; index = member->groups[index].next)
            if (member->groups[index].joined && count < max)
                groups[count++] = member->groups[index].gid;
    return count;
}
