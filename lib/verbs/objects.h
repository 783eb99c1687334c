/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.h - the private part of each object, behind the struct ibv_* that programs may read.
 *
 * Locks, outermost first:
 *     CQ batch          iterating over an extended CQ; the program may make other calls meanwhile
 *     XRC domains       list of domains and their inodes (xrcd.c)
 *     context           list of the objects of a context
 *     QP send           posting; also held by modify and destroy, and from ibv_wr_start() to
 *                       ibv_wr_complete(), while the program makes calls
 *     engine            uro_device_lock(): registering, creating, modifying, destroying
 *     QP receive        posting; taken under the engine lock by modify and destroy
 *     SRQ               posting; taken under the engine lock by resize
 *     CQ                polling, arming; taken under the engine lock by modify, destroy and resize
 *     context list      list of the contexts that get a port event
 *     event queue       (events.h)
 *     PD list, DM list  lists of pd.c and dm.c
 * No thread posts or polls under the engine lock. No thread waits for an event under a lock other
 * than the CQ batch and the QP send lock.
 */
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include "core/key.h"
#include "core/path.h"
#include "core/qp.h"
#include "core/rq.h"
#include "host/host.h"
#include "verbs/errors.h"
#include "verbs/events.h"

/* verbs.h has macros of these names. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define URO_PORT      1u /* the only port of a device */
#define URO_GID_TABLE URO_ENGINE_ADDRESSES_MAX
/* "uro" in ASCII: no vendor has this ID, because its group bit is set. */
#define URO_VERBS_VENDOR_ID 0x75726fu

/* The layout of rdma-core's private device struct. libmlx5 and libefa recognize their devices by
 * `ops`. The members after `ops` keep the size that programs may copy. */
struct uro_ibv_device {
    struct ibv_device ibv;
    const void *ops; /* differs from the operations of all providers */
    int reference_count;
    void *list[2];
    void *sysfs;
    uint64_t core_support;
    struct uro_device *host;
    struct uro_ibv_device *next; /* next device in the list of all devices that were ever listed */
    struct uro_list contexts;    /* open contexts, protected by the context list lock */
    atomic_size_t dm_used;       /* bytes of device memory in use */
};

/* A context is freed when the program has closed it and destroyed its last object. */
struct uro_ibv_context {
    struct verbs_context verbs;
    struct uro_device *device;
    struct uro_link link; /* in uro_ibv_device.contexts */
    struct uro_event_queue events;
    struct uro_event_node port_active;
    struct uro_event_node port_err;
    struct uro_event_node speed_change;
    struct uro_event_node gid_change;
    struct uro_event_node device_fatal;
    pthread_mutex_t lock; /* protects the members below */
    struct uro_list objects;
    struct uro_list blocks;      /* blocks of memory regions with a free slot; regions.c */
    struct uro_list full_blocks; /* blocks without a free slot */
    uint32_t regions;            /* number of regions in all blocks */
    uint32_t references;         /* 1 while open, plus 1 for each object and region */
    bool kept;                   /* set by uro_ibv_keep_context() */
    uint64_t inode; /* inode of cmd_fd: contexts with the same inode share their objects */
};

/* First member of the private part of every object. */
struct uro_object {
    struct uro_link link; /* in uro_ibv_context.objects */
    struct uro_ibv_context *context;
    /* Removes the object and its events from the engine; NULL: the engine does not have it. */
    void (*detach)(struct uro_object *object);
    struct uro_device *device;  /* engine (SRQ: the first); dead in a forked child: host/fork.h */
    struct uro_device *charged; /* device whose quota the object uses, or NULL */
    enum uro_quota quota;
    bool detached;
};

/* ibv.handle is the number by which keys and queue pairs refer to the PD. A parent domain has the
 * number of its base. */
struct uro_ibv_pd {
    struct ibv_pd ibv;
    struct uro_object object;
    atomic_uint users;       /* number of objects that use this handle */
    bool kept;               /* set by uro_ibv_keep_pd() */
    struct uro_link link;    /* in the list of pd.c */
    struct uro_ibv_pd *base; /* base of a parent domain, else NULL */
    struct uro_ibv_td *td;   /* thread domain of a parent domain, or NULL */
};

struct uro_ibv_td {
    struct ibv_td ibv;
    struct uro_object object;
    atomic_uint users; /* number of parent domains */
};

struct uro_ibv_dm {
    struct ibv_dm ibv;
    struct uro_object object;
    struct uro_ibv_dm *origin; /* handle that allocated the memory: itself, unless imported */

    /* Members of an origin. */
    struct uro_ibv_device *device;
    uint64_t inode; /* inode of the context that allocated it */
    uint8_t *octets;
    size_t length;
    atomic_uint users;    /* number of MRs */
    struct uro_link link; /* in the list of dm.c, under its lock */
    uint32_t handles;     /* number of handles, with the origin; dm.c, under its lock */
};

/* An MR has no struct uro_object, to save memory. It is part of a block of its context, see
 * regions.c. */
struct uro_ibv_mr {
    struct ibv_mr ibv;
    union {
        struct uro_key key;        /* key of an origin; under the engine lock */
        struct uro_ibv_mr *origin; /* origin of an imported handle */
    };
    uint32_t dm;      /* origin: number of its device memory, or 0 */
    uint16_t handles; /* origin: number of handles, with itself; 0: imported. Engine lock */
    uint8_t slot;     /* index in the block */
    bool attached;    /* the context has the region, and quotas count it. Context lock */
};

static_assert(sizeof(struct uro_ibv_mr) == 120,
              "with its part of a block, a region takes less than 128 bytes");

struct uro_ibv_channel {
    struct ibv_comp_channel ibv;
    atomic_bool blocks;      /* the program waits in ibv_get_cq_event(), not in poll() or epoll */
    atomic_uint found_ready; /* calls in a row that found an event at once */
    struct uro_object object;
    struct uro_event_queue events;
    atomic_uint users; /* number of CQs */
};

/* A plain or an extended CQ: ibv_cq_ex_to_cq() is a cast. */
struct uro_ibv_cq {
    union {
        struct ibv_cq ibv;
        struct ibv_cq_ex ex;
    };
    struct uro_object object;
    struct uro_cq *core;
    struct uro_cq_parts *parts; /* parts on other engines; NULL: the device has one engine */
    void *ring;                 /* ring of a resized CQ; NULL: the ring is in core's memory */
    pthread_spinlock_t lock;    /* held while polling */
    /* Number of XRC SRQs and QPs; a QP counts twice if both its queues use the CQ. */
    atomic_uint users;
    struct uro_event_node completion;
    struct uro_event_node error;
    /* Members of an extended CQ, cq_ex.c. */
    struct uro_ibv_pd *parent; /* parent domain, or NULL */
    pthread_mutex_t batch;     /* held from ibv_start_poll to ibv_end_poll */
    bool single_threaded;      /* the program polls from one thread only: `batch` is not used */
    bool batch_ended;          /* ibv_next_poll has reported that this batch is at its end */
    struct uro_cqe current;
    uint64_t wall_offset; /* state of uro_host_wall_time() */
};

/* An XRC domain. Handles that were opened with the same inode share it. */
struct uro_ibv_domain {
    struct uro_link link; /* in the list of xrcd.c */
    const struct uro_device *device;
    int inode; /* descriptor that keeps the inode from being reused; -1: the domain has no inode */
    dev_t inode_device;
    ino_t inode_number;
    uint32_t number;         /* never 0, never reused; core/rq.h */
    uint32_t references;     /* number of handles */
    struct uro_list targets; /* struct uro_ibv_shared_qp of type XRC_RECV; engine lock */
};

struct uro_ibv_xrcd {
    struct ibv_xrcd ibv;
    struct uro_object object;
    struct uro_ibv_domain *domain;
    atomic_uint users; /* number of SRQs and QPs */
};

struct uro_ibv_srq {
    struct ibv_srq ibv;
    struct uro_object object;
    struct uro_srq core;
    void *slots;
    pthread_spinlock_t lock;           /* held while posting */
    struct uro_ibv_xrcd *xrcd;         /* XRC domain; NULL: a basic SRQ */
    struct uro_ibv_cq *cq;             /* CQ of an XRC SRQ; NULL: a basic SRQ */
    struct uro_device *_Atomic engine; /* srq.c */
    bool placed;                       /* the SRQ has its final engine. Context lock */
    atomic_uint users;                 /* number of QPs */
    struct uro_event_node limit;
};

#define URO_QP_EVENTS 6u /* URO_EVENT_QP_FATAL .. URO_EVENT_LAST_WQE */

/* The requests that ibv_wr_*() has built since ibv_wr_start(); post_ex.c, under the send lock. */
struct uro_wr_batch {
    struct uro_wqe *wqe; /* newest request, to which setters apply; NULL: none */
    uint32_t count;
    unsigned missing;         /* setters that the newest request needs: set of MISSING_* */
    int error;                /* first error, or 0 */
    unsigned mistake;         /* enum uro_wr_mistake of refusal.h: the cause of `error` */
    _Atomic pthread_t thread; /* thread that builds the batch; 0: none */
};

#define URO_QP_EX_OLD_SIZE                                                                         \
    (offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(((struct ibv_qp_ex *)0)->wr_atomic_write))

/* A queue pair of the engine, and the state that its handles share. Only a queue pair of type
 * XRC_RECV may have several handles, from ibv_open_qp(). The last one destroys the queue pair. */
struct uro_ibv_shared_qp {
    struct uro_qp *core;
    struct uro_list handles;    /* empty: the engine has destroyed the queue pair. Engine lock */
    struct uro_link link;       /* XRC_RECV: in the list of its domain. Engine lock */
    struct ibv_ah_attr address; /* address that ibv_modify_qp set, for ibv_query_qp. Engine lock */
    void *resources;            /* responder resources, lent to core. Engine lock */
    size_t resources_size;      /* bytes. Engine lock */
    atomic_uint references;     /* handles that the program has not destroyed */
};

struct uro_ibv_qp {
    struct uro_object object;
    enum uro_qp_type type;
    struct uro_ibv_shared_qp *shared;
    struct uro_link handle; /* in uro_ibv_shared_qp.handles */
    struct uro_qp *core;    /* copy of shared->core */
    struct uro_shard *shard;
    uint32_t message_max; /* bytes of a message; UD: the largest active MTU of the port */
    struct uro_wq *send;
    struct uro_wq *recv;
    pthread_spinlock_t send_lock;
    pthread_spinlock_t recv_lock;
    bool signal_all;
    bool extended; /* created for ibv_wr_*() */
    struct ibv_qp_cap cap;
    struct uro_ibv_xrcd *xrcd;              /* domain of an XRC_RECV */
    struct uro_ibv_membership *memberships; /* in multicast groups; mcast.c */
    struct uro_event_node events[URO_QP_EVENTS];
    union { /* the members after `ibv` are valid only if the queue pair is extended */
        struct ibv_qp ibv;
        struct ibv_qp_ex ex;
        struct { /* layout in headers newer than rdma-core 44 */
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
    uint32_t engines;
    struct uro_ah core[]; /* the address handle in each engine */
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

/* Returns whether the program runs the engine when it waits for an event of the channel. */
bool uro_ibv_channel_waits_here(const struct uro_ibv_channel *channel,
                                const struct uro_device *device);

static inline struct uro_device *uro_ibv_host(struct ibv_context *ibv)
{
    return uro_ibv_context(ibv)->device;
}

/* context.c */

/* Opens the device. The context then owns @cmd_fd. Returns NULL with errno on failure. */
struct ibv_context *uro_ibv_context_open(struct ibv_device *device, int cmd_fd);

/* Allocates zeroed memory for an object of @context. Returns NULL with errno ENOMEM, or EIO if the
 * device is dead. */
void *uro_ibv_new(struct ibv_context *context, size_t size);
void *uro_ibv_new_aligned(struct ibv_context *context, size_t size, size_t alignment);

/* Returns whether the object belongs to the parent process of this forked child, or to a removed
 * device: it can only be freed. */
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
/* Drops a reference, and releases the lock that the caller holds. */
void uro_ibv_context_release(struct uro_ibv_context *context);

/* Starts the engine unless it runs. Returns false with errno on failure. */
URO_NODISCARD bool uro_ibv_start(struct ibv_context *context);
/* Starts the engine for a new object of the PD. errno is EIO if the PD is dead. */
URO_NODISCARD bool uro_ibv_start_for(struct ibv_pd *pd);

/* Charges the object to a quota. Returns false with errno ENOMEM if the quota is reached. The
 * charge ends when the object is detached, or earlier with uro_object_refund(). */
URO_NODISCARD bool uro_object_charge(struct uro_object *object, struct ibv_context *context,
                                     enum uro_quota quota);
void uro_object_refund(struct uro_object *object);

/* Add the object, on the first engine or on @engine, to @context. The context is not freed before
 * the object. */
void uro_object_add(struct uro_object *object, struct ibv_context *context,
                    void (*detach)(struct uro_object *object));
void uro_object_add_on(struct uro_object *object, struct ibv_context *context,
                       struct uro_device *engine, void (*detach)(struct uro_object *object));

/* Removes the object from its context and the engine. Returns false if the context was closed
 * before, or if the object is dead. */
bool uro_object_detach(struct uro_object *object);

/* Drops the reference of a detached object to its context. This may free the context. */
void uro_object_drop(struct uro_object *object);

static inline void uro_object_remove(struct uro_object *object)
{
    (void)uro_object_detach(object);
    uro_object_drop(object);
}

/* device.c */

/* Returns the verbs device of @device, or NULL. */
struct uro_ibv_device *uro_ibv_device_of(const struct uro_device *device);

/* Held while the list of a device's open contexts is read or changed. */
void uro_ibv_contexts_lock(void);
void uro_ibv_contexts_unlock(void);

/* Installs a function that gets the return address of each call of ibv_get_sysfs_path() and
 * ibv_get_device_list(). librdmacm calls them before it opens its own device, which shows where it
 * is loaded. Called once, before any of these calls. */
void uro_ibv_set_call_observer(void (*observer)(const void *caller));
/* Reports such a call. */
void uro_ibv_report_call(const void *caller);

/* engine_events.c: queue the events of engines and ports for the program. */
extern const struct uro_event_handlers uro_ibv_event_handlers;

/* cq.c: creates a plain or extended CQ. Returns NULL with errno. */
struct uro_ibv_cq *uro_ibv_cq_create(struct ibv_context *context,
                                     const struct ibv_cq_init_attr_ex *attr);

/* qp.c */
struct ibv_qp *uro_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *uro_ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* srq.c; uro_ibv_srq_engine(): engine of a new queue pair whose CQ is on @wanted */
struct ibv_srq *uro_ibv_create_srq_ex(struct ibv_context *context,
                                      struct ibv_srq_init_attr_ex *attr);
int uro_ibv_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct uro_device *uro_ibv_srq_engine(struct uro_ibv_srq *srq, struct uro_device *wanted);

struct ibv_xrcd *uro_ibv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int uro_ibv_close_xrcd(struct ibv_xrcd *xrcd);

/* qp_attr.c */

/* Takes the locks of the engine, of the QP and of its CQs. */
void uro_ibv_qp_lock(struct uro_ibv_qp *qp);
void uro_ibv_qp_unlock(struct uro_ibv_qp *qp);

void uro_ibv_address(const struct uro_device *device, const struct ibv_ah_attr *ah,
                     struct uro_address *address);

/* pd.c: entries of verbs_context */
struct ibv_td *uro_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int uro_ibv_dealloc_td(struct ibv_td *td);
struct ibv_pd *uro_ibv_alloc_parent_domain(struct ibv_context *context,
                                           struct ibv_parent_domain_init_attr *attr);

/* memory.c */

/* Checks that the process may read (and, with @write, write) all of a range. From Linux 5.14 on,
 * the pages are then present. Returns false with errno otherwise:
 *   EFAULT  a part is not mapped, not with these rights, past the end of a file, or of a device
 *   ENOMEM  the system has no memory for the pages
 * Never changes the content of the memory. */
bool uro_memory_usable(const uint8_t *memory, uint64_t length, bool write);

/* regions.c */

/* Allocates a zeroed region of the context, which is not freed before the region. Returns NULL with
 * errno ENOMEM, or EIO if the device is dead. */
struct uro_ibv_mr *uro_region_new(struct ibv_context *context);
void uro_region_free(struct uro_ibv_mr *mr);
struct uro_ibv_context *uro_region_context(const struct uro_ibv_mr *mr);
/* Adds the region to its context. Closing the context then detaches the region. */
void uro_region_attach(struct uro_ibv_mr *mr);
/* Returns whether the region can only be freed; see uro_object_dead(). */
bool uro_region_dead(const struct uro_ibv_mr *mr);
/* Returns the device that the region is registered with. */
struct uro_device *uro_region_device(const struct uro_ibv_mr *mr);
/* Removes the region from its context. Returns false if the context was closed before, or if the
 * region is dead. */
bool uro_region_detach(struct uro_ibv_mr *mr);
/* Detaches all regions of a context that is being closed. Context lock held. */
void uro_regions_detach(struct uro_ibv_context *context);

/* mr.c */

/* Removes from the engine a region that the program did not deregister. */
void uro_ibv_mr_detach(struct uro_ibv_mr *mr);

/* Registers the memory that @key describes. Returns NULL with errno on failure. */
struct ibv_mr *uro_ibv_mr_register(struct ibv_pd *pd, const struct uro_key *key, void *addr);
/* Creates another handle of the region @number of the PD. Returns NULL with errno on failure:
 * ENOENT if the PD has no such region. */
struct ibv_mr *uro_ibv_mr_import(struct ibv_pd *pd, uint32_t number);
/* Frees a handle. The key is removed with its last handle. */
void uro_ibv_mr_drop(struct uro_ibv_mr *mr);
/* Returns 0, or the error number if memory cannot be registered with these rights. */
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
#define URO_DM_MAX           ((size_t)64 * 1024 * 1024) /* bytes of device memory of a device */
#define URO_DM_LOG_ALIGN_MAX 21u /* log2 of the largest alignment, which is 2 MiB */
struct ibv_dm *uro_ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int uro_ibv_free_dm(struct ibv_dm *dm);
/* Records that a region in the device memory with the number @handle was deregistered. */
void uro_ibv_dm_leave(uint32_t handle);
struct ibv_mr *uro_ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
                                 size_t length, unsigned access);

/* mcast.c: detaches the QP from all multicast groups. Engine lock held. */
void uro_ibv_qp_leave_all(struct uro_ibv_qp *qp);

/* query.c */
int uro_ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                       size_t size);
int uro_ibv_query_device_ex(struct ibv_context *context,
                            const struct ibv_query_device_ex_input *input,
                            struct ibv_device_attr_ex *attr, size_t size);
int uro_ibv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
/* Returns whether @attr has a GRH, the port, a valid GID index and a destination. */
bool uro_ibv_address_valid(struct ibv_context *context, const struct ibv_ah_attr *attr);

/* cq_ex.c: an entry of verbs_context */
struct ibv_cq_ex *uro_ibv_create_cq_ex(struct ibv_context *context,
                                       struct ibv_cq_init_attr_ex *attr);

/* post_list.c, poll.c: entries of ibv_context.ops */
int uro_ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int uro_ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int uro_ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int uro_ibv_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int uro_ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
