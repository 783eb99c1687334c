/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests registered memory that the program unmaps. A network card would keep using the pinned
 * pages. The peer uroce0 sends to two targets. Only the service thread runs uroce1, because the
 * program does not poll. Only the program runs uroce2. If uroce does not handle the page fault, the
 * process is killed.
 */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICES 3
#define RIGHTS                                                                                     \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)
#define OCTETS 1000u
#define GRH    40u

enum { PEER, SERVED, POLLED }; /* devices */

static struct api apis[DEVICES];

/* A connection of the peer, a, and a target, b. The memory belongs to the target. */
struct talk {
    struct pair pair;
    bool polls;
    uint8_t *at; /* the unmapped page, the middle of three pages */
    struct ibv_mr *mr;
    struct ibv_wc received; /* receive completion of the target */
    int receives;
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool mapped(uint8_t *at)
{
    unsigned char there;

    return mincore(at, page_size(), &there) == 0;
}

static void open_talk(struct talk *talk, int victim, enum ibv_qp_type type)
{
    const struct api *peer = &apis[PEER], *own = &apis[victim];
    const size_t page = page_size();

    api_side_open(peer, &talk->pair.a, NULL, type, NULL);
    api_side_open(own, &talk->pair.b, NULL, type, NULL);
    api_connect(own, talk->pair.a.qp, talk->pair.b.qp->qp_num);
    api_connect(peer, talk->pair.b.qp, talk->pair.a.qp->qp_num);
    memset(talk->pair.a.buffer, 0x77, sizeof talk->pair.a.buffer);
    talk->polls = victim == POLLED;
    talk->receives = 0;
    uint8_t *pages =
        mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    memset(pages, 0xcc, 3 * page);
    talk->at = pages + page;
    talk->mr = ibv_reg_mr(own->pd, pages, 3 * page, RIGHTS);
    assert_non_null(talk->mr);
}

static void all_are(const uint8_t *at, size_t length, uint8_t value)
{
    for (size_t i = 0; i < length; i++)
        assert_int_equal(at[i], value);
}

static void unmap(const struct talk *talk)
{
    assert_int_equal(munmap(talk->at, page_size()), 0);
    assert_false(mapped(talk->at));
}

/* Ends the connection and unmaps all its memory. After that, the program can map the addresses
 * again. */
static void close_talk(struct talk *talk)
{
    const size_t size = 3 * page_size();
    uint8_t *pages = talk->at - page_size();

    api_pair_close(&talk->pair);
    assert_int_equal(ibv_dereg_mr(talk->mr), 0);
    assert_int_equal(munmap(pages, size), 0);
    assert_ptr_equal(
        mmap(pages, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
        pages);
    all_are(pages, size, 0);
    assert_int_equal(munmap(pages, size), 0);
}

static struct ibv_sge gone(const struct talk *talk, uint32_t length)
{
    return (struct ibv_sge){ (uintptr_t)talk->at, length, talk->mr->lkey };
}

static void poll_victim(struct talk *talk)
{
    int count = ibv_poll_cq(talk->pair.b.cq, 1, &talk->received);

    assert_in_range(count, 0, 1);
    talk->receives += count;
}

/* Returns the completion status of the peer's request. If only the program runs the engine of the
 * target, also polls the CQ of the target. */
static enum ibv_wc_status ending(struct talk *talk)
{
    struct ibv_wc wc;
    int count;

    while ((count = ibv_poll_cq(talk->pair.a.cq, 1, &wc)) == 0)
        if (talk->polls)
            poll_victim(talk);
    assert_int_equal(count, 1);
    return wc.status;
}

static void received(struct talk *talk, uint32_t octets)
{
    while (talk->receives == 0)
        poll_victim(talk);
    assert_int_equal(talk->received.status, IBV_WC_SUCCESS);
    assert_int_equal(talk->received.byte_len, octets);
}

static enum ibv_wc_status one_sided(struct talk *talk, enum ibv_wr_opcode opcode,
                                    struct ibv_sge local, uint8_t *remote)
{
    struct ibv_send_wr wr = api_send(opcode, &local);

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)remote;
        wr.wr.atomic.rkey = talk->mr->rkey;
        wr.wr.atomic.compare_add = 5;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)remote;
        wr.wr.rdma.rkey = talk->mr->rkey;
    }
    assert_int_equal(api_post_send(&talk->pair.a, &wr), 0);
    return ending(talk);
}

/* ---- accesses by a peer -------------------------------------------------- */

static void send_finds_it_gone(int victim)
{
    struct talk talk;

    open_talk(&talk, victim, IBV_QPT_RC);
    struct ibv_sge to = gone(&talk, OCTETS), from = api_sge(&talk.pair.a, 0, OCTETS);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    assert_int_equal(api_post_recv(&talk.pair.b, 2, &to), 0);
    unmap(&talk);
    assert_int_equal(api_post_send(&talk.pair.a, &wr), 0);
    assert_int_equal(ending(&talk), IBV_WC_SUCCESS);
    received(&talk, OCTETS);
    all_are(talk.at, OCTETS, 0x77);
    all_are(talk.at + OCTETS, page_size() - OCTETS, 0);
    close_talk(&talk);
}

static void receive__of_unmapped_memory__completes_by_the_service_thread(void **state)
{
    (void)state;
    send_finds_it_gone(SERVED);
}

static void receive__of_unmapped_memory__completes_in_a_poll(void **state)
{
    (void)state;
    send_finds_it_gone(POLLED);
}

/* When UCX ends, it leaves receives posted whose memory it unmaps. */
static void datagram__for_unmapped_memory__completes(void **state)
{
    struct talk talk;

    (void)state;
    open_talk(&talk, POLLED, IBV_QPT_UD);
    struct ibv_qp_attr way = api_attr(&apis[POLLED], 0);
    struct ibv_ah *ah = ibv_create_ah(apis[PEER].pd, &way.ah_attr);
    struct ibv_sge to = gone(&talk, GRH + OCTETS), from = api_sge(&talk.pair.a, 0, OCTETS);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = talk.pair.b.qp->qp_num;
    wr.wr.ud.remote_qkey = API_QKEY;
    assert_int_equal(api_post_recv(&talk.pair.b, 2, &to), 0);
    unmap(&talk);
    assert_int_equal(api_post_send(&talk.pair.a, &wr), 0);
    received(&talk, GRH + OCTETS);
    all_are(talk.at + GRH, OCTETS, 0x77);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    close_talk(&talk);
}

/* Writes to three pages, of which the middle page is unmapped. */
static void write_finds_a_hole(int victim)
{
    struct talk talk;
    size_t page = page_size();

    open_talk(&talk, victim, IBV_QPT_RC);
    unmap(&talk);
    for (int i = 0; i < 4; i++)
        assert_int_equal(one_sided(&talk, IBV_WR_RDMA_WRITE, api_sge(&talk.pair.a, 0, 2048),
                                   talk.at - 2048 + 2048 * i),
                         IBV_WC_SUCCESS);
    all_are(talk.at - page, page - 2048, 0xcc);
    all_are(talk.at - 2048, 2048 + page + 2048, 0x77);
    all_are(talk.at + page + 2048, page - 2048, 0xcc);
    close_talk(&talk);
}

static void write__into_unmapped_memory__is_accepted_by_the_service_thread(void **state)
{
    (void)state;
    write_finds_a_hole(SERVED);
}

static void write__into_unmapped_memory__is_accepted_in_a_poll(void **state)
{
    (void)state;
    write_finds_a_hole(POLLED);
}

static void read_finds_it_gone(int victim)
{
    struct talk talk;
    struct ibv_sge local;

    open_talk(&talk, victim, IBV_QPT_RC);
    unmap(&talk);
    local = api_sge(&talk.pair.a, 0, OCTETS);
    assert_int_equal(one_sided(&talk, IBV_WR_RDMA_READ, local, talk.at - 100), IBV_WC_SUCCESS);
    all_are(talk.pair.a.buffer, 100, 0xcc);
    all_are(talk.pair.a.buffer + 100, OCTETS - 100, 0);
    close_talk(&talk);
}

static void read__of_unmapped_memory__gets_zeros_from_the_service_thread(void **state)
{
    (void)state;
    read_finds_it_gone(SERVED);
}

static void read__of_unmapped_memory__gets_zeros_in_a_poll(void **state)
{
    (void)state;
    read_finds_it_gone(POLLED);
}

static void atomic__on_unmapped_memory__finds_zero(void **state)
{
    struct talk talk;
    uint64_t number;

    (void)state;
    open_talk(&talk, SERVED, IBV_QPT_RC);
    unmap(&talk);
    assert_int_equal(
        one_sided(&talk, IBV_WR_ATOMIC_FETCH_AND_ADD, api_sge(&talk.pair.a, 0, 8), talk.at),
        IBV_WC_SUCCESS);
    all_are(talk.pair.a.buffer, 8, 0);
    memcpy(&number, talk.at, sizeof number);
    assert_int_equal(number, 5);
    close_talk(&talk);
}

/* ---- requests of the program itself -------------------------------------- */

/* Sends within one device, without a link: the engine copies from page to page. */
static void send__from_unmapped_to_unmapped_memory__carries_zeros(void **state)
{
    struct talk talk;
    size_t page = page_size();

    (void)state;
    open_talk(&talk, SERVED, IBV_QPT_RC);
    api_go(&apis[SERVED], talk.pair.b.qp, IBV_QPS_RESET, 0);
    api_connect(&apis[SERVED], talk.pair.b.qp, talk.pair.b.qp->qp_num);
    assert_int_equal(munmap(talk.at, 2 * page), 0);
    struct ibv_sge from = gone(&talk, OCTETS);
    struct ibv_sge to = { from.addr + page, OCTETS, from.lkey };
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    assert_int_equal(api_post_recv(&talk.pair.b, 2, &to), 0);
    assert_int_equal(api_post_send(&talk.pair.b, &wr), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(api_wait(talk.pair.b.cq).status, IBV_WC_SUCCESS);
    all_are(talk.at, OCTETS, 0);
    all_are(talk.at + page, OCTETS, 0);
    close_talk(&talk);
}

static void memory__mapped_again_before_its_use__new_memory_is_used(void **state)
{
    struct talk talk;
    size_t page = page_size();

    (void)state;
    open_talk(&talk, SERVED, IBV_QPT_RC);
    unmap(&talk);
    assert_ptr_equal(
        mmap(talk.at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        talk.at);
    memset(talk.at, 0xee, page);
    assert_int_equal(one_sided(&talk, IBV_WR_RDMA_WRITE, api_sge(&talk.pair.a, 0, 8), talk.at),
                     IBV_WC_SUCCESS);
    all_are(talk.at, 8, 0x77);
    all_are(talk.at + 8, page - 8, 0xee);
    close_talk(&talk);
}

/* ---- the stage ----------------------------------------------------------- */

static void open_all(void)
{
    char line[512], addresses[DEVICES][API_ADDRESS];

    for (unsigned i = 0; i < DEVICES; i++)
        (void)api_own_address(i, addresses[i]);
    (void)snprintf(line, sizeof line,
                   "uroce0:udp,ip=%s uroce1:udp,ip=%s uroce2:udp,ip=%s;progress=caller",
                   addresses[PEER], addresses[SERVED], addresses[POLLED]);
    assert_int_equal(setenv("UROCE_DEVICES", line, 1), 0);
    struct ibv_device **list = ibv_get_device_list(NULL);
    assert_non_null(list);
    for (int i = 0; i < DEVICES; i++) {
        assert_non_null(list[i]);
        apis[i].context = ibv_open_device(list[i]);
        assert_non_null(apis[i].context);
        apis[i].pd = ibv_alloc_pd(apis[i].context);
        assert_non_null(apis[i].pd);
    }
    ibv_free_device_list(list);
}

static void close_all(void)
{
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(ibv_dealloc_pd(apis[i].pd), 0);
        assert_int_equal(ibv_close_device(apis[i].context), 0);
    }
}

static void whole(void **state)
{
    const struct CMUnitTest *test = *state;

    open_all();
    test->test_func(state);
    close_all();
}

/* Runs each test in its own process: cmocka installs a SIGSEGV handler during a test, and a device
 * that was started in an earlier test would not use this handler. */
static void in_child(void **state)
{
    const struct CMUnitTest *test = *state;
    int status;

    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct CMUnitTest one[] = {
            { .name = test->name, .test_func = whole, .initial_state = *state }
        };
        (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is only for the TAP of the parent */
        exit(cmocka_run_group_tests_name("one", one, NULL, NULL));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive__of_unmapped_memory__completes_by_the_service_thread),
        cmocka_unit_test(receive__of_unmapped_memory__completes_in_a_poll),
        cmocka_unit_test(datagram__for_unmapped_memory__completes),
        cmocka_unit_test(write__into_unmapped_memory__is_accepted_by_the_service_thread),
        cmocka_unit_test(write__into_unmapped_memory__is_accepted_in_a_poll),
        cmocka_unit_test(read__of_unmapped_memory__gets_zeros_from_the_service_thread),
        cmocka_unit_test(read__of_unmapped_memory__gets_zeros_in_a_poll),
        cmocka_unit_test(atomic__on_unmapped_memory__finds_zero),
        cmocka_unit_test(send__from_unmapped_to_unmapped_memory__carries_zeros),
        cmocka_unit_test(memory__mapped_again_before_its_use__new_memory_is_used),
    };
    struct CMUnitTest outer[sizeof tests / sizeof *tests];

    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        outer[i] = (struct CMUnitTest){ .name = tests[i].name,
                                        .test_func = in_child,
                                        .initial_state = (void *)(uintptr_t)&tests[i] };
    return cmocka_run_group_tests(outer, NULL, NULL);
}
