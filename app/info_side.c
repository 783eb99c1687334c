/* SPDX-License-Identifier: BSD-3-Clause */
/* info_side.c - one side of a transfer of `uroce info --check`, in its own process. The process
 * uses uroce's libibverbs.so.1 like any program, so the transfer also checks the installation. */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "info.h"

#define BYTES      (1u << 20)
#define GID_INDEX  1 /* the first address of ip=; GID 0 may be the link-local address */
#define PORT       1
#define TIMEOUT    16 /* ACK timeout of 4.096 us * 2^16 = 0.27 s */
#define RETRIES    7
#define MULTIPLIER 31u /* factor of the test pattern; any odd number */

/* The functions of the library. */
static struct {
    __typeof__(ibv_get_device_list) *get_device_list;
    __typeof__(ibv_open_device) *open_device;
    __typeof__(ibv_alloc_pd) *alloc_pd;
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t length, int access);
    __typeof__(ibv_create_cq) *create_cq;
    __typeof__(ibv_create_qp) *create_qp;
    __typeof__(ibv_modify_qp) *modify_qp;
    __typeof__(ibv_query_gid) *query_gid;
} verbs;

struct end {
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *buffer;
};

/* The queue pair and the memory of the other side. */
struct remote {
    union ibv_gid gid;
    uint64_t address;
    uint32_t rkey, qpn;
};

/* Prints the reason of a failure. Returns false. */
static bool fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return false;
}

/* Writes the address of the function @name to the pointer at @function. Returns false if the
 * library lacks the function. */
static bool look_up(void *library, const char *name, void *function)
{
    void *const symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(const char *path)
{
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library != NULL && look_up(library, "ibv_get_device_list", &verbs.get_device_list) &&
        look_up(library, "ibv_open_device", &verbs.open_device) &&
        look_up(library, "ibv_alloc_pd", &verbs.alloc_pd) &&
        look_up(library, "ibv_reg_mr", &verbs.reg_mr) &&
        look_up(library, "ibv_create_cq", &verbs.create_cq) &&
        look_up(library, "ibv_create_qp", &verbs.create_qp) &&
        look_up(library, "ibv_modify_qp", &verbs.modify_qp) &&
        look_up(library, "ibv_query_gid", &verbs.query_gid))
        return true;
    (void)fprintf(stderr, "%s\n", dlerror());
    return false;
}

static bool open_device(struct ibv_context **context)
{
    int count = 0;
    struct ibv_device **list = verbs.get_device_list(&count);

    if (list == NULL || count == 0) {
        errno = ENODEV;
        return fail("ibv_get_device_list");
    }
    *context = verbs.open_device(list[0]);
    return *context != NULL || fail("ibv_open_device");
}

static bool make(struct ibv_context *context, struct end *end)
{
    struct ibv_pd *pd = verbs.alloc_pd(context);

    end->cq = verbs.create_cq(context, 4, NULL, NULL, 0);
    if (pd == NULL || end->cq == NULL)
        return fail("ibv_alloc_pd or ibv_create_cq");
    struct ibv_qp_init_attr attr = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    end->qp = verbs.create_qp(pd, &attr);
    if (end->qp == NULL)
        return fail("ibv_create_qp");
    end->buffer = calloc(1, BYTES);
    if (end->buffer == NULL)
        return fail("calloc");
    end->mr =
        verbs.reg_mr(pd, end->buffer, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return end->mr != NULL || fail("ibv_reg_mr");
}

static bool describe(struct ibv_context *context, const struct end *end, struct remote *self)
{
    memset(self, 0, sizeof *self);
    self->address = (uintptr_t)end->buffer;
    self->rkey = end->mr->rkey;
    self->qpn = end->qp->qp_num;
    return verbs.query_gid(context, PORT, GID_INDEX, &self->gid) == 0 || fail("ibv_query_gid");
}

/* Moves the queue pair to RTS, and posts the receive request. */
static bool connect_to(struct end *end, const struct remote *remote)
{
    struct ibv_recv_wr receive = { .wr_id = 0 }, *bad;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = PORT,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    int error = verbs.modify_qp(
        end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error == 0)
        error = ibv_post_recv(end->qp, &receive, &bad);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = remote->qpn,
        .ah_attr = { .is_global = 1,
                     .port_num = PORT,
                     .grh = { .dgid = remote->gid, .sgid_index = GID_INDEX, .hop_limit = 64 } },
    };
    if (error == 0)
        error =
            verbs.modify_qp(end->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = TIMEOUT;
    attr.retry_cnt = RETRIES;
    attr.rnr_retry = RETRIES;
    if (error == 0)
        error = verbs.modify_qp(end->qp, &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    errno = error;
    return error == 0 || fail("ibv_modify_qp");
}

static uint8_t pattern(uint32_t index)
{
    return (uint8_t)((index >> 8) * MULTIPLIER + index);
}

static bool post_write(struct end *end, const struct remote *remote)
{
    struct ibv_sge sge = { (uintptr_t)end->buffer, BYTES, end->mr->lkey };
    struct ibv_send_wr write = { .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                 .send_flags = IBV_SEND_SIGNALED };
    struct ibv_send_wr *bad;

    for (uint32_t i = 0; i < BYTES; i++)
        end->buffer[i] = pattern(i);
    write.wr.rdma.remote_addr = remote->address;
    write.wr.rdma.rkey = remote->rkey;
    errno = ibv_post_send(end->qp, &write, &bad);
    return errno == 0 || fail("ibv_post_send");
}

/* Waits for a completion. The caller's alarm() limits the time. */
static bool complete(struct end *end)
{
    struct ibv_wc wc;
    int count;

    do
        count = ibv_poll_cq(end->cq, 1, &wc);
    while (count == 0);
    if (count == 1 && wc.status == IBV_WC_SUCCESS)
        return true;
    (void)fprintf(stderr, "the transfer failed with status %d; `uroce why` has the reason\n",
                  count == 1 ? (int)wc.status : count);
    return false;
}

static bool verify(const struct end *end)
{
    for (uint32_t i = 0; i < BYTES; i++)
        if (end->buffer[i] != pattern(i)) {
            (void)fprintf(stderr, "byte %u of the transfer is wrong\n", i);
            return false;
        }
    return true;
}

/* Sends @own to the other side, and receives @other of the same size. */
static bool exchange(int peer, const void *own, void *other, size_t size)
{
    if (write(peer, own, size) != (ssize_t)size)
        return fail("the other process ended");
    for (size_t had = 0; had < size;) {
        const ssize_t got = read(peer, (uint8_t *)other + had, size - had);
        if (got <= 0) {
            (void)fprintf(stderr, "the other process ended\n");
            return false;
        }
        had += (size_t)got;
    }
    return true;
}

static bool transfer_to(struct ibv_context *context, int peer, bool sends)
{
    struct end end;
    struct remote own, other;
    uint8_t ready;

    return make(context, &end) && describe(context, &end, &own) &&
           exchange(peer, &own, &other, sizeof own) && connect_to(&end, &other) &&
           exchange(peer, &(uint8_t){ 1 }, &ready, 1) && (!sends || post_write(&end, &other)) &&
           complete(&end) && (sends || verify(&end)) && exchange(peer, &(uint8_t){ 1 }, &ready, 1);
}

static bool transfer_alone(struct ibv_context *context)
{
    struct end from, to;
    struct remote first, second;

    return make(context, &from) && make(context, &to) && describe(context, &from, &first) &&
           describe(context, &to, &second) && connect_to(&from, &second) &&
           connect_to(&to, &first) && post_write(&from, &second) && complete(&to) &&
           complete(&from) && verify(&to);
}

int uro_info_side(const char *library, int peer, bool sends)
{
    struct ibv_context *context = NULL;

    if (!load(library) || !open_device(&context))
        return 1;
    return (peer < 0 ? transfer_alone(context) : transfer_to(context, peer, sends)) ? 0 : 1;
}
