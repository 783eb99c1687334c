/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests impair= while other things happen: its plan changes thousands of times while messages
 * flow, and a forked child opens the device anew. Each message must arrive once, in order and
 * whole. Two threads change the plan through the page that `uroce impair` writes. The messages go
 * to a second device: frames of a device to itself have no faults. tools/check also runs this test
 * with the thread sanitizer, and test_fork.py runs the test of fork().
 */
#include "api/refusals.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/impair/port.h"
#include "stats/impair_page.h"

#define CHANGES 2000u /* minimum number of changes while messages flow */
#define LEAST   1000u /* minimum number of messages meanwhile */
#define FLIGHT  8u    /* maximum number of incomplete messages */
#define LENGTH  (API_BUFFER / FLIGHT)

/* ---- the page of the device --------------------------------------------------------------- */

struct search {
    const char *device;
    char path[600];
};

static void see(void *context, const struct uro_stats_file *file)
{
    struct search *search = context;

    if (file->error == 0 && file->kind == URO_STATS_PROCESS && file->page->header.pid == getpid() &&
        strcmp(file->page->device, search->device) == 0)
        (void)snprintf(search->path, sizeof search->path, "%s/%s", file->directory, file->name);
}

/* Maps the page of a device of this process as `uroce impair` does. Returns NULL on failure. */
static struct uro_stats_page *map_page(const char *device)
{
    struct search search = { .device = device };

    if (uro_stats_read(geteuid(), see, &search) != 0)
        return NULL;
    const int fd = open(search.path, O_RDWR | O_CLOEXEC);
    void *page =
        mmap(NULL, sizeof(struct uro_stats_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    return page == MAP_FAILED ? NULL : page;
}

static uint64_t count_of(const struct uro_stats_page *page, enum uro_impair_count count)
{
    return atomic_load(&page->impair.counts[count]);
}

/* ---- messages ------------------------------------------------------------------------------ */

struct flow {
    struct api from, to;
    struct pair pair;
    uint64_t sent, complete, received;
    bool wrong; /* a completion failed, or a message has wrong bytes */
};

/* Opens both devices and connects them. Returns false if a device cannot be opened. */
static bool open_flow(struct flow *flow, const char *from, const char *to)
{
    flow->from = api_open_device(from);
    flow->to = api_open_device(to);
    if (flow->from.pd == NULL || flow->to.pd == NULL)
        return false;
    api_side_open(&flow->from, &flow->pair.a, NULL, IBV_QPT_RC, NULL);
    api_side_open(&flow->to, &flow->pair.b, NULL, IBV_QPT_RC, NULL);
    api_connect(&flow->to, flow->pair.a.qp, flow->pair.b.qp->qp_num);
    api_connect(&flow->from, flow->pair.b.qp, flow->pair.a.qp->qp_num);
    return true;
}

static void close_flow(struct flow *flow)
{
    api_pair_close(&flow->pair);
    api_close_device(&flow->from);
    api_close_device(&flow->to);
}

static bool post(struct flow *flow)
{
    const size_t place = flow->sent % FLIGHT * LENGTH;
    struct ibv_sge from = api_sge(&flow->pair.a, place, LENGTH);
    struct ibv_sge to = api_sge(&flow->pair.b, place, LENGTH);
    struct ibv_send_wr send = api_send(IBV_WR_SEND, &from), *bad_send;
    struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad_recv;

    memset(flow->pair.a.buffer + place, (int)(flow->sent % 251), LENGTH);
    memset(flow->pair.b.buffer + place, 0xff, LENGTH);
    flow->sent++;
    return ibv_post_recv(flow->pair.b.qp, &recv, &bad_recv) == 0 &&
           ibv_post_send(flow->pair.a.qp, &send, &bad_send) == 0;
}

static bool is_whole(const struct flow *flow)
{
    const uint8_t *bytes = flow->pair.b.buffer + flow->received % FLIGHT * LENGTH;

    for (size_t i = 0; i < LENGTH; i++)
        if (bytes[i] != flow->received % 251)
            return false;
    return true;
}

static void poll_both(struct flow *flow)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(flow->pair.b.cq, 1, &wc) > 0) {
        flow->wrong |= wc.status != IBV_WC_SUCCESS || !is_whole(flow);
        flow->received++;
    }
    while (ibv_poll_cq(flow->pair.a.cq, 1, &wc) > 0) {
        flow->wrong |= wc.status != IBV_WC_SUCCESS;
        flow->complete++;
    }
}

/* Sends until @least messages have arrived and @changes is at least @wanted. Returns whether every
 * message was right. */
static bool run(struct flow *flow, uint64_t least, atomic_uint *changes, unsigned wanted)
{
    while (!flow->wrong &&
           (flow->received < least || flow->complete < flow->sent || flow->received < flow->sent ||
            (changes != NULL && atomic_load(changes) < wanted))) {
        const uint64_t done = flow->complete < flow->received ? flow->complete : flow->received;
        const bool more = flow->sent < least || (changes != NULL && atomic_load(changes) < wanted);
        if (more && flow->sent - done < FLIGHT && !post(flow))
            return false;
        poll_both(flow);
    }
    return !flow->wrong;
}

/* ---- changes ------------------------------------------------------------------------------- */

static const char *const plans[] = {
    "loss:5%,seed:3",
    "off",
    "delay:100us+-80us",
    "duplicate:5%,reorder:5%,corrupt:3%",
    "loss:200%", /* wrong, so the previous plan stays */
    "tx,rate:1Gbit,queue:16kB/rx,every:9",
    "burst:1%:50%/only:acks,loss:3%",
    "",
    "down:0s+100us:1ms",
    "delay:20us/only:requests,loss:2%/only:repeats,duplicate:10%",
};

static struct {
    struct uro_stats_page *page;
    atomic_uint changes, applied;
    atomic_bool over;
} changing;

/* Writes plans without a pause. Counts all plans, and those that the device used in time. */
static void *change(void *argument)
{
    struct uro_stats_impair *impair = &changing.page->impair;

    for (unsigned n = (unsigned)(uintptr_t)argument; !atomic_load(&changing.over); n++) {
        const unsigned written = uro_stats_impair_write(impair, plans[n % URO_ARRAY_LEN(plans)]);
        for (unsigned turn = 0; turn < 4 && atomic_load(&impair->applied) != written; turn++)
            (void)sched_yield();
        if (atomic_load(&impair->applied) == written)
            atomic_fetch_add(&changing.applied, 1);
        atomic_fetch_add(&changing.changes, 1);
    }
    return NULL;
}

static void plan__changed_without_a_pause_while_messages_flow__data_is_right(void **state)
{
    static struct flow flow;
    pthread_t threads[2];

    (void)state;
    assert_true(open_flow(&flow, "changed", "peer"));
    changing.page = map_page("changed");
    assert_non_null(changing.page);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, change, (void *)(i * 3)), 0);
    const bool right = run(&flow, LEAST, &changing.changes, CHANGES);
    atomic_store(&changing.over, true);
    for (unsigned i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    assert_true(right);
    assert_int_equal(flow.received, flow.sent);
    assert_true(atomic_load(&changing.applied) > 0);
    const unsigned last = uro_stats_impair_write(&changing.page->impair, "off");
    assert_true(run(&flow, flow.received + 10, NULL, 0));
    assert_int_equal(atomic_load(&changing.page->impair.applied), last);
    while (count_of(changing.page, URO_IMPAIR_COUNT_LOST) == 0) /* written at intervals */
        assert_true(run(&flow, flow.received + 10, NULL, 0));
    assert_int_equal(munmap(changing.page, sizeof *changing.page), 0);
    close_flow(&flow);
}

/* ---- fork ---------------------------------------------------------------------------------- */

/* Uses the device in a forked child. Returns the exit status. */
static int use_anew(void)
{
    static struct flow flow;

    if (!open_flow(&flow, "forked", "other"))
        return 1;
    const struct uro_stats_page *page = map_page("forked");
    if (page == NULL)
        return 2;
    /* Each tenth request is lost. The engine writes the count to the page after some time. */
    while (count_of(page, URO_IMPAIR_COUNT_LOST) == 0)
        if (!run(&flow, flow.received + 20, NULL, 0))
            return 3;
    return page->impair.sequence == 2 ? 0 : 4; /* the plan of the description, not the parent's */
}

static void child__that_opens_the_device_anew__has_the_plan_of_its_description(void **state)
{
    static struct flow flow;
    int status = 0;

    (void)state;
    assert_true(open_flow(&flow, "forked", "other"));
    assert_true(run(&flow, 100, NULL, 0));
    struct uro_stats_page *page = map_page("forked");
    assert_non_null(page);
    (void)uro_stats_impair_write(&page->impair, "off");
    assert_true(run(&flow, 200, NULL, 0));
    const unsigned plan = atomic_load(&page->impair.sequence);
    const pid_t child = fork();
    if (child == 0)
        _exit(use_anew());
    assert_true(run(&flow, 300, NULL, 0)); /* the parent continues meanwhile */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(page->impair.sequence, plan);
    assert_int_equal(page->impair.applied, plan);
    assert_int_equal(munmap(page, sizeof *page), 0);
    close_flow(&flow);
}

/* Runs the test of fork(). `uroce run` has described the devices, and shares their addresses
 * between the processes. */
static int run_fork(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child__that_opens_the_device_anew__has_the_plan_of_its_description),
    };

    return refusals_run(__FILE__, tests, URO_ARRAY_LEN(tests));
}

int main(int argc, char **argv)
{
    char devices[256], changed[API_ADDRESS], peer[API_ADDRESS];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan__changed_without_a_pause_while_messages_flow__data_is_right),
    };

    if (argc > 1 && strcmp(argv[1], "fork") == 0) /* tests/system/test_fork.py */
        return run_fork();
    (void)snprintf(devices, sizeof devices,
                   "changed:udp,ip=%s,hub=no;impair=off peer:udp,ip=%s,hub=no",
                   api_own_address(0, changed), api_own_address(1, peer));
    if (setenv("UROCE_DEVICES", devices, 1) != 0)
        return 1;
    return refusals_run(__FILE__, tests, URO_ARRAY_LEN(tests));
}
