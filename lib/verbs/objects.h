/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.h - what stands behind each struct ibv_*: our part after the part programs may read.
 *
 * Locks, outermost first:
 *     CQ batch          iterating over an extended CQ; the program calls us while it is held
 *     XRC domains       which inodes have one (xrcd.c)
 *     context           which objects a context still has
 *     QP send           posting; also held by modify and destroy, and between ibv_wr_start() and its
 *                       end, while the program calls us
 *     engine            uro_device_lock(): registering, creating, modifying, destroying
 *     QP receive        posting; taken under the engine by modify and destroy
 *     SRQ               posting; taken under the engine by resize
 *     CQ                polling; taken under the engine by modify to RESET, destroy and resize
 *     context list      which contexts a port event goes to
 *     event queue       (events.h)
 *     PD list, DM list  which there are; pd.c, dm.c
 * Nothing is posted or polled under the engine lock, and nobody waits under any but the first
 * and the QP's send lock.
 */
#pragma once

#include <infiniband/verbs.h>

#include "core/key.h"
#include "core/path.h"
#include "core/qp.h"
#include "core/rq.h"
#include "host/host.h"
#include "verbs/errors.h"
#include "verbs/events.h"

/* verbs.h makes these macros for callers. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define URO_PORT            1u /* the only port of a device */
#define URO_GID_TABLE       URO_ENGINE_ADDRESSES_MAX
#define URO_COMP_VECTORS    1         /* one engine */
#define URO_VERBS_VENDOR_ID 0x75726fu /* "uro": the group bit is set, so nobody can own it */

/* struct ibv_device as libmlx5 and libefa look at it: they read `ops`, the word behind the public
 * part, to see whether a device is theirs. The rest keeps the size programs may copy. */
struct uro_ibv_device {
    struct ibv_device ibv;
    const void *ops; /* of our own kind: equal to no provider's */
    int reference_count;
    void *list[2];
    void *sysfs;
    uint64_t core_support;
    struct uro_device *host;
    struct uro_ibv_device *next; /* next device that was ever listed */
    struct uro_list contexts;    /* open contexts, protected by the context list lock */
    atomic_size_t dm_used;       /* bytes of device memory in use */
};

/* Memory goes when it is closed and the last object made from it is gone. */
struct uro_ibv_context {
    struct verbs_context verbs;
    struct uro_device *device;
    struct uro_link link; /* in uro_ibv_device.contexts */
    struct uro_event_queue events;
    struct uro_event_node port_active;
    struct uro_event_node port_err;
    struct uro_event_node device_fatal;
    pthread_mutex_t lock; /* all below */
    struct uro_list objects;
    struct uro_list blocks; /* of memory regions, that have free places; regions.c */
    struct uro_list full_blocks;
    uint32_t regions;    /* in both */
    uint32_t references; /* one while open, one per object */
    bool kept;           /* uro_ibv_keep_context() */
    uint64_t inode;      /* of cmd_fd: contexts with the same one share their objects */
};

/* The first field of the private part of each object of a context. */
struct uro_object {
    struct uro_link link; /* in uro_ibv_context.objects */
    struct uro_ibv_context *context;
    /* Takes the object and its events out of the engine; NULL when it is not in there. */
    void (*detach)(struct uro_object *object);
    struct uro_device *device;  /* it was made on; dead in a forked child: host/fork.h */
    struct uro_device *charged; /* where it counts, or NULL */
    enum uro_quota quota;
    bool detached;
};

/* ibv.handle is the number that keys and queue pairs have; a parent domain has that of its base. */
struct uro_ibv_pd {
    struct ibv_pd ibv;
    struct uro_object object;
    atomic_uint users;       /* what was made of it */
    bool kept;               /* uro_ibv_keep_pd() */
    struct uro_link link;    /* among all, pd.c */
    struct uro_ibv_pd *base; /* of a parent domain */
    struct uro_ibv_td *td;   /* of a parent domain, or NULL */
};

struct uro_ibv_td {
    struct ibv_td ibv;
    struct uro_object object;
    atomic_uint users; /* parent domains */
};

struct uro_ibv_dm {
    struct ibv_dm ibv;
    struct uro_object object;
    struct uro_ibv_dm *origin; /* itself unless imported */

    /* Valid in an origin: */
    struct uro_ibv_device *device;
    uint64_t inode; /* of the context it was allocated with */
    uint8_t *octets;
    size_t length;
    atomic_uint users;    /* MRs */
    struct uro_link link; /* among all; dm.c, under its lock */
    uint32_t handles;     /* itself and those imported from it; under the same lock */
};

/* Programs have many: it is no struct uro_object, but in a block of its context, regions.c. */
struct uro_ibv_mr {
    struct ibv_mr ibv;
    union {
        struct uro_key key;        /* of an origin; under the engine lock */
        struct uro_ibv_mr *origin; /* of an imported handle */
    };
    uint32_t dm; /* of an origin: number of the device memory it is in, or 0 */
    uint16_t
        handles; /* of an origin: itself and those imported from it, under the engine lock; 0: imported */
    uint8_t place; /* in the block */
    bool attached; /* its context has it, and it is counted; under the context lock */
};

static_assert(sizeof(struct uro_ibv_mr) == 120,
              "with its share of a block it takes less than 128 octets");

struct uro_ibv_channel {
    struct ibv_comp_channel ibv;
    struct uro_object object;
    struct uro_event_queue events;
    atomic_uint users; /* CQs */
};

/* Plain or extended: ibv_cq_ex_to_cq() is a cast. */
struct uro_ibv_cq {
    union {
        struct ibv_cq ibv;
        struct ibv_cq_ex ex;
    };
    struct uro_object object;
    struct uro_cq *core;
    void *ring;              /* of a resized one; else in core's memory, and NULL here */
    pthread_spinlock_t lock; /* the reader's */
    atomic_uint users; /* a QP counts twice when it uses the CQ for both directions; XRC SRQs */
    struct uro_event_node completion;
    struct uro_event_node error;
    /* Valid in an extended CQ, cq_ex.c: */
    struct uro_ibv_pd *parent; /* domain, or NULL */
    pthread_mutex_t batch;     /* ibv_start_poll to ibv_end_poll */
    bool single_threaded;      /* as the program promised: the above is not needed */
    bool ran_dry;              /* this batch has nothing after `current`, it was told */
    struct uro_cqe current;
    uint64_t wall_offset; /* of uro_host_wall_time() */
};

struct uro_ibv_xrcd {
    struct ibv_xrcd ibv;
    struct uro_object object;
    struct uro_ibv_domain *domain; /* the same for all that opened one inode; xrcd.h */
    atomic_uint users;             /* SRQs and QPs */
};

struct uro_ibv_srq {
    struct ibv_srq ibv;
    struct uro_object object;
    struct uro_srq core;
    void *slots;
    pthread_spinlock_t lock;   /* the poster's */
    struct uro_ibv_xrcd *xrcd; /* NULL: basic, as is cq */
    struct uro_ibv_cq *cq;
    atomic_uint users; /* QPs */
    struct uro_event_node limit;
};

#define URO_QP_EVENTS 6u /* URO_EVENT_QP_FATAL .. URO_EVENT_LAST_WQE */

/* The requests that ibv_wr_*() has built since ibv_wr_start(); post_ex.c, under the send lock. */
struct uro_wr_batch {
    struct uro_wqe *wqe; /* the newest request, to which setters apply; NULL: none */
    uint32_t count;
    unsigned takes;           /* TAKES_* that the newest may or must still get */
    int error;                /* the first */
    _Atomic pthread_t thread; /* that builds it; 0: nobody does */
};

#define URO_QP_EX_OLD_SIZE                                                                         \
    (offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(((struct ibv_qp_ex *)0)->wr_atomic_write))

/* A queue pair of the engine and what its handles share. All have one handle, but ibv_open_qp()
 * makes further ones of type XRC_RECV; the last one to go takes it along. */
struct uro_ibv_pair {
    struct uro_qp *core;
    struct uro_list handles;    /* engine lock; empty when it is out of the engine */
    struct uro_link link;       /* of an XRC_RECV in its domain, engine lock */
    struct ibv_ah_attr address; /* as it was set, for ibv_query_qp; engine lock */
    void *answers;              /* lent to core, answers_size octets; engine lock */
    size_t answers_size;
    atomic_uint references; /* handles that were not destroyed yet */
};

struct uro_ibv_qp {
    struct uro_object object;
    enum uro_qp_type type;
    struct uro_ibv_pair *pair;
    struct uro_link handle; /* in uro_ibv_pair.handles */
    struct uro_qp *core;    /* the pair's */
    struct uro_shard *shard;
    uint32_t message_max; /* octets of a send: of UD the port's largest active MTU */
    struct uro_wq *send;
    struct uro_wq *recv;
    pthread_spinlock_t send_lock;
    pthread_spinlock_t recv_lock;
    bool signal_all;
    bool extended; /* created for ibv_wr_*() */
    struct ibv_qp_cap cap;
    struct uro_ibv_xrcd *xrcd;              /* of XRC_RECV */
    struct uro_ibv_membership *memberships; /* of multicast groups; mcast.c */
    struct uro_event_node events[URO_QP_EVENTS];
    union { /* all behind ibv is there only when it is extended */
        struct ibv_qp ibv;
        struct ibv_qp_ex ex;
        struct { /* as headers newer than rdma-core 44 go on */
            uint8_t old[URO_QP_EX_OLD_SIZE];
            void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                             size_t length, uint8_t type, uint8_t level);
        } newer;
    };
    struct uro_wr_batch batch;
};

struct uro_ibv_ah {
    struct ibv_ah ibv;
    struct uro_object object;
    struct uro_ah core;
};

#define URO_IBV_CAST(name)                                                                         \
    static inline struct uro_ibv_##name *uro_ibv_##name(struct ibv_##name *ibv)                    \
    {                                                                                              \
        return URO_CONTAINER_OF(ibv, struct uro_ibv_##name, ibv);                                  \
    }
URO_IBV_CAST(device)
URO_IBV_CAST(pd)
URO_IBV_CAST(td)
URO_IBV_CAST(dm)
URO_IBV_CAST(mr)
URO_IBV_CAST(cq)
URO_IBV_CAST(qp)
URO_IBV_CAST(srq)
URO_IBV_CAST(xrcd)
URO_IBV_CAST(ah)

static inline struct uro_ibv_context *uro_ibv_context(struct ibv_context *ibv)
{
    return URO_CONTAINER_OF(ibv, struct uro_ibv_context, verbs.context);
}

static inline struct uro_ibv_channel *uro_ibv_channel(struct ibv_comp_channel *ibv)
{
    return URO_CONTAINER_OF(ibv, struct uro_ibv_channel, ibv);
}

static inline struct uro_device *uro_ibv_host(struct ibv_context *ibv)
{
    return uro_ibv_context(ibv)->device;
}

/* context.c */

/* Opens the device; the context owns @cmd_fd when it could be. NULL with errno. */
struct ibv_context *uro_ibv_context_open(struct ibv_device *device, int cmd_fd);

/* Zeroed memory for an object of @context, or NULL with errno ENOMEM, or EIO when the device is
 * dead. */
void *uro_ibv_new(struct ibv_context *context, size_t size);
void *uro_ibv_new_aligned(struct ibv_context *context, size_t size, size_t alignment);

/* The object is the parent's, and this is a forked child: it can only be freed. */
static inline bool uro_object_dead(const struct uro_object *object)
{
    return uro_device_dead(object->device);
}

static inline bool uro_ibv_context_dead(struct ibv_context *context)
{
    return uro_device_dead(uro_ibv_host(context));
}

void uro_ibv_context_lock(struct uro_ibv_context *context);
void uro_ibv_context_unlock(struct uro_ibv_context *context);
/* Gives up a reference, and the lock, which is held. */
void uro_ibv_context_release(struct uro_ibv_context *context);

/* Starts the engine when it does not run yet; false with errno set when it cannot. */
URO_NODISCARD bool uro_ibv_start(struct ibv_context *context);
/* Starts the engine for an object of the PD, as uro_ibv_start(). errno is EIO if the PD is dead. */
URO_NODISCARD bool uro_ibv_start_for(struct ibv_pd *pd);

/* Counts the object as one of those that the device may have so many of; false with errno ENOMEM
 * when it has them. Given back when the object is detached, or by uro_object_refund() before. */
URO_NODISCARD bool uro_object_charge(struct uro_object *object, struct ibv_context *context,
                                     enum uro_quota quota);
void uro_object_refund(struct uro_object *object);

/* The object now belongs to @context, which lives at least as long. */
void uro_object_add(struct uro_object *object, struct ibv_context *context,
                    void (*detach)(struct uro_object *object));

/* Takes the object out of its context and the engine. False when there is nothing left to take
 * it out of: the context was closed before, or the object is dead. */
bool uro_object_detach(struct uro_object *object);

/* Forgets the detached object: its context may be gone afterwards. */
void uro_object_drop(struct uro_object *object);

static inline void uro_object_remove(struct uro_object *object)
{
    (void)uro_object_detach(object);
    uro_object_drop(object);
}

/* device.c */

/* Both directions of "which of our devices": installs the event sink too. */
struct uro_ibv_device *uro_ibv_device_of(const struct uro_device *device);

/* Held while the list of a device's open contexts is read or changed. */
void uro_ibv_contexts_lock(void);
void uro_ibv_contexts_unlock(void);

/* engine_events.c: puts engine and port events into the queues. */
extern const struct uro_event_handlers uro_ibv_event_handlers;

/* cq.c: both kinds; of @attr what both have. NULL with errno EINVAL, ENOMEM or why the device does
 * not start. */
struct uro_ibv_cq *uro_ibv_cq_create(struct ibv_context *context,
                                     const struct ibv_cq_init_attr_ex *attr);

/* qp.c: entries of verbs_context */
struct ibv_qp *uro_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *uro_ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* srq.c: entries of verbs_context and ibv_context.ops */
struct ibv_srq *uro_ibv_create_srq_ex(struct ibv_context *context,
                                      struct ibv_srq_init_attr_ex *attr);
int uro_ibv_get_srq_num(struct ibv_srq *srq, uint32_t *number);

/* xrcd.c: entries of verbs_context */
struct ibv_xrcd *uro_ibv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int uro_ibv_close_xrcd(struct ibv_xrcd *xrcd);

/* qp_attr.c */

/* Stops the engine and whoever posts to the QP or polls its CQs. */
void uro_ibv_qp_lock(struct uro_ibv_qp *qp);
void uro_ibv_qp_unlock(struct uro_ibv_qp *qp);

void uro_ibv_address(const struct ibv_ah_attr *ah, struct uro_address *address);

/* qp.c: an entry of verbs_context */
struct ibv_qp *uro_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* pd.c: entries of verbs_context */
struct ibv_td *uro_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int uro_ibv_dealloc_td(struct ibv_td *td);
struct ibv_pd *uro_ibv_alloc_parent_domain(struct ibv_context *context,
                                           struct ibv_parent_domain_init_attr *attr);

/* regions.c */

/* Zeroed memory for a region of the context, which stays until it is freed. NULL with errno ENOMEM,
 * or EIO when the device is dead. */
struct uro_ibv_mr *uro_region_new(struct ibv_context *context);
void uro_region_free(struct uro_ibv_mr *mr);
struct uro_ibv_context *uro_region_context(const struct uro_ibv_mr *mr);
/* The region now belongs to its context: it is detached when the context is closed before. */
void uro_region_attach(struct uro_ibv_mr *mr);
/* As uro_object_dead(). */
bool uro_region_dead(const struct uro_ibv_mr *mr);
/* The device that it was registered with. */
struct uro_device *uro_region_device(const struct uro_ibv_mr *mr);
/* False when its context was closed before, or the region is dead. */
bool uro_region_detach(struct uro_ibv_mr *mr);
/* Context locked: it is closed. */
void uro_regions_detach(struct uro_ibv_context *context);

/* mr.c */

/* Takes what the program left out of the engine. */
void uro_ibv_mr_detach(struct uro_ibv_mr *mr);

/* Registers what @key describes. NULL with errno. */
struct ibv_mr *uro_ibv_mr_register(struct ibv_pd *pd, const struct uro_key *key, void *addr);
/* Another handle of the region @number of the PD's domain; NULL with errno ENOENT, ENOMEM, EIO. */
struct ibv_mr *uro_ibv_mr_import(struct ibv_pd *pd, uint32_t number);
/* Removes a handle. The key is removed with its last handle. */
void uro_ibv_mr_drop(struct uro_ibv_mr *mr);
/* 0, or the errno why nothing can be registered with these rights. */
int uro_ibv_access_refusal(unsigned access);
struct ibv_mr *uro_ibv_alloc_null_mr(struct ibv_pd *pd); /* an entry of verbs_context */

/* mw.c: entries of ibv_context.ops */
struct ibv_mw *uro_ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int uro_ibv_dealloc_mw(struct ibv_mw *mw);
int uro_ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* advise.c: an entry of verbs_context */
int uro_ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                      struct ibv_sge *list, uint32_t count);

/* dm.c */
#define URO_DM_MAX ((size_t)64 * 1024 * 1024) /* octets of a device's memory */
struct ibv_dm *uro_ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int uro_ibv_free_dm(struct ibv_dm *dm);
/* A region in the device memory of that number is no more. */
void uro_ibv_dm_leave(uint32_t handle);
struct ibv_mr *uro_ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
                                 size_t length, unsigned access);

/* mcast.c: engine locked; out of all multicast groups. */
void uro_ibv_qp_leave_all(struct uro_ibv_qp *qp);

/* query.c */
int uro_ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                       size_t size);
int uro_ibv_query_device_ex(struct ibv_context *context,
                            const struct ibv_query_device_ex_input *input,
                            struct ibv_device_attr_ex *attr, size_t size);
int uro_ibv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
/* True when @attr names a destination that RoCE can reach from a port of ours. */
bool uro_ibv_address_valid(struct ibv_context *context, const struct ibv_ah_attr *attr);

/* cq_ex.c: an entry of verbs_context */
struct ibv_cq_ex *uro_ibv_create_cq_ex(struct ibv_context *context,
                                       struct ibv_cq_init_attr_ex *attr);

/* post_list.c, poll.c: entries of ibv_context.ops */
int uro_ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int uro_ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int uro_ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int uro_ibv_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
int uro_ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
