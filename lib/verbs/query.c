/* SPDX-License-Identifier: BSD-3-Clause */
/* query.c - attributes of a device, its port and its tables. A query does not start the device. */
#include <errno.h>
#include <string.h>

#include "core/limits.h"
#include "host/netdev.h"
#include "stats/link_rate.h"
#include "verbs/objects.h"
#include "wire/bytes.h"

#define PAGE_SIZES   UINT64_C(0xfffff000)
#define ACK_DELAY    15 /* 4.096 us << 15 = 134 ms, because the scheduler may delay a process */
#define PKEY_DEFAULT 0xffffu
#define PKEYS        1
/* All operations can use on-demand regions, since the processor resolves their faults. */
#define ODP_DATAGRAM (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_UC       (ODP_DATAGRAM | IBV_ODP_SUPPORT_WRITE)
#define ODP_RC       (ODP_UC | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC)
#define CLOCK_KHZ    1000000 /* clock of completion timestamps, which are in ns */
#define PHYS_POLLING 2
#define PHYS_LINK_UP 5
/* Bits above 32 that an older <infiniband/verbs.h> lacks. */
#define CAP_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define CAP_ATOMIC_WRITE (UINT64_C(1) << 40)
#define COUNTER_MAX      0xffffu

/* Called by ibv_query_gid_type(), which lib/abi/gen_symbols.py writes. */
int uro_query_gid_type(void *context, uint8_t port, unsigned index, unsigned *type);

static const struct uro_device_config *config_of(struct ibv_context *context)
{
    return uro_device_config(uro_ibv_host(context));
}

/* Sets errno and returns -1, as the table queries do. */
static int refuse(int error)
{
    errno = error;
    return -1;
}

static enum ibv_mtu active_mtu(struct uro_device *device)
{
    enum ibv_mtu mtu = IBV_MTU_4096;

    while (mtu > IBV_MTU_256 && (128u << mtu) + URO_ROCE_OVERHEAD > uro_device_mtu(device))
        mtu--;
    return mtu;
}

/* Returns how many objects of a kind a program may have. */
static int most(struct ibv_context *context, enum uro_quota quota)
{
    return (int)uro_quota_most(uro_ibv_host(context), quota);
}

static int groups_max(struct ibv_context *context)
{
    return (int)uro_device_groups_max(uro_ibv_host(context));
}

int uro_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    if (uro_ibv_context_dead(context))
        return EIO;
    *attr = (struct ibv_device_attr){
        .fw_ver = URO_VERSION,
        .node_guid = ibv_get_device_guid(context->device),
        .sys_image_guid = ibv_get_device_guid(context->device),
        .max_mr_size = UINT64_MAX,
        .page_size_cap = PAGE_SIZES,
        .vendor_id = URO_VERBS_VENDOR_ID,
        .vendor_part_id = config_of(context)->vendor_part_id,
        .max_qp = most(context, URO_QUOTA_QP),
        .max_qp_wr = URO_WR_MAX,
        .device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                            IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_UD_AV_PORT_ENFORCE |
                            IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
                            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                            IBV_DEVICE_MEM_MGT_EXTENSIONS,
        .max_sge = URO_SGE_MAX,
        .max_sge_rd = URO_SGE_MAX,
        .max_cq = most(context, URO_QUOTA_CQ),
        .max_cqe = URO_CQ_CAPACITY_MAX,
        .max_mr = most(context, URO_QUOTA_MR),
        .max_mw = most(context, URO_QUOTA_MW),
        .max_pd = most(context, URO_QUOTA_PD),
        .max_qp_rd_atom = URO_RD_ATOMIC_MAX,
        .max_res_rd_atom = (int)URO_RD_ATOMIC_MAX * most(context, URO_QUOTA_QP),
        .max_qp_init_rd_atom = URO_RD_ATOMIC_MAX,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_ah = most(context, URO_QUOTA_AH),
        .max_srq = most(context, URO_QUOTA_SRQ),
        .max_srq_wr = URO_WR_MAX,
        .max_srq_sge = URO_SGE_MAX,
        .max_mcast_grp = groups_max(context),
        .max_mcast_qp_attach = URO_MCAST_MEMBERS_MAX,
        .max_total_mcast_qp_attach = groups_max(context) * (int)URO_MCAST_MEMBERS_MAX,
        .max_pkeys = PKEYS,
        .local_ca_ack_delay = ACK_DELAY,
        .phys_port_cnt = URO_PORT,
    };
    return 0;
}

int uro_ibv_query_device_ex(struct ibv_context *context,
                            const struct ibv_query_device_ex_input *input,
                            struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex all = {
        .odp_caps = { .general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
                      .per_transport_caps = { ODP_RC, ODP_UC, ODP_DATAGRAM } },
        .completion_timestamp_mask = UINT64_MAX,
        .hca_core_clock = CLOCK_KHZ,
        .max_dm_size = URO_DM_MAX,
        .xrc_odp_caps = ODP_RC,
        .phys_port_cnt_ex = URO_PORT,
    };

    if ((input != NULL && input->comp_mask != 0) || size < sizeof all.orig_attr)
        return EINVAL;
    int error = uro_ibv_query_device(context, &all.orig_attr);
    if (error != 0)
        return error;
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags | CAP_FLUSH_GLOBAL | CAP_ATOMIC_WRITE;
    /* The caller's struct may be older or newer than ours: fields that only the caller has are
     * 0. */
    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

/* The seconds stay 0, since programs read the nanoseconds as ticks of hca_core_clock, to compare
 * them with completion timestamps. */
int uro_ibv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    if (uro_ibv_context_dead(context))
        return EIO;
    if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
        return EINVAL;
    if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
        values->raw_clock = (struct timespec){ .tv_nsec = (long)uro_device_now() };
    return 0;
}

static uint32_t counted(struct uro_device *device, enum uro_counter counter)
{
    uint64_t value = 0;

    if (uro_device_started(device)) {
        uro_device_lock(device);
        value = uro_engine_counters(uro_device_engine(device))->value[counter];
        uro_device_unlock(device);
    }
    return value < COUNTER_MAX ? (uint32_t)value : COUNTER_MAX;
}

int uro_ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                       size_t size)
{
    struct uro_device *device = uro_ibv_host(context);
    bool up = uro_device_link_up(device);

    if (uro_ibv_context_dead(context))
        return EIO;
    if (port != URO_PORT)
        return EINVAL;
    const struct uro_link_rate *rate = uro_link_rate_of(uro_device_speed(device));
    const struct ibv_port_attr all = {
        .state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = active_mtu(device),
        .gid_tbl_len = URO_GID_TABLE,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = URO_MESSAGE_MAX,
        .bad_pkey_cntr = counted(device, URO_COUNT_DROP_PKEY),
        .qkey_viol_cntr = counted(device, URO_COUNT_DROP_QKEY),
        .pkey_tbl_len = PKEYS,
        .max_vl_num = 1,
        .active_width = rate->width_code,
        .active_speed = rate->speed_code,
        .phys_state = up ? PHYS_LINK_UP : PHYS_POLLING,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .flags = IBV_QPF_GRH_REQUIRED,
    };
    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Returns the GID, or zero if the entry is empty. */
static union ibv_gid gid_at(struct ibv_context *context, uint32_t index)
{
    const struct uro_device_config *config = config_of(context);
    union ibv_gid gid = { .raw = { 0 } };

    if (index < config->gid_count)
        memcpy(gid.raw, config->gids[index].octets, sizeof gid.raw);
    return gid;
}

static bool slot_exists(uint32_t port, uint32_t index)
{
    return port == URO_PORT && index < URO_GID_TABLE;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
    if (uro_ibv_context_dead(context))
        return refuse(EIO);
    if (!slot_exists(port_num, (uint32_t)index))
        return refuse(EINVAL);
    *gid = gid_at(context, (uint32_t)index);
    return 0;
}

/* Describes a GID that is not empty. */
static struct ibv_gid_entry entry_at(struct ibv_context *context, uint32_t index)
{
    return (struct ibv_gid_entry){ .gid = gid_at(context, index),
                                   .gid_index = index,
                                   .port_num = URO_PORT,
                                   .gid_type = IBV_GID_TYPE_ROCE_V2,
                                   .ndev_ifindex = uro_netdev_index(config_of(context), index) };
}

/* Returns ENODATA for an empty entry, for which ibv_query_gid returns zeros. */
int uro_ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                         struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    if (uro_ibv_context_dead(context))
        return EIO;
    if (flags != 0 || entry_size < sizeof *entry || !slot_exists(port_num, gid_index))
        return EINVAL;
    if (gid_index >= config_of(context)->gid_count)
        return ENODATA;
    *entry = entry_at(context, gid_index);
    return 0;
}

ssize_t uro_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                size_t max_entries, uint32_t flags, size_t entry_size)
{
    uint32_t count = config_of(context)->gid_count;

    if (uro_ibv_context_dead(context))
        return -EIO;
    if (flags != 0 || entry_size < sizeof *entries || max_entries < count)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *slot = (uint8_t *)entries + i * entry_size;
        const struct ibv_gid_entry entry = entry_at(context, i);
        memset(slot, 0, entry_size);
        memcpy(slot, &entry, sizeof entry);
    }
    return (ssize_t)count;
}

/* Returns the kernel's number: 0 for InfiniBand or RoCE v1, 1 for RoCE v2. */
int uro_query_gid_type(void *context, uint8_t port, unsigned index, unsigned *type)
{
    (void)context;
    if (!slot_exists(port, index))
        return refuse(EINVAL);
    *type = 1;
    return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    uint8_t octets[2];

    if (uro_ibv_context_dead(context))
        return refuse(EIO);
    if (port_num != URO_PORT || index < 0 || index >= PKEYS)
        return refuse(EINVAL);
    uro_put_be16(octets, PKEY_DEFAULT);
    memcpy(pkey, octets, sizeof *pkey);
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
    __be16 here;

    for (int i = 0; i < PKEYS; i++)
        if (ibv_query_pkey(context, port_num, i, &here) == 0 && here == pkey)
            return i;
    return -1;
}

bool uro_ibv_address_valid(struct ibv_context *context, const struct ibv_ah_attr *attr)
{
    struct uro_gid dest;

    memcpy(dest.octets, attr->grh.dgid.raw, sizeof dest.octets);
    return attr->is_global && attr->port_num == URO_PORT &&
           attr->grh.sgid_index < config_of(context)->gid_count && !uro_gid_is_zero(&dest);
}
