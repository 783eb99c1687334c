/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests on-demand regions: memory that is mapped and unmapped while it is registered. */
#include "api/api.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/patience.h"

#define RIGHTS                                                                                     \
    (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                     \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t *map(size_t length, int rights)
{
    uint8_t *at = mmap(NULL, length, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns whether the page is resident. */
static bool resident(uint8_t *at)
{
    unsigned char there;

    assert_int_equal(mincore(at, 1, &there), 0);
    return there & 1;
}

static void query_device__on_demand_paging__has_the_capabilities(void **state)
{
    const struct api *api = *state;
    const uint32_t all = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                         IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
    struct ibv_device_attr_ex attr;

    assert_int_equal(ibv_query_device_ex(api->context, NULL, &attr), 0);
    assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps, all);
    assert_int_equal(attr.xrc_odp_caps, all);
    assert_int_equal(attr.odp_caps.per_transport_caps.uc_odp_caps & IBV_ODP_SUPPORT_READ, 0);
    assert_int_equal(attr.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_WRITE, 0);
}

/* ---- data ----------------------------------------------------------------------------------- */

/* Sends @from of a to a receive @to of b. Checks the status of both completions. */
static void send(struct pair *pair, struct ibv_sge from, struct ibv_sge to, enum ibv_wc_status sent,
                 enum ibv_wc_status received)
{
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from), *bad;

    assert_int_equal(api_post_recv(&pair->b, 2, &to), 0);
    assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
    api_expect(pair->a.cq, 1, sent);
    api_expect(pair->b.cq, 2, received);
}

static enum ibv_wc_status one_sided(struct pair *pair, enum ibv_wr_opcode opcode,
                                    struct ibv_sge local, uint64_t address, uint32_t rkey)
{
    struct ibv_send_wr wr = api_send(opcode, &local), *bad;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = rkey;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
    }
    assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
    return api_wait(pair->a.cq).status;
}

static void implicit_mr__covers_all_memory__also_mapped_later(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, NULL, SIZE_MAX, RIGHTS);
    struct pair pair;
    size_t length = 16 * page_size();

    assert_non_null(mr);
    assert_null(mr->addr);
    assert_int_equal(mr->length, SIZE_MAX);
    api_pair_open(api, &pair, NULL);
    uint8_t *from = map(length, PROT_READ | PROT_WRITE), *to = map(length, PROT_READ | PROT_WRITE);
    memset(from, 0x33, length);
    send(&pair, (struct ibv_sge){ (uintptr_t)from, (uint32_t)length, mr->lkey },
         (struct ibv_sge){ (uintptr_t)to, (uint32_t)length, mr->lkey }, IBV_WC_SUCCESS,
         IBV_WC_SUCCESS);
    assert_memory_equal(from, to, length);
    memset(from, 0x44, length);
    const struct ibv_sge local = { (uintptr_t)from, (uint32_t)length, mr->lkey };
    assert_int_equal(one_sided(&pair, IBV_WR_RDMA_WRITE, local, (uintptr_t)to, mr->rkey),
                     IBV_WC_SUCCESS);
    assert_memory_equal(from, to, length);
    munmap(from, length);
    munmap(to, length);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void explicit_mr__registered_before_it_is_mapped__faults_when_it_is_used(void **state)
{
    const struct api *api = *state;
    size_t page = page_size();
    uint8_t *at = map(4 * page, PROT_NONE);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, 4 * page, RIGHTS);
    struct pair pair;

    assert_non_null(mr);
    assert_int_equal(mprotect(at, 4 * page, PROT_READ | PROT_WRITE), 0);
    assert_false(resident(at + page));
    api_pair_open(api, &pair, NULL);
    memset(pair.a.buffer, 0x21, 100);
    assert_int_equal(one_sided(&pair, IBV_WR_RDMA_WRITE, api_sge(&pair.a, 0, 100),
                               (uintptr_t)at + 2 * page - 50, mr->rkey),
                     IBV_WC_SUCCESS);
    assert_true(resident(at + page) && resident(at + 2 * page));
    assert_false(resident(at) || resident(at + 3 * page));
    assert_memory_equal(at + 2 * page - 50, pair.a.buffer, 100);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, 4 * page);
}

enum trouble { UNMAPPED, NO_RIGHTS, READ_ONLY };

static void make_trouble(uint8_t *at, size_t length, enum trouble trouble)
{
    if (trouble == UNMAPPED)
        assert_int_equal(munmap(at, length), 0);
    else
        assert_int_equal(mprotect(at, length, trouble == READ_ONLY ? PROT_READ : PROT_NONE), 0);
}

/* The peer accesses the second of two pages, which is unmapped, inaccessible or read-only. */
static void memory__unusable_when_a_peer_accesses_it__access_is_refused(void **state)
{
    static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD };
    const struct api *api = *state;
    size_t page = page_size();

    for (int i = 0; i < 9; i++) {
        enum trouble trouble = (enum trouble)(i / 3);
        bool reads = opcodes[i % 3] == IBV_WR_RDMA_READ;
        uint8_t *at = map(2 * page, PROT_READ | PROT_WRITE);
        struct ibv_mr *mr = ibv_reg_mr(api->pd, at, 2 * page, RIGHTS);
        struct pair pair;
        memset(at, 0xcc, 2 * page);
        make_trouble(at + page, page, trouble);
        api_pair_open(api, &pair, NULL);
        enum ibv_wc_status want =
            trouble == READ_ONLY && reads ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
        assert_int_equal(one_sided(&pair, opcodes[i % 3], api_sge(&pair.a, 0, 8),
                                   (uintptr_t)at + page, mr->rkey),
                         want);
        for (size_t j = 0; j < page; j++)
            assert_int_equal(at[j], 0xcc);
        api_pair_close(&pair);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        munmap(at, 2 * page);
    }
}

static void memory__unusable_when_accessed_locally__protection_error(void **state)
{
    const struct api *api = *state;
    size_t page = page_size();

    for (int i = 0; i < 3; i++) {
        uint8_t *at = map(page, PROT_READ | PROT_WRITE);
        struct ibv_mr *mr = ibv_reg_mr(api->pd, at, page, RIGHTS);
        const struct ibv_sge gone = { (uintptr_t)at, 64, mr->lkey };
        struct pair pair;
        api_pair_open(api, &pair, NULL);
        make_trouble(at, page, UNMAPPED);
        uint64_t peer = (uintptr_t)pair.b.buffer;
        if (i == 0) /* the memory of a receive */
            send(&pair, api_sge(&pair.a, 0, 64), gone, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
        else
            assert_int_equal(one_sided(&pair, i == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, gone,
                                       peer, pair.b.mr->rkey),
                             IBV_WC_LOC_PROT_ERR);
        api_pair_close(&pair);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
}

/* ---- advice --------------------------------------------------------------------------------- */

static int advise(const struct api *api, enum ibv_advise_mr_advice advice, uint32_t flags,
                  uint8_t *at, size_t length, uint32_t lkey)
{
    struct ibv_sge element = { (uintptr_t)at, (uint32_t)length, lkey };

    return ibv_advise_mr(api->pd, advice, flags, &element, 1);
}

static void advise_mr__prefetch__faults_pages_in(void **state)
{
    const struct api *api = *state;
    size_t page = page_size();
    uint8_t *at = map(4 * page, PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, 4 * page, RIGHTS);

    assert_int_equal(advise(api, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, at, page, mr->lkey), 0);
    assert_false(resident(at));
    assert_int_equal(advise(api, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, at, 1, mr->lkey), 0);
    assert_true(resident(at));
    assert_int_equal(advise(api, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
                            at + page, 2 * page, mr->lkey),
                     0);
    assert_true(resident(at + page) && resident(at + 2 * page));
    assert_false(resident(at + 3 * page));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(at, 4 * page);
}

#define FLICKERS 400u
#define FLICKER  (1u << 18) /* bytes */

static atomic_bool enough;

/* Maps and unmaps the memory again and again, without a pause. */
static void *flicker(void *at)
{
    while (!atomic_load(&enough)) {
        if (mmap(at, FLICKER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == MAP_FAILED)
            return NULL;
        (void)munmap(at, FLICKER);
    }
    return at;
}

/* Uses memory that is mapped and unmapped all the time, with a new connection for each request.
 * Returns the number of requests with an invalid status. */
static unsigned use_flickering(const struct api *api, uint8_t *at, const struct ibv_mr *mr)
{
    static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD };
    uint8_t *own = map(FLICKER, PROT_READ | PROT_WRITE);
    struct ibv_mr *own_mr = ibv_reg_mr(api->pd, own, FLICKER, IBV_ACCESS_LOCAL_WRITE);
    struct pair pair;
    unsigned wrong = 0;

    for (unsigned i = 0; i < FLICKERS; i++) {
        const enum ibv_wr_opcode opcode = opcodes[i % 3];
        const uint32_t length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : FLICKER;
        api_pair_open(api, &pair, NULL);
        enum ibv_wc_status status =
            one_sided(&pair, opcode, (struct ibv_sge){ (uintptr_t)own, length, own_mr->lkey },
                      (uintptr_t)at, mr->rkey);
        wrong += status != IBV_WC_SUCCESS && status != IBV_WC_REM_ACCESS_ERR;
        api_pair_close(&pair);
    }
    (void)ibv_dereg_mr(own_mr);
    munmap(own, FLICKER);
    return wrong;
}

/* Runs in its own process, because cmocka replaces the fault handlers of uroce. */
static int flickering_process(void)
{
    void *state, *result;
    pthread_t thread;

    (void)alarm(patience(20));
    (void)api_open(&state);
    struct api *api = state;
    uint8_t *at = map(FLICKER, PROT_READ | PROT_WRITE);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, FLICKER, RIGHTS);
    if (mr == NULL || pthread_create(&thread, NULL, flicker, at) != 0)
        return 1;
    unsigned wrong = use_flickering(api, at, mr);
    atomic_store(&enough, true);
    return pthread_join(thread, &result) != 0 || result != at || wrong > 0;
}

static void memory__unmapped_by_a_thread_during_the_copy__access_is_refused(void **state)
{
    char program[] = "/proc/self/exe", word[] = "flicker";
    char *const words[] = { program, word, NULL };
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(posix_spawn(&child, program, NULL, NULL, words, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void prefetch__wrong_arguments__has_the_right_errno(void **state)
{
    const struct api *api = *state;
    const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH;
    const enum ibv_advise_mr_advice write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    size_t page = page_size();
    uint8_t *at = map(2 * page, PROT_READ | PROT_WRITE);
    struct ibv_pd *pd = ibv_alloc_pd(api->context);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, 2 * page, IBV_ACCESS_ON_DEMAND);
    struct ibv_mr *other = ibv_reg_mr(pd, at, page, RIGHTS);
    struct ibv_mr *pinned = ibv_reg_mr(api->pd, at, page, 0);

    assert_int_equal(advise(api, (enum ibv_advise_mr_advice)9, 0, at, 1, mr->lkey), EOPNOTSUPP);
    assert_int_equal(advise(api, read, 2, at, 1, mr->lkey), EINVAL);
    assert_int_equal(ibv_advise_mr(api->pd, read, 0, NULL, 0), EINVAL);
    assert_int_equal(advise(api, read, 0, at, 1, mr->lkey ^ 1), ENOENT);
    assert_int_equal(advise(api, read, 0, at, 1, pinned->lkey), ENOENT);
    assert_int_equal(advise(api, read, 0, at, 1, other->lkey), EPERM);
    assert_int_equal(advise(api, write, 0, at, 1, mr->lkey), EPERM);
    assert_int_equal(advise(api, read, 0, at, 2 * page + 1, mr->lkey), EFAULT);
    assert_int_equal(advise(api, read, 0, at - 1, 1, mr->lkey), EFAULT);
    munmap(at + page, page);
    assert_int_equal(advise(api, read, 0, at, page, mr->lkey), 0);
    assert_int_equal(advise(api, read, 0, at, page + 1, mr->lkey), EFAULT);
    ibv_dereg_mr(mr);
    ibv_dereg_mr(other);
    ibv_dereg_mr(pinned);
    ibv_dealloc_pd(pd);
    munmap(at, page);
}

int main(int count, char **words)
{
    (void)words;
    if (count > 1)
        return flickering_process();
    const struct CMUnitTest tests[] = {
        API_TEST(query_device__on_demand_paging__has_the_capabilities),
        API_TEST(implicit_mr__covers_all_memory__also_mapped_later),
        API_TEST(explicit_mr__registered_before_it_is_mapped__faults_when_it_is_used),
        API_TEST(memory__unusable_when_a_peer_accesses_it__access_is_refused),
        API_TEST(memory__unusable_when_accessed_locally__protection_error),
        API_TEST(memory__unmapped_by_a_thread_during_the_copy__access_is_refused),
        API_TEST(advise_mr__prefetch__faults_pages_in),
        API_TEST(prefetch__wrong_arguments__has_the_right_errno),
    };
    return API_RUN(tests);
}
