/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.h - the objects of an engine (uroce/engine.h): protection domains, memory regions and
 * windows, completion queues, address handles, shared receive queues, XRC domains, and queue pairs
 * of RC, UC, UD and XRC. Their values and rules are the same as in verbs.
 *
 * Threads: one thread at a time posts to a send queue, one posts to a receive queue, and one polls
 * or arms a CQ. These may be different threads, and may run while another thread calls the engine.
 * One thread at a time calls any of the other functions, or the functions of uroce/engine.h. A
 * function whose comment says "Threads: any" has none of these limits.
 * Objects: a function that takes several objects returns -EINVAL when they belong to different
 * engines. No function detects a pointer to a destroyed object.
 * Sizes: a struct of which the program sets the member `size` may grow in later versions. Every
 * other struct keeps its size; a later version may give a meaning to its reserved members. The
 * program sets these to 0.
 * Errors: as in uroce/engine.h. Every function that returns int returns -EINVAL when a pointer
 * other than @user is NULL, unless its comment allows NULL. Functions that do not return int return
 * 0 or NULL when a pointer is NULL.
 *
 * Sources: IBTA Architecture Specification Vol. 1, chapters 9 to 11, and Annexes A14 (XRC) and A19
 * (FLUSH, ATOMIC WRITE); man 3 ibv_create_qp, ibv_modify_qp, ibv_query_qp, ibv_post_send,
 * ibv_poll_cq, ibv_resize_cq, ibv_reg_mr, ibv_alloc_mw, ibv_bind_mw, ibv_create_ah, ibv_create_srq,
 * ibv_modify_srq, ibv_open_xrcd, ibv_attach_mcast.
 */
#ifndef UROCE_OBJECTS_H
#define UROCE_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

#include <uroce/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uroce_pd;
struct uroce_mr;
struct uroce_mw;
struct uroce_cq;
struct uroce_ah;
struct uroce_srq;
struct uroce_xrcd;
struct uroce_qp;

/* ---- protection domains ------------------------------------------------- */

/* Creates a protection domain. Returns 0 or -ENOMEM. */
int uroce_pd_create(struct uroce_engine *engine, struct uroce_pd **pd);
/* Destroys a protection domain. Returns 0, or -EBUSY while a region, a window, an address handle, a
 * shared receive queue or a queue pair of the domain exists. */
int uroce_pd_destroy(struct uroce_pd *pd);

/* ---- memory regions ----------------------------------------------------- */

/* Access flags; equal to enum ibv_access_flags. REMOTE_WRITE and REMOTE_ATOMIC require
 * LOCAL_WRITE. */
#define UROCE_ACCESS_LOCAL_WRITE      (1u << 0)
#define UROCE_ACCESS_REMOTE_WRITE     (1u << 1)
#define UROCE_ACCESS_REMOTE_READ      (1u << 2)
#define UROCE_ACCESS_REMOTE_ATOMIC    (1u << 3)
#define UROCE_ACCESS_MW_BIND          (1u << 4) /* windows may be bound to the region */
#define UROCE_ACCESS_ZERO_BASED       (1u << 5) /* the first byte has the address 0 */
#define UROCE_ACCESS_FLUSH_GLOBAL     (1u << 8) /* the peer may FLUSH to global visibility */
#define UROCE_ACCESS_FLUSH_PERSISTENT (1u << 9) /* the peer may FLUSH to persistence */

/* Registers @length bytes at @memory. The memory must stay valid until the region is destroyed.
 * Work requests and peers address the bytes by their virtual addresses in this process, or with
 * ZERO_BASED by their offset in the region. The engine does not make memory persistent: use
 * FLUSH_PERSISTENT for persistent memory only. Returns 0 or
 *   -EINVAL  @length is 0 or exceeds the address space, or @access has an unknown bit, or has
 *            REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE
 *   -ENOMEM  out of memory */
int uroce_mr_create(struct uroce_pd *pd, void *memory, size_t length, unsigned access,
                    struct uroce_mr **mr);
/* Registers @length bytes at @memory, as uroce_mr_create(). Work requests and peers address the
 * first byte by @address (man 3 ibv_reg_mr_iova). Further errors:
 *   -EINVAL  @address + @length exceeds 64 bits, or @access has ZERO_BASED */
int uroce_mr_create_at(struct uroce_pd *pd, void *memory, size_t length, uint64_t address,
                       unsigned access, struct uroce_mr **mr);
/* Destroys a region. Afterwards the engine does not access the memory. Returns 0, or -EBUSY while a
 * window is bound to the region. */
int uroce_mr_destroy(struct uroce_mr *mr);
/* Returns the key of the region. The lkey and the rkey are the same number. */
uint32_t uroce_mr_key(const struct uroce_mr *mr);

/* ---- memory windows ----------------------------------------------------- */

/* Equal to enum ibv_mw_type. Any queue pair of the domain binds and uses a window of type 1. Only
 * the queue pair that bound a window of type 2 uses and invalidates it (type 2B). */
enum uroce_mw_type { UROCE_MW_TYPE_1 = 1, UROCE_MW_TYPE_2 = 2 };

/* Creates a memory window that is not bound. UROCE_BIND_MW binds the window. Returns 0, -ENOMEM, or
 * -EINVAL when @type is not a window type. */
int uroce_mw_create(struct uroce_pd *pd, enum uroce_mw_type type, struct uroce_mw **mw);
/* Destroys a window, bound or not. Afterwards its key gives no access. Returns 0. */
int uroce_mw_destroy(struct uroce_mw *mw);
/* Returns the present rkey of the window. A binding takes effect when the engine executes it. */
uint32_t uroce_mw_key(const struct uroce_mw *mw);
/* Returns 1 while the window is bound, else 0, also when @mw is NULL. */
int uroce_mw_is_bound(const struct uroce_mw *mw);

/* ---- completion queues -------------------------------------------------- */

/* Equal to enum ibv_wc_status. */
enum uroce_status {
    UROCE_SUCCESS = 0,
    UROCE_LOC_LEN_ERR = 1,
    UROCE_LOC_QP_OP_ERR = 2,
    UROCE_LOC_PROT_ERR = 4,
    UROCE_WR_FLUSH_ERR = 5,
    UROCE_MW_BIND_ERR = 6,
    UROCE_BAD_RESP_ERR = 7,
    UROCE_LOC_ACCESS_ERR = 8,
    UROCE_REM_INV_REQ_ERR = 9,
    UROCE_REM_ACCESS_ERR = 10,
    UROCE_REM_OP_ERR = 11,
    UROCE_RETRY_EXC_ERR = 12,
    UROCE_RNR_RETRY_EXC_ERR = 13,
    UROCE_FATAL_ERR = 19,
    UROCE_GENERAL_ERR = 21
};

/* Equal to enum ibv_wc_opcode. */
enum uroce_completion_opcode {
    UROCE_DONE_SEND = 0,
    UROCE_DONE_RDMA_WRITE = 1,
    UROCE_DONE_RDMA_READ = 2,
    UROCE_DONE_COMPARE_SWAP = 3,
    UROCE_DONE_FETCH_ADD = 4,
    UROCE_DONE_BIND_MW = 5,
    UROCE_DONE_LOCAL_INV = 6,
    UROCE_DONE_FLUSH = 8,
    UROCE_DONE_ATOMIC_WRITE = 9,
    UROCE_DONE_RECV = 128, /* bit 7: a receive */
    UROCE_DONE_RECV_RDMA_WITH_IMM = 129
};

/* Equal to enum ibv_wc_flags. */
#define UROCE_COMPLETION_GRH      (1u << 0) /* the first 40 bytes of the receive are a GRH (UD) */
#define UROCE_COMPLETION_WITH_IMM (1u << 1)
#define UROCE_COMPLETION_WITH_INV (1u << 3) /* the message invalidated a window */

/* A completion, as struct ibv_wc. After a failure only wr_id, status, reason and qpn are valid. */
struct uroce_completion {
    uint64_t wr_id;
    uint32_t status; /* enum uroce_status */
    uint32_t opcode; /* enum uroce_completion_opcode */
    uint32_t flags;  /* set of UROCE_COMPLETION_* */
    uint32_t reason; /* reason of the failure, for uroce_failure_text(); 0 on success */
    uint32_t length; /* length of the message or READ, in bytes */
    uint32_t imm;    /* immediate data, in network byte order; WITH_INV: the invalidated rkey */
    uint32_t qpn;
    uint32_t source_qpn;    /* sender of a datagram */
    uint64_t time;          /* time of the engine call that completed the request */
    uint32_t service_level; /* a received datagram: its IP version, 10 (IPv4) or 9 (IPv6), which
                             * ibv_wc.sl has too, as with mlx5 */
    uint32_t reserved[3];   /* 0 */
};

/* Creates a CQ for @capacity completions, 1..4194303. @user is in every event of this CQ. Returns
 * 0, -EINVAL or -ENOMEM. */
int uroce_cq_create(struct uroce_engine *engine, uint32_t capacity, void *user,
                    struct uroce_cq **cq);
/* Destroys a CQ. Returns 0, or -EBUSY when a queue pair or an XRC SRQ uses it. */
int uroce_cq_destroy(struct uroce_cq *cq);
/* Changes the capacity to 1..4194303 completions (man 3 ibv_resize_cq). Waiting completions keep
 * their order. Returns 0, -ENOMEM, or -EINVAL when @capacity is out of its range or more
 * completions wait. Threads: no other thread polls or arms the CQ meanwhile. */
int uroce_cq_resize(struct uroce_cq *cq, uint32_t capacity);
/* Takes at most @max completions, oldest first. Returns the number of completions. When a CQ
 * overflows, its queue pairs fail. */
int uroce_cq_poll(struct uroce_cq *cq, struct uroce_completion *completions, uint32_t max);
/* Requests one UROCE_EVENT_COMPLETION for the next completion. If @solicited_only is not 0, only a
 * solicited message or a failure causes the event. Returns 0. */
int uroce_cq_arm(struct uroce_cq *cq, int solicited_only);

/* ---- addresses ---------------------------------------------------------- */

/* The path to a destination, as in struct ibv_ah_attr with a GRH. */
struct uroce_address {
    uint8_t gid[UROCE_GID_SIZE]; /* destination */
    uint8_t sgid_index;          /* GID index of the source address; same IP version as @gid */
    uint8_t hop_limit;           /* 0: 64 */
    uint8_t traffic_class;
    uint8_t service_level;
    uint32_t flow_label; /* 20 bits */
};

/* Creates an address handle: a destination of datagrams. Returns 0 or
 *   -EINVAL       @address->sgid_index has no address, or an address of another IP version
 *   -ENETUNREACH  the destination is in another subnet, and there is no gateway
 *   -ENOMEM       out of memory, or all 32768 next hops of the engine are in use */
int uroce_ah_create(struct uroce_pd *pd, const struct uroce_address *address, uint64_t now,
                    struct uroce_ah **ah);
/* Destroys an address handle. Posted datagrams that use the handle and are not sent yet fail.
 * Returns 0. */
int uroce_ah_destroy(struct uroce_ah *ah);

/* ---- shared receive queues and XRC -------------------------------------- */

/* Creates an XRC domain. Returns 0 or -ENOMEM. */
int uroce_xrcd_create(struct uroce_engine *engine, struct uroce_xrcd **xrcd);
/* Destroys an XRC domain. Returns 0, or -EBUSY while an SRQ or a queue pair of the domain exists.
 */
int uroce_xrcd_destroy(struct uroce_xrcd *xrcd);

struct uroce_srq_config {
    size_t size;             /* sizeof(struct uroce_srq_config): later versions append members */
    uint32_t capacity;       /* receives, 1..1048576 */
    uint32_t sge_max;        /* elements of a receive, 0..UROCE_SGE_MAX */
    struct uroce_xrcd *xrcd; /* XRC SRQ: its domain; NULL: a basic SRQ */
    struct uroce_cq *cq;     /* XRC SRQ: CQ of its receives; NULL for a basic SRQ */
    void *user;              /* value of `user` in every event of this SRQ */
};

/* Creates a shared receive queue. Returns 0 or
 *   -EINVAL  a value is out of its range, or only one of @config->xrcd and @config->cq is set
 *   -E2BIG   as for uroce_engine_create()
 *   -ENOMEM  out of memory */
int uroce_srq_create(struct uroce_pd *pd, const struct uroce_srq_config *config,
                     struct uroce_srq **srq);
/* Destroys an SRQ and drops its unused receives. Returns 0, or -EBUSY while a queue pair uses a
 * basic SRQ. */
int uroce_srq_destroy(struct uroce_srq *srq);
/* Returns the number of an XRC SRQ, 24 bits, which XRC requests name. Returns 0 for a basic SRQ. */
uint32_t uroce_srq_number(const struct uroce_srq *srq);
/* Requests one UROCE_EVENT_SRQ_LIMIT for the moment at which fewer than @limit receives are left
 * (man 3 ibv_modify_srq, IBV_SRQ_LIMIT). 0 cancels the request. Returns 0, or -EINVAL when @limit
 * exceeds the capacity. */
int uroce_srq_arm(struct uroce_srq *srq, uint32_t limit);
/* Changes the capacity to 1..1048576 receives (man 3 ibv_modify_srq, IBV_SRQ_MAX_WR). Waiting
 * receives keep their order. Returns 0, -ENOMEM, or -EINVAL when @capacity is out of its range,
 * more receives wait, or the requested limit is higher. Threads: no other thread posts to the SRQ
 * meanwhile. */
int uroce_srq_resize(struct uroce_srq *srq, uint32_t capacity);
/* Returns the number of receives that wait in the queue. */
uint32_t uroce_srq_waiting(const struct uroce_srq *srq);

/* ---- queue pairs -------------------------------------------------------- */

#define UROCE_SGE_MAX      32u   /* maximum number of elements of a request */
#define UROCE_INLINE_MAX   1024u /* maximum bytes of an inline request */
#define UROCE_PATH_MTU_MAX 4096u /* largest path MTU, and so the longest datagram, in bytes */

/* XRC_INI only sends, and XRC_TGT only receives: into the SRQ that each packet names. */
enum uroce_qp_type {
    UROCE_RC = 0,
    UROCE_UC = 1,
    UROCE_UD = 2,
    UROCE_XRC_INI = 3,
    UROCE_XRC_TGT = 4
};

struct uroce_qp_config {
    size_t size; /* sizeof(struct uroce_qp_config): later versions append members */
    enum uroce_qp_type type;
    struct uroce_cq *send_cq; /* NULL for XRC_TGT */
    struct uroce_cq *recv_cq; /* NULL for XRC; may be the same as send_cq */
    uint32_t send_capacity;   /* work requests, 0..1048576; 0 for XRC_TGT */
    uint32_t recv_capacity;   /* work requests, 0..1048576; 0 for XRC */
    uint32_t send_sge_max;    /* elements of a send request, 0..UROCE_SGE_MAX */
    uint32_t recv_sge_max;    /* elements of a receive, 0..UROCE_SGE_MAX */
    uint32_t inline_max;      /* bytes of an inline request, 0..UROCE_INLINE_MAX */
    int signal_all;           /* not 0: every send has a completion, even without UROCE_SIGNALED */
    void *user;               /* value of `user` in every event of this queue pair */
    struct uroce_srq *srq;    /* RC, UC, UD: a basic SRQ for all receives; NULL: none */
    struct uroce_xrcd *xrcd;  /* XRC_TGT: its domain; NULL for other types */
    int block_self_multicast; /* UD, not 0: does not receive its own multicasts */
};

/* Creates a queue pair in RESET. XRC_TGT uses @pd only to find the engine: each packet names an
 * SRQ, and the protection domain of the SRQ applies. Returns 0 or
 *   -EINVAL  a value is out of its range, an object is missing, the type does not use one of the
 *            objects, or an object is of another engine
 *   -E2BIG   as for uroce_engine_create()
 *   -ENOMEM  out of memory, or the engine has as many queue pairs as its qpn_prefix allows */
int uroce_qp_create(struct uroce_pd *pd, const struct uroce_qp_config *config,
                    struct uroce_qp **qp);
/* Destroys a queue pair, detaches it from its multicast groups and drops its completions from its
 * CQs. Returns 0.
 * Threads: no other thread posts to the queue pair or polls its CQs meanwhile. */
int uroce_qp_destroy(struct uroce_qp *qp);
/* Returns the queue pair number, 24 bits. */
uint32_t uroce_qp_number(const struct uroce_qp *qp);

/* Equal to enum ibv_qp_state. */
enum uroce_qp_state {
    UROCE_RESET = 0,
    UROCE_INIT = 1,
    UROCE_RTR = 2,
    UROCE_RTS = 3,
    UROCE_SQD = 4,
    UROCE_SQE = 5,
    UROCE_ERR = 6
};

/* Attribute masks; equal to enum ibv_qp_attr_mask. man 3 ibv_modify_qp lists the attributes that
 * each transition needs. */
#define UROCE_ATTR_STATE              (1u << 0)
#define UROCE_ATTR_CUR_STATE          (1u << 1)
#define UROCE_ATTR_SQD_NOTIFY         (1u << 2)
#define UROCE_ATTR_ACCESS             (1u << 3)
#define UROCE_ATTR_PKEY_INDEX         (1u << 4)
#define UROCE_ATTR_PORT               (1u << 5)
#define UROCE_ATTR_QKEY               (1u << 6)
#define UROCE_ATTR_AV                 (1u << 7)
#define UROCE_ATTR_PATH_MTU           (1u << 8)
#define UROCE_ATTR_TIMEOUT            (1u << 9)
#define UROCE_ATTR_RETRY_CNT          (1u << 10)
#define UROCE_ATTR_RNR_RETRY          (1u << 11)
#define UROCE_ATTR_RQ_PSN             (1u << 12)
#define UROCE_ATTR_MAX_RD_ATOMIC      (1u << 13)
#define UROCE_ATTR_MIN_RNR_TIMER      (1u << 15)
#define UROCE_ATTR_SQ_PSN             (1u << 16)
#define UROCE_ATTR_MAX_DEST_RD_ATOMIC (1u << 17)
#define UROCE_ATTR_DEST_QPN           (1u << 20)

/* Queue pair attributes, as in struct ibv_qp_attr. */
struct uroce_qp_attr {
    enum uroce_qp_state state;
    uint32_t access;   /* UROCE_ACCESS_REMOTE_* and _FLUSH_* that the peer may use */
    uint32_t path_mtu; /* payload of a packet in bytes: 256, 512, 1024, 2048 or 4096 */
    uint32_t dest_qpn;
    uint32_t qkey;
    uint32_t rq_psn, sq_psn; /* 24 bits */
    struct uroce_address address;
    uint8_t port;               /* 1 */
    uint8_t pkey_index;         /* 0 */
    uint8_t max_rd_atomic;      /* outstanding READs and atomics of this side, 0..128 */
    uint8_t max_dest_rd_atomic; /* outstanding READs and atomics of the peer, 0..128 */
    uint8_t min_rnr_timer;      /* 0..31, IBTA table 45 */
    uint8_t timeout;            /* 0..31: 4.096 us * 2^timeout; 0: no timeout */
    uint8_t retry_cnt;          /* 0..7 */
    uint8_t rnr_retry;          /* 0..6; 7: no limit */
    uint8_t current_state;      /* enum uroce_qp_state */
    /* transition to SQD, not 0: UROCE_EVENT_SQ_DRAINED reports the end of draining */
    uint8_t sqd_notify;
    uint8_t sq_draining;   /* query only: 1 in SQD while requests are not complete */
    uint8_t reserved_byte; /* 0 */
    uint32_t reserved[7];  /* 0 */
};

/* Changes the attributes that @mask names (UROCE_ATTR_*). Returns 0 or
 *   -EINVAL       there is no such transition, an attribute is missing or is not allowed, a value
 *                 is out of its range, or @now is earlier than in the last call
 *   -ENETUNREACH  as uroce_ah_create()
 *   -ENOMEM       all 32768 next hops of the engine are in use */
int uroce_qp_modify(struct uroce_qp *qp, const struct uroce_qp_attr *attr, unsigned mask,
                    uint64_t now);

/* Writes the present state of the queue pair, and the other attributes as the program has set them,
 * to @attr. Returns 0. */
int uroce_qp_query(const struct uroce_qp *qp, struct uroce_qp_attr *attr);

/* Returns the state of the queue pair. Threads: any. */
enum uroce_qp_state uroce_qp_state(const struct uroce_qp *qp);

/* Returns the first reason since RESET why the queue pair failed, for uroce_failure_text(). Returns
 * 0 if it has not failed. */
uint32_t uroce_qp_reason(const struct uroce_qp *qp);

/* Checks the internal state of the queue pair. Returns NULL, or a text that names an invariant that
 * does not hold. A text shows a bug of uroce: report it. For tests. */
const char *uroce_qp_problem(const struct uroce_qp *qp);

/* Attaches a UD queue pair to the multicast group @group (man 3 ibv_attach_mcast). The engine then
 * accepts the frames of the group, and reports the membership to routers and switches (IGMP, MLD).
 * Attaching twice has no further effect. Returns 0 or
 *   -EINVAL  @qp is not a UD queue pair, @group is not a multicast address, or @now is earlier than
 *            in the last call
 *   -ENOMEM  out of memory, the group has 56 members, or the engine has joined 8192 groups */
int uroce_qp_attach(struct uroce_qp *qp, const uint8_t group[UROCE_GID_SIZE], uint64_t now);
/* Detaches a queue pair from a multicast group (man 3 ibv_detach_mcast). Returns 0, or -EINVAL when
 * the queue pair is not attached or @now is earlier than in the last call. */
int uroce_qp_detach(struct uroce_qp *qp, const uint8_t group[UROCE_GID_SIZE], uint64_t now);

/* ---- requests ----------------------------------------------------------- */

/* Equal to struct ibv_sge. */
struct uroce_sge {
    uint64_t address;
    uint32_t length; /* bytes */
    uint32_t key;    /* uroce_mr_key() of the region */
};

/* Equal to enum ibv_wr_opcode. */
enum uroce_opcode {
    UROCE_RDMA_WRITE = 0,
    UROCE_RDMA_WRITE_WITH_IMM = 1,
    UROCE_SEND = 2,
    UROCE_SEND_WITH_IMM = 3,
    UROCE_RDMA_READ = 4,
    UROCE_COMPARE_SWAP = 5,
    UROCE_FETCH_ADD = 6,
    UROCE_LOCAL_INV = 7,
    UROCE_BIND_MW = 8,
    UROCE_SEND_WITH_INV = 9,
    UROCE_FLUSH = 14,
    UROCE_ATOMIC_WRITE = 15
};

/* Equal to enum ibv_send_flags. */
#define UROCE_FENCE     (1u << 0)
#define UROCE_SIGNALED  (1u << 1)
#define UROCE_SOLICITED (1u << 2)
#define UROCE_INLINE    (1u << 3) /* post copies the bytes, which need no region */

/* Values of uroce_send.flush_placement (a set) and uroce_send.flush_selectivity; as in struct
 * ibv_qp_ex, ibv_wr_flush(). */
#define UROCE_FLUSH_GLOBAL     (1u << 0)
#define UROCE_FLUSH_PERSISTENT (1u << 1)
#define UROCE_FLUSH_RANGE      0u /* the range of the request */
#define UROCE_FLUSH_MR         1u /* all memory of the key */

/* A send request, as in struct ibv_send_wr. */
struct uroce_send {
    uint64_t wr_id;
    enum uroce_opcode opcode;
    unsigned flags; /* set of UROCE_FENCE .. UROCE_INLINE */
    const struct uroce_sge *sges;
    uint32_t sge_count;
    uint32_t imm; /* immediate data, in network byte order; LOCAL_INV, SEND_WITH_INV: the rkey */
    uint64_t remote_address; /* WRITE, READ, atomics, FLUSH; BIND_MW: start of the window */
    uint32_t rkey;        /* WRITE, READ, atomics, FLUSH; BIND_MW: rkey of the window from now on */
    uint32_t remote_qpn;  /* UD, 24 bits */
    uint32_t remote_qkey; /* UD */
    uint32_t remote_srqn; /* XRC_INI: number of the SRQ of the peer, 24 bits */
    struct uroce_ah *ah;  /* UD */
    uint64_t compare_add; /* atomics: operand to compare or to add */
    uint64_t swap;        /* COMPARE_SWAP: value to write */
    struct uroce_mw *mw;  /* BIND_MW */
    struct uroce_mr *mr;  /* BIND_MW: the region; NULL: unbinds a window of type 1 */
    uint64_t bind_length; /* BIND_MW: length of the window in bytes; 0 when @mr is NULL */
    uint32_t bind_access; /* BIND_MW: set of UROCE_ACCESS_REMOTE_*; type 2 also ZERO_BASED */
    uint32_t flush_length;     /* FLUSH: bytes from @remote_address */
    uint8_t flush_placement;   /* FLUSH: set of UROCE_FLUSH_GLOBAL and UROCE_FLUSH_PERSISTENT */
    uint8_t flush_selectivity; /* FLUSH: UROCE_FLUSH_RANGE or UROCE_FLUSH_MR */
    uint8_t reserved[6];       /* 0 */
};

/* Posts a request to the send queue. The next uroce_engine_output() takes the request. LOCAL_INV,
 * BIND_MW and FLUSH have no elements. ATOMIC_WRITE has 8 bytes. For BIND_MW, the program chooses
 * the lower 8 bits of the rkey. The other bits are those of uroce_mw_key(). Returns 0 or
 *   -EINVAL  the state does not allow sends, the queue pair type does not support the opcode, a
 *            value is out of its range, there are too many elements or bytes, an inline request is
 *            not a SEND, WRITE or ATOMIC_WRITE, an atomic is not 8 bytes long, a datagram has no
 *            address handle of the same protection domain, or a binding has no window of the same
 *            protection domain
 *   -ENOMEM  the queue is full */
int uroce_qp_send(struct uroce_qp *qp, const struct uroce_send *request);

/* Posts a receive for one message. On a UD queue pair the first 40 bytes receive the GRH. @sges may
 * be NULL when @sge_count is 0. Returns 0 or
 *   -EINVAL  the queue pair is in RESET, is XRC or has an SRQ, or there are too many elements or
 *            bytes
 *   -ENOMEM  the queue is full */
int uroce_qp_receive(struct uroce_qp *qp, uint64_t wr_id, const struct uroce_sge *sges,
                     uint32_t sge_count);

/* Posts a receive for one message to an SRQ, as uroce_qp_receive(). Returns 0 or
 *   -EINVAL  there are too many elements or bytes
 *   -ENOMEM  the queue is full */
int uroce_srq_receive(struct uroce_srq *srq, uint64_t wr_id, const struct uroce_sge *sges,
                      uint32_t sge_count);

#ifdef __cplusplus
}
#endif

#endif
