/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.h - the objects of an engine (uroce/engine.h): protection domains, memory regions,
 * completion queues, address handles, and queue pairs of RC, UC and UD. Their values and rules are
 * the same as in verbs.
 *
 * Threads: one thread at a time posts to a send queue, one posts to a receive queue, and one polls
 * or arms a CQ. These may be different threads, and may run while another thread calls the engine.
 * Every other function is a call of the engine: one thread at a time (uroce/engine.h).
 * Errors: as in uroce/engine.h. Every function that returns int returns -EINVAL when a pointer is
 * NULL, unless its comment allows NULL. Functions that do not return int return 0 when a pointer is
 * NULL.
 *
 * Sources: IBTA Architecture Specification Vol. 1, chapters 9 to 11; man 3 ibv_create_qp,
 * ibv_modify_qp, ibv_post_send, ibv_poll_cq, ibv_reg_mr, ibv_create_ah.
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
struct uroce_cq;
struct uroce_ah;
struct uroce_qp;

/* ---- protection domains ------------------------------------------------- */

/* Creates a protection domain. Returns 0 or -ENOMEM. */
int uroce_pd_create(struct uroce_engine *engine, struct uroce_pd **pd);
/* Destroys a protection domain. Returns 0, or -EBUSY while a region, an address handle or a queue
 * pair of the domain exists. */
int uroce_pd_destroy(struct uroce_pd *pd);

/* ---- memory regions ----------------------------------------------------- */

/* Access flags; equal to enum ibv_access_flags. REMOTE_WRITE and REMOTE_ATOMIC require
 * LOCAL_WRITE. */
#define UROCE_ACCESS_LOCAL_WRITE   (1u << 0)
#define UROCE_ACCESS_REMOTE_WRITE  (1u << 1)
#define UROCE_ACCESS_REMOTE_READ   (1u << 2)
#define UROCE_ACCESS_REMOTE_ATOMIC (1u << 3)

/* Registers @length bytes at @memory. The memory must stay valid until the region is destroyed.
 * Work requests and peers address the bytes by their virtual addresses in this process. Returns 0
 * or
 *   -EINVAL  @length is 0 or exceeds the address space, or @access has an unknown bit or lacks
 *            LOCAL_WRITE
 *   -ENOMEM  out of memory */
int uroce_mr_create(struct uroce_pd *pd, void *memory, size_t length, unsigned access,
                    struct uroce_mr **mr);
/* Destroys a region. Afterwards the engine does not access the memory. Returns 0. */
int uroce_mr_destroy(struct uroce_mr *mr);
/* Returns the key of the region. The lkey and the rkey are the same number. */
uint32_t uroce_mr_key(const struct uroce_mr *mr);

/* ---- completion queues -------------------------------------------------- */

/* Equal to enum ibv_wc_status. */
enum uroce_status {
    UROCE_SUCCESS = 0,
    UROCE_LOC_LEN_ERR = 1,
    UROCE_LOC_QP_OP_ERR = 2,
    UROCE_LOC_PROT_ERR = 4,
    UROCE_WR_FLUSH_ERR = 5,
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

#define UROCE_COMPLETION_GRH      (1u << 0) /* the first 40 bytes of the receive are a GRH (UD) */
#define UROCE_COMPLETION_WITH_IMM (1u << 1)

/* A completion, as struct ibv_wc. After a failure only wr_id, status, reason and qpn are valid. */
struct uroce_completion {
    uint64_t wr_id;
    uint32_t status; /* enum uroce_status */
    uint32_t opcode; /* equal to enum ibv_wc_opcode; bit 7: a receive */
    uint32_t flags;  /* set of UROCE_COMPLETION_* */
    uint32_t reason; /* reason of the failure, for uroce_failure_text(); 0 on success */
    uint32_t length; /* length of the message or READ, in bytes */
    uint32_t imm;    /* immediate data, in network byte order */
    uint32_t qpn;
    uint32_t source_qpn; /* sender of a datagram */
};

/* Creates a CQ for @capacity completions, 1..4194303. @user is in every event of this CQ. Returns
 * 0, -EINVAL or -ENOMEM. */
int uroce_cq_create(struct uroce_engine *engine, uint32_t capacity, void *user,
                    struct uroce_cq **cq);
/* Destroys a CQ. Returns 0, or -EBUSY when a queue pair uses it. */
int uroce_cq_destroy(struct uroce_cq *cq);
/* Takes at most @room completions, oldest first. Returns the number of completions. When a CQ
 * overflows, its queue pairs fail. */
int uroce_cq_poll(struct uroce_cq *cq, struct uroce_completion *completions, uint32_t room);
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

/* ---- queue pairs -------------------------------------------------------- */

enum uroce_qp_type { UROCE_RC = 0, UROCE_UC = 1, UROCE_UD = 2 };

struct uroce_qp_config {
    size_t size; /* sizeof(struct uroce_qp_config): later versions append members */
    enum uroce_qp_type type;
    struct uroce_cq *send_cq, *recv_cq; /* may be the same */
    uint32_t send_capacity;             /* work requests, 0..1048576 */
    uint32_t recv_capacity;             /* work requests, 0..1048576 */
    uint32_t send_sge_max;              /* elements of a send request, 0..32 */
    uint32_t recv_sge_max;              /* elements of a receive, 0..32 */
    uint32_t inline_max;                /* bytes of an inline request, 0..1024 */
    int signal_all; /* not 0: every send has a completion, even without UROCE_SIGNALED */
    void *user;     /* in every event of this queue pair */
};

/* Creates a queue pair in RESET. Returns 0 or
 *   -EINVAL  a value is out of its range, or a CQ is NULL or belongs to another engine
 *   -E2BIG   as for uroce_engine_create()
 *   -ENOMEM  out of memory */
int uroce_qp_create(struct uroce_pd *pd, const struct uroce_qp_config *config,
                    struct uroce_qp **qp);
/* Destroys a queue pair and drops its completions from both CQs. Returns 0.
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
    uint32_t access;   /* set of UROCE_ACCESS_REMOTE_* that the peer may use */
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
    uint32_t reserved[8];       /* 0 */
};

/* Changes the attributes that @mask names (UROCE_ATTR_*). Returns 0 or
 *   -EINVAL       no such transition, an attribute is missing or one too many, a value out of its
 *                 range, or @now earlier than before
 *   -ENETUNREACH  as uroce_ah_create()
 *   -ENOMEM       all 32768 next hops of the engine are in use */
int uroce_qp_modify(struct uroce_qp *qp, const struct uroce_qp_attr *attr, unsigned mask,
                    uint64_t now);

/* Returns the state of the queue pair. Threads: any. */
enum uroce_qp_state uroce_qp_state(const struct uroce_qp *qp);

/* Returns the first reason since RESET why the queue pair failed, for uroce_failure_text(). Returns
 * 0 if it has not failed. */
uint32_t uroce_qp_reason(const struct uroce_qp *qp);

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
    UROCE_FETCH_ADD = 6
};

/* Equal to enum ibv_send_flags. */
#define UROCE_FENCE     (1u << 0)
#define UROCE_SIGNALED  (1u << 1)
#define UROCE_SOLICITED (1u << 2)
#define UROCE_INLINE    (1u << 3) /* post copies the bytes, which need no region */

/* A send request, as in struct ibv_send_wr. */
struct uroce_send {
    uint64_t wr_id;
    enum uroce_opcode opcode;
    unsigned flags; /* set of UROCE_FENCE .. UROCE_INLINE */
    const struct uroce_sge *sges;
    uint32_t sge_count;
    uint32_t imm;            /* immediate data, in network byte order */
    uint64_t remote_address; /* WRITE, READ, atomics */
    uint32_t rkey;           /* WRITE, READ, atomics */
    uint32_t remote_qpn;     /* UD, 24 bits */
    uint32_t remote_qkey;    /* UD */
    struct uroce_ah *ah;     /* UD */
    uint64_t compare_add;    /* atomics: operand to compare or to add */
    uint64_t swap;           /* COMPARE_SWAP: value to write */
};

/* Posts a request to the send queue. The next uroce_engine_output() takes the request. Returns 0 or
 *   -EINVAL  the state does not allow sends, the queue pair type does not support the opcode, there
 *            are too many elements or bytes, an atomic is not 8 bytes long, or a datagram has no
 *            address handle of the same protection domain
 *   -ENOMEM  the queue is full */
int uroce_qp_send(struct uroce_qp *qp, const struct uroce_send *request);

/* Posts a receive for one message. On a UD queue pair the first 40 bytes receive the GRH. Returns 0
 * or
 *   -EINVAL  the queue pair is in RESET, or there are too many elements or bytes
 *   -ENOMEM  the queue is full */
int uroce_qp_receive(struct uroce_qp *qp, uint64_t wr_id, const struct uroce_sge *sges,
                     uint32_t sge_count);

#ifdef __cplusplus
}
#endif

#endif
