/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.c - see objects.h. */
#include "netlink/objects.h"

#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "core/key.h"
#include "core/qp_state.h"
#include "wire/bytes.h"

#define PORT        1u
#define RANGES_MAX  96u /* largest number of ranges of queue pairs that are listed for an SRQ */
#define RANGE_BYTES 20u /* bytes of an entry with two numbers */

/* struct sockaddr_storage, with a struct sockaddr_in or sockaddr_in6 */
#define STORAGE_SIZE 128u
#define FAMILY_INET  2u
#define FAMILY_INET6 10u
#define AT_PORT      2u
#define AT_INET      4u
#define AT_INET6     8u

static_assert((RANGES_MAX + 1) * RANGE_BYTES <= URO_NLDEV_MORE_MAX, "an SRQ fits into a message");

/* ---- lists ------------------------------------------------------------------------- */

struct uro_nldev_object *uro_nldev_add_object(struct uro_nldev_device *device,
                                              enum uro_nldev_kind kind)
{
    struct uro_nldev_objects *objects = &device->objects[kind];
    const uint32_t count = objects->count;

    if ((count & (count - 1)) == 0) { /* the list is full when its size is a power of two */
        struct uro_nldev_object *more =
            realloc(objects->list, (count != 0 ? 2 * (size_t)count : 1) * sizeof *more);
        if (more == NULL) {
            objects->known = false;
            return NULL;
        }
        objects->list = more;
    }
    memset(&objects->list[count], 0, sizeof *objects->list);
    return &objects->list[objects->count++];
}

void uro_nldev_set_rows_known(struct uro_nldev_device *device, bool known)
{
    static const enum uro_nldev_kind kinds[] = { URO_NLDEV_QP, URO_NLDEV_CQ,    URO_NLDEV_PD,
                                                 URO_NLDEV_MR, URO_NLDEV_CM_ID, URO_NLDEV_SRQ };

    for (size_t i = 0; i < URO_ARRAY_LEN(kinds); i++)
        device->objects[kinds[i]].known = known;
}

void uro_nldev_free_objects(struct uro_nldev_device *device)
{
    for (uint32_t kind = 0; kind < URO_NLDEV_KINDS; kind++) {
        struct uro_nldev_objects *objects = &device->objects[kind];
        for (uint32_t i = 0; i < objects->count; i++)
            free(objects->list[i].more);
        free(objects->list);
        *objects = (struct uro_nldev_objects){ .known = false };
    }
}

static int compare_objects(const void *left, const void *right)
{
    const struct uro_nldev_object *a = left, *b = right;

    return (a->fields[0].value > b->fields[0].value) - (a->fields[0].value < b->fields[0].value);
}

void uro_nldev_sort_objects(struct uro_nldev_device *device)
{
    for (uint32_t kind = 0; kind < URO_NLDEV_KINDS; kind++)
        if (device->objects[kind].count > 1)
            qsort(device->objects[kind].list, device->objects[kind].count,
                  sizeof *device->objects[kind].list, compare_objects);
}

static void add_u32(struct uro_nldev_object *object, uint16_t attr, uint32_t value)
{
    uro_nldev_add_field(object, attr, sizeof value, value);
}

/* ---- numbers that other objects use -------------------------------------------------- */

/* How often numbers are used. */
struct uses {
    uint32_t *numbers; /* sorted; one entry for each use */
    size_t count;
};

static int compare_numbers(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

static void sort_uses(struct uses *uses)
{
    if (uses->count > 1)
        qsort(uses->numbers, uses->count, sizeof *uses->numbers, compare_numbers);
}

/* Returns how many entries from @first on are equal to that entry. */
static size_t run_length(const struct uses *uses, size_t first)
{
    size_t length = 0;

    while (first + length < uses->count && uses->numbers[first + length] == uses->numbers[first])
        length++;
    return length;
}

/* Returns how often @number is used. */
static uint64_t count_uses(const struct uses *uses, uint32_t number)
{
    size_t low = 0, high = uses->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (uses->numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < uses->count && uses->numbers[low] == number ? run_length(uses, low) : 0;
}

/* ---- kinds ------------------------------------------------------------------------- */

/* Returns the number of a type in the kernel, which is that of enum ibv_qp_type. */
static uint8_t kernel_type(uint8_t type)
{
    static const uint8_t types[URO_QPT_COUNT] = {
        [URO_QPT_RC] = 2,      [URO_QPT_UC] = 3,       [URO_QPT_UD] = 4,
        [URO_QPT_XRC_INI] = 9, [URO_QPT_XRC_TGT] = 10,
    };

    return type < URO_QPT_COUNT ? types[type] : UINT8_MAX;
}

static void add_qp(struct uro_nldev_device *device, uint32_t pid, const struct uro_snapshot_qp *row)
{
    struct uro_nldev_object *object = uro_nldev_add_object(device, URO_NLDEV_QP);

    if (object == NULL)
        return;
    add_u32(object, RDMA_NLDEV_ATTR_RES_LQPN, row->qpn);
    add_u32(object, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    if (row->type != URO_QPT_UD) {
        add_u32(object, RDMA_NLDEV_ATTR_RES_RQPN, row->peer_qpn);
        add_u32(object, RDMA_NLDEV_ATTR_RES_RQ_PSN, row->expected_psn);
    }
    add_u32(object, RDMA_NLDEV_ATTR_RES_SQ_PSN, row->next_psn);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_TYPE, 1, kernel_type(row->type));
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_STATE, 1, row->state);
    if (row->type != URO_QPT_XRC_TGT)
        add_u32(object, RDMA_NLDEV_ATTR_RES_PDN, row->pd);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PID, pid);
}

static void add_cq(struct uro_nldev_device *device, uint32_t pid, const struct uro_snapshot_cq *row,
                   uint64_t uses)
{
    struct uro_nldev_object *object = uro_nldev_add_object(device, URO_NLDEV_CQ);

    if (object == NULL)
        return;
    add_u32(object, RDMA_NLDEV_ATTR_RES_CQN, row->number);
    add_u32(object, RDMA_NLDEV_ATTR_RES_CQE, row->capacity);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_USECNT, sizeof uses, uses);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PID, pid);
}

static void add_region(struct uro_nldev_device *device, uint32_t pid,
                       const struct uro_snapshot_key *row)
{
    struct uro_nldev_object *object = uro_nldev_add_object(device, URO_NLDEV_MR);

    if (object == NULL)
        return;
    add_u32(object, RDMA_NLDEV_ATTR_RES_MRN, row->key >> URO_KEY_LOW_BITS);
    add_u32(object, RDMA_NLDEV_ATTR_RES_RKEY, row->key);
    add_u32(object, RDMA_NLDEV_ATTR_RES_LKEY, row->key);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_IOVA, sizeof row->address, row->address);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_MRLEN, sizeof row->length, row->length);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PDN, row->pd);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PID, pid);
}

/* Gives the attributes of @list to the object. They are freed with the object. */
static void set_more(struct uro_nldev_object *object, struct uro_netlink_list *list)
{
    if (list->failed) {
        free(list->bytes);
        return;
    }
    object->more = list->bytes;
    object->more_length = (uint32_t)list->used;
}

/* A queue pair that takes its receives from an SRQ. */
struct user {
    uint32_t srq, qpn;
};

static int compare_users(const void *left, const void *right)
{
    const struct user *a = left, *b = right;

    if (a->srq != b->srq)
        return (a->srq > b->srq) - (a->srq < b->srq);
    return (a->qpn > b->qpn) - (a->qpn < b->qpn);
}

/* Lists the queue pairs of the SRQ as the kernel does: successive numbers are a range. */
static void put_users(struct uro_netlink_list *list, uint32_t srq, const struct user *users,
                      size_t count)
{
    const size_t all = uro_netlink_nest(list, RDMA_NLDEV_ATTR_RES_QP);

    for (size_t i = 0, ranges = 0; i < count && ranges < RANGES_MAX; i++) {
        if (users[i].srq != srq)
            continue;
        const uint32_t first = users[i].qpn;
        while (i + 1 < count && users[i + 1].srq == srq && users[i + 1].qpn == users[i].qpn + 1)
            i++;
        const size_t one = uro_netlink_nest(list, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
        if (users[i].qpn == first) {
            uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_RES_LQPN, first);
        } else {
            uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_MIN_RANGE, first);
            uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_MAX_RANGE, users[i].qpn);
        }
        uro_netlink_nest_end(list, one);
        ranges++;
    }
    uro_netlink_nest_end(list, all);
}

static void add_srq(struct uro_nldev_device *device, uint32_t pid,
                    const struct uro_snapshot_srq *row, const struct user *users, size_t count)
{
    struct uro_nldev_object *object = uro_nldev_add_object(device, URO_NLDEV_SRQ);
    struct uro_netlink_list more = { 0 };

    if (object == NULL)
        return;
    add_u32(object, RDMA_NLDEV_ATTR_RES_SRQN, row->number);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_TYPE, 1, row->is_xrc); /* enum ib_srq_type */
    add_u32(object, RDMA_NLDEV_ATTR_RES_PDN, row->pd);
    if (row->is_xrc)
        add_u32(object, RDMA_NLDEV_ATTR_RES_CQN, row->cq);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PID, pid);
    put_users(&more, row->number, users, count);
    set_more(object, &more);
}

/* Adds the SRQs, each with its queue pairs. */
static void add_srqs(struct uro_nldev_device *device, uint32_t pid,
                     const struct uro_stats_rows *rows)
{
    const uint32_t qp_count = rows->count[URO_SNAPSHOT_QPS];
    struct user *users = malloc((qp_count + 1) * sizeof *users);
    size_t count = 0;

    if (users == NULL) {
        device->objects[URO_NLDEV_SRQ].known = false;
        return;
    }
    for (uint32_t i = 0; i < qp_count; i++)
        if (rows->qps[i].srq != 0)
            users[count++] = (struct user){ rows->qps[i].srq, rows->qps[i].qpn };
    if (count > 1)
        qsort(users, count, sizeof *users, compare_users);
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_SRQS]; i++)
        add_srq(device, pid, &rows->srqs[i], users, count);
    free(users);
}

/* Adds an address as the kernel does: a struct sockaddr_storage, whose family is in host order. */
static void put_address(struct uro_netlink_list *list, uint16_t attr, uint8_t version,
                        const struct uro_gid *gid, uint16_t port)
{
    const uint16_t family = version == 4 ? FAMILY_INET : FAMILY_INET6;
    uint8_t storage[STORAGE_SIZE] = { 0 };

    if (version == 0)
        return;
    memcpy(storage, &family, sizeof family);
    uro_put_be16(storage + AT_PORT, port);
    if (version == 4)
        memcpy(storage + AT_INET, gid->octets + 12, 4);
    else
        memcpy(storage + AT_INET6, gid->octets, sizeof gid->octets);
    uro_netlink_put(list, attr, storage, sizeof storage);
}

static void add_id(struct uro_nldev_device *device, uint32_t pid, const struct uro_snapshot_id *row)
{
    struct uro_nldev_object *object = uro_nldev_add_object(device, URO_NLDEV_CM_ID);
    struct uro_netlink_list more = { 0 };

    if (object == NULL)
        return;
    add_u32(object, RDMA_NLDEV_ATTR_RES_CM_IDN, row->number);
    add_u32(object, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    if (row->qpn != 0) {
        add_u32(object, RDMA_NLDEV_ATTR_RES_LQPN, row->qpn);
        uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_TYPE, 1, row->qp_type);
    }
    add_u32(object, RDMA_NLDEV_ATTR_RES_PS, row->port_space);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_STATE, 1, row->state);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PID, pid);
    put_address(&more, RDMA_NLDEV_ATTR_RES_SRC_ADDR, row->source_version, &row->source,
                row->source_port);
    put_address(&more, RDMA_NLDEV_ATTR_RES_DST_ADDR, row->dest_version, &row->dest, row->dest_port);
    set_more(object, &more);
}

static void add_domain(struct uro_nldev_device *device, uint32_t pid, uint32_t number,
                       uint64_t uses)
{
    struct uro_nldev_object *object = uro_nldev_add_object(device, URO_NLDEV_PD);

    if (object == NULL)
        return;
    add_u32(object, RDMA_NLDEV_ATTR_RES_PDN, number);
    uro_nldev_add_field(object, RDMA_NLDEV_ATTR_RES_USECNT, sizeof uses, uses);
    add_u32(object, RDMA_NLDEV_ATTR_RES_PID, pid);
}

/* ---- a process ---------------------------------------------------------------------- */

/* Adds all keys except windows, which the kernel does not list. Notes the domain of each region. */
static void add_keys(struct uro_nldev_device *device, uint32_t pid,
                     const struct uro_stats_rows *rows, struct uses *domains)
{
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_KEYS]; i++) {
        const struct uro_snapshot_key *row = &rows->keys[i];
        if (row->kind != URO_KEY_REGION && row->kind != URO_KEY_NULL)
            continue;
        add_region(device, pid, row);
        domains->numbers[domains->count++] = row->pd;
    }
}

/* Adds the queue pairs. Notes the domain and the CQs of each queue pair. CQ 0 means that the queue
 * has no CQ. */
static void add_qps(struct uro_nldev_device *device, uint32_t pid,
                    const struct uro_stats_rows *rows, struct uses *domains, struct uses *cqs)
{
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_QPS]; i++) {
        const struct uro_snapshot_qp *row = &rows->qps[i];
        add_qp(device, pid, row);
        if (row->type != URO_QPT_XRC_TGT)
            domains->numbers[domains->count++] = row->pd;
        cqs->numbers[cqs->count++] = row->send_cq;
        if (row->recv_cq != row->send_cq)
            cqs->numbers[cqs->count++] = row->recv_cq;
    }
}

void uro_nldev_add_rows(struct uro_nldev_device *device, uint32_t pid,
                        const struct uro_stats_rows *rows)
{
    const size_t qp_count = rows->count[URO_SNAPSHOT_QPS];
    const size_t most = qp_count + rows->count[URO_SNAPSHOT_KEYS] + 1;
    struct uses domains = { .numbers = malloc(most * sizeof(uint32_t)) };
    struct uses cqs = { .numbers = malloc((2 * qp_count + 1) * sizeof(uint32_t)) };

    const bool enough = domains.numbers != NULL && cqs.numbers != NULL;
    if (!enough || rows->incomplete)
        uro_nldev_set_rows_known(device, false);
    if (enough) {
        add_qps(device, pid, rows, &domains, &cqs);
        add_keys(device, pid, rows, &domains);
        sort_uses(&domains);
        sort_uses(&cqs);
        for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_CQS]; i++)
            add_cq(device, pid, &rows->cqs[i], count_uses(&cqs, rows->cqs[i].number));
        for (size_t i = 0; i < domains.count; i += run_length(&domains, i))
            add_domain(device, pid, domains.numbers[i], run_length(&domains, i));
    }
    free(domains.numbers);
    free(cqs.numbers);
    add_srqs(device, pid, rows);
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_IDS]; i++)
        add_id(device, pid, &rows->ids[i]);
}
