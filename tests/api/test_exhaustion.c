/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exhaustion.c - tests a program that runs out of memory. When its device is open, the test
 * limits the address space to a little more than the program uses. Then it creates objects of each
 * kind until a call fails.
 */
#include "api/api.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#define KINDS      7
#define OBJECTS    200000u
#define ROUNDS     5u
#define ROOM_LEAST (256u * 1024) /* free address space in the last round, bytes */
#define ROOM_STEP  (37u * 4096)

static struct ibv_cq *cq; /* CQ of all queue pairs */
static uint8_t octets[64];
static void *objects[OBJECTS];

/* ---- the kinds of objects ------------------------------------------------ */

static void *make_cq(const struct api *api)
{
    return ibv_create_cq(api->context, 64, NULL, NULL, 0);
}

static int end_cq(void *object)
{
    return ibv_destroy_cq(object);
}

static void *make_qp(const struct api *api)
{
    struct ibv_qp_init_attr attr = api_qp_attr(cq);

    return ibv_create_qp(api->pd, &attr);
}

static int end_qp(void *object)
{
    return ibv_destroy_qp(object);
}

static void *make_srq(const struct api *api)
{
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 64, .max_sge = 2 } };

    return ibv_create_srq(api->pd, &attr);
}

static int end_srq(void *object)
{
    return ibv_destroy_srq(object);
}

static void *make_mr(const struct api *api)
{
    return ibv_reg_mr(api->pd, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *object)
{
    return ibv_dereg_mr(object);
}

static void *make_mw(const struct api *api)
{
    return ibv_alloc_mw(api->pd, IBV_MW_TYPE_2);
}

static int end_mw(void *object)
{
    return ibv_dealloc_mw(object);
}

static void *make_pd(const struct api *api)
{
    return ibv_alloc_pd(api->context);
}

static int end_pd(void *object)
{
    return ibv_dealloc_pd(object);
}

static void *make_ah(const struct api *api)
{
    struct ibv_ah_attr address = api_attr(api, 0).ah_attr;

    return ibv_create_ah(api->pd, &address);
}

static int end_ah(void *object)
{
    return ibv_destroy_ah(object);
}

static const struct kind {
    void *(*make)(const struct api *api);
    int (*end)(void *object);
} kinds[KINDS] = {
    { make_cq, end_cq }, { make_qp, end_qp }, { make_srq, end_srq }, { make_mr, end_mr },
    { make_mw, end_mw }, { make_pd, end_pd }, { make_ah, end_ah },
};

/* ---- memory -------------------------------------------------------------- */

/* Limits the address space to @room bytes more than its present size. */
static void leave(size_t room)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%lu", &pages), 1);
    assert_int_equal(fclose(statm), 0);
    struct rlimit limit = { pages * (size_t)sysconf(_SC_PAGESIZE) + room, RLIM_INFINITY };
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static void lift(void)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Returns the allocated memory. GLIBC_TUNABLES in meson.build disables thread caches, which would
 * count as in use. */
static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* ---- the rounds ---------------------------------------------------------- */

/* Creates an object. Asserts that a failure is ENOMEM, whatever the kind. */
static void *attempt(const struct kind *kind, const struct api *api)
{
    errno = 0;
    void *object = kind->make(api);
    if (object == NULL)
        assert_int_equal(errno, ENOMEM);
    return object;
}

/* Uses up all memory, and then creates an object of each kind, which may fail. */
static void exhaust(const struct kind *kind, const struct api *api)
{
    size_t count = 0;

    while (count < OBJECTS && (objects[count] = attempt(kind, api)) != NULL)
        count++;
    assert_true(count > 0 && count < OBJECTS);
    for (size_t i = 0; i < KINDS; i++) {
        void *other = attempt(&kinds[i], api);
        if (other != NULL)
            assert_int_equal(kinds[i].end(other), 0);
    }
    while (count > 0)
        assert_int_equal(kind->end(objects[--count]), 0);
}

static void talk(const struct api *api)
{
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    for (unsigned i = 0; i < 20; i++) {
        struct side *from = i % 2 ? &pair.b : &pair.a, *to = i % 2 ? &pair.a : &pair.b;
        struct ibv_sge source = api_sge(from, 0, 4096), sink = api_sge(to, 4096, 4096);
        struct ibv_send_wr send = api_send(IBV_WR_SEND, &source);
        memset(from->buffer, (int)i + 1, 4096);
        assert_int_equal(api_post_recv(to, 2, &sink), 0);
        assert_int_equal(api_post_send(from, &send), 0);
        api_expect(from->cq, 1, IBV_WC_SUCCESS);
        api_expect(to->cq, 2, IBV_WC_SUCCESS);
        assert_memory_equal(from->buffer, to->buffer + 4096, 4096);
    }
    api_pair_close(&pair);
}

/* Repeats rounds with less and less free memory. The first round leaves memory that is allocated
 * once, such as tables. */
static void wear_out(const struct kind *kind, const struct api *api)
{
    size_t before = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        leave(ROOM_LEAST + (ROUNDS - 1 - round) * ROOM_STEP);
        exhaust(kind, api);
        lift();
        if (round > 0)
            assert_int_equal(in_use(), before);
        before = in_use();
    }
}

static void memory__runs_out_while_objects_are_created__enomem_and_no_leak(void **state)
{
    const struct api *api = *state;

    cq = api_cq(api, 64);
    talk(api);
    for (size_t i = 0; i < KINDS; i++) {
        wear_out(&kinds[i], api);
        talk(api);
    }
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(memory__runs_out_while_objects_are_created__enomem_and_no_leak),
    };
    return API_RUN(tests);
}
