/* SPDX-License-Identifier: BSD-3-Clause */
/* query.c - attributes of a device, its port and its tables. A query does not start the device. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/netdev.h"
#include "core/limits.h"
#include "stats/link_rate.h"
#include "verbs/card.h"
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

/* Called by ibv_query_gid_type(), which lib/abi/gen_symbols.py generates. */
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

static const struct uro_card *card_of(struct ibv_context *context)
{
    return &config_of(context)->card;
}

static bool lacks(struct ibv_context *context, enum uro_card_missing what)
{
    return card_of(context)->missing[what] != 0;
}

/* Returns the lower of the card's limit and @own. */
static int limit(struct ibv_context *context, enum uro_card_number number, uint32_t own)
{
    return (int)uro_card_limit(card_of(context), number, own);
}

/* Returns whether programs can have memory windows. A device with several engines has none, because
 * its engines would use a window without a common lock. */
static bool has_windows(struct ibv_context *context)
{
    return !lacks(context, URO_CARD_NO_MW) && uro_device_next_engine(uro_ibv_host(context)) == NULL;
}

/* Returns the flags that uroce supports, and with like= only those that the card supports, too. */
static unsigned cap_flags(struct ibv_context *context)
{
    const unsigned own =
        IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD |
        IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
        IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
        IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    unsigned flags =
        own & (unsigned)uro_card_value(card_of(context), URO_CARD_DEVICE_CAP_FLAGS, UINT32_MAX);

    if (lacks(context, URO_CARD_NO_XRC))
        flags &= ~(unsigned)IBV_DEVICE_XRC;
    if (!has_windows(context))
        flags &= ~(unsigned)(IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    if (lacks(context, URO_CARD_NO_SRQ))
        flags &= ~(unsigned)IBV_DEVICE_SRQ_RESIZE;
    return flags;
}

/* Returns the lower of the limits of elements for sends and for receives, as the kernel does. */
static int sge_max(struct ibv_context *context)
{
    const int sends = limit(context, URO_CARD_MAX_SEND_SGE, URO_SGE_MAX);
    const int receives = limit(context, URO_CARD_MAX_RECV_SGE, URO_SGE_MAX);

    return sends < receives ? sends : receives;
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
    const struct uro_card *card = card_of(context);
    const int qps = most(context, URO_QUOTA_QP);
    const int rd_atomic = limit(context, URO_CARD_MAX_QP_RD_ATOM, URO_RD_ATOMIC_MAX);
    const int groups = lacks(context, URO_CARD_NO_MULTICAST) ? 0 : groups_max(context);
    const int members =
        groups == 0 ? 0 : limit(context, URO_CARD_MAX_MCAST_QP_ATTACH, URO_MCAST_MEMBERS_MAX);
    const bool srq = !lacks(context, URO_CARD_NO_SRQ);

    *attr = (struct ibv_device_attr){
        .node_guid = ibv_get_device_guid(context->device),
        .sys_image_guid = ibv_get_device_guid(context->device),
        .max_mr_size = uro_card_value(card, URO_CARD_MAX_MR_SIZE, UINT64_MAX),
        .page_size_cap = uro_card_value(card, URO_CARD_PAGE_SIZE_CAP, PAGE_SIZES),
        .vendor_id = (uint32_t)uro_card_value(card, URO_CARD_VENDOR_ID, URO_VERBS_VENDOR_ID),
        .vendor_part_id = config_of(context)->vendor_part_id,
        .hw_ver = (uint32_t)uro_card_value(card, URO_CARD_HW_VER, 0),
        .max_qp = qps,
        .max_qp_wr = limit(context, URO_CARD_MAX_QP_WR, URO_WR_MAX),
        .device_cap_flags = cap_flags(context),
        .max_sge = sge_max(context),
        .max_sge_rd = limit(context, URO_CARD_MAX_SGE_RD, URO_SGE_MAX),
        .max_cq = most(context, URO_QUOTA_CQ),
        .max_cqe = limit(context, URO_CARD_MAX_CQE, URO_CQ_CAPACITY_MAX),
        .max_mr = most(context, URO_QUOTA_MR),
        .max_mw = !has_windows(context) ? 0 : most(context, URO_QUOTA_MW),
        .max_pd = most(context, URO_QUOTA_PD),
        .max_qp_rd_atom = rd_atomic,
        .max_res_rd_atom = limit(context, URO_CARD_MAX_RES_RD_ATOM, (uint32_t)(rd_atomic * qps)),
        .max_qp_init_rd_atom = limit(context, URO_CARD_MAX_QP_INIT_RD_ATOM, URO_RD_ATOMIC_MAX),
        .atomic_cap = lacks(context, URO_CARD_NO_ATOMICS) ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA,
        .max_ah = most(context, URO_QUOTA_AH),
        .max_srq = srq ? most(context, URO_QUOTA_SRQ) : 0,
        .max_srq_wr = srq ? limit(context, URO_CARD_MAX_SRQ_WR, URO_WR_MAX) : 0,
        .max_srq_sge = srq ? limit(context, URO_CARD_MAX_SRQ_SGE, URO_SGE_MAX) : 0,
        .max_mcast_grp = groups,
        .max_mcast_qp_attach = members,
        .max_total_mcast_qp_attach = groups * members,
        .max_pkeys = PKEYS,
        .local_ca_ack_delay = (uint8_t)uro_card_value(card, URO_CARD_ACK_DELAY, ACK_DELAY),
        .phys_port_cnt = URO_PORT,
    };
    (void)snprintf(attr->fw_ver, sizeof attr->fw_ver, "%s",
                   card->fw_ver[0] != '\0' ? card->fw_ver : URO_VERSION);
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
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    if (!lacks(context, URO_CARD_NO_FLUSH))
        all.device_cap_flags_ex |= CAP_FLUSH_GLOBAL;
    if (!lacks(context, URO_CARD_NO_ATOMIC_WRITE))
        all.device_cap_flags_ex |= CAP_ATOMIC_WRITE;
    if (lacks(context, URO_CARD_NO_ODP)) {
        all.odp_caps = (struct ibv_odp_caps){ 0 };
        all.xrc_odp_caps = 0;
    }
    if (lacks(context, URO_CARD_NO_DM))
        all.max_dm_size = 0;
    if (lacks(context, URO_CARD_NO_TIMESTAMPS)) {
        all.completion_timestamp_mask = 0;
        all.hca_core_clock = 0;
    }
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
    const uint64_t value = uro_device_counter(device, counter);

    return value < COUNTER_MAX ? (uint32_t)value : COUNTER_MAX;
}

/* Returns the length of the GID table. This is the card's length if all GIDs fit, otherwise uroce's
 * length. */
static uint32_t gid_table(const struct uro_device_config *config)
{
    const uint32_t own = config->card.roce_v1 ? URO_GID_TABLE * 2 : URO_GID_TABLE;
    const uint32_t length = (uint32_t)uro_card_value(&config->card, URO_CARD_GID_TBL_LEN, own);

    return length >= uro_gid_index_count(config) ? length : own;
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
        .gid_tbl_len = (int)gid_table(config_of(context)),
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = uro_card_most(device, URO_CARD_MAX_MSG_SZ, URO_MESSAGE_MAX),
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

    if (index < uro_gid_index_count(config))
        memcpy(gid.raw, config->gids[uro_gid_index_own(config, index)].octets, sizeof gid.raw);
    return gid;
}

static bool slot_exists(struct ibv_context *context, uint32_t port, uint32_t index)
{
    return port == URO_PORT && index < gid_table(config_of(context));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
    if (uro_ibv_context_dead(context))
        return refuse(EIO);
    if (!slot_exists(context, port_num, (uint32_t)index))
        return refuse(EINVAL);
    *gid = gid_at(context, (uint32_t)index);
    return 0;
}

/* Describes a GID that is not empty. */
static struct ibv_gid_entry entry_at(struct ibv_context *context, uint32_t index)
{
    const struct uro_device_config *config = config_of(context);

    return (struct ibv_gid_entry){ .gid = gid_at(context, index),
                                   .gid_index = index,
                                   .port_num = URO_PORT,
                                   .gid_type = uro_gid_index_is_v1(config, index)
                                                   ? IBV_GID_TYPE_ROCE_V1
                                                   : IBV_GID_TYPE_ROCE_V2,
                                   .ndev_ifindex =
                                       uro_netdev_index(config, uro_gid_index_own(config, index)) };
}

/* Returns ENODATA for an empty entry, for which ibv_query_gid returns zeros. */
int uro_ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                         struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    if (uro_ibv_context_dead(context))
        return EIO;
    if (flags != 0 || entry_size < sizeof *entry || !slot_exists(context, port_num, gid_index))
        return EINVAL;
    if (gid_index >= uro_gid_index_count(config_of(context)))
        return ENODATA;
    *entry = entry_at(context, gid_index);
    return 0;
}

ssize_t uro_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                size_t max_entries, uint32_t flags, size_t entry_size)
{
    uint32_t count = uro_gid_index_count(config_of(context));

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

/* Stores the kernel's number in *@type: 0 for InfiniBand or RoCE v1, 1 for RoCE v2. Returns 0, or
 * -1 with errno. */
int uro_query_gid_type(void *context, uint8_t port, unsigned index, unsigned *type)
{
    if (!slot_exists(context, port, index))
        return refuse(EINVAL);
    *type = uro_gid_index_is_v1(config_of(context), index) ? 0 : 1;
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

    const struct uro_device_config *config = config_of(context);

    memcpy(dest.octets, attr->grh.dgid.raw, sizeof dest.octets);
    return attr->is_global && attr->port_num == URO_PORT &&
           attr->grh.sgid_index < uro_gid_index_count(config) &&
           !uro_gid_index_is_v1(config, attr->grh.sgid_index) && !uro_gid_is_zero(&dest);
}
