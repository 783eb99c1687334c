/* SPDX-License-Identifier: BSD-3-Clause */
/* test_resolve.c - tests the resolution of a next hop, and how long a caller waits for it. */
#include <errno.h>

#include "base/mark.h"
#include "inside.h"
#include "twins.h"

#define LINK_LOCAL 0u /* GID index of the link-local address */
#define IPV4       1u

static int begin(struct twins *s, struct uro_resolve *resolve, uint8_t index, const char *dest,
                 uro_time wait)
{
    struct uro_gid gid;

    assert_true(uro_gid_parse(dest, &gid));
    return uro_engine_resolve_begin(s->engine->engine, resolve, index, &gid, s->now + wait, s->now);
}

static void resolve__own_address__at_once(void **state)
{
    struct twins *s = *state;
    struct uro_resolve resolve = { 0 };

    assert_int_equal(begin(s, &resolve, IPV4, "10.0.0.1", URO_MS(1)), 0);
    assert_null(uro_engine_resolved(s->engine->engine));
    assert_true(uroce_engine_next(s->engine) <= s->now);
    twins_settle(s);
    assert_ptr_equal(uro_engine_resolved(s->engine->engine), &resolve);
    assert_int_equal(resolve.status, 0);
    assert_null(uro_engine_resolved(s->engine->engine));
    uro_engine_resolve_end(s->engine->engine, &resolve);
    uro_engine_resolve_end(s->engine->engine, &resolve);
}

/* After nine requests, which take 2.6 s, the next hop is lost. Then the engine sends a request
 * every second. The resolution ends only at the caller's deadline. */
static void resolve__no_answer__times_out_as_requested(void **state)
{
    struct twins *s = *state;
    struct uro_resolve soon = { 0 }, late = { 0 };

    assert_int_equal(begin(s, &soon, IPV4, "10.0.0.77", URO_MS(100)), 0);
    assert_int_equal(begin(s, &late, IPV4, "10.0.0.77", URO_MS(3000)), 0);
    twins_pass_time(s, s->now + URO_MS(99));
    assert_null(uro_engine_resolved(s->engine->engine));
    twins_pass_time(s, s->now + URO_MS(2));
    assert_ptr_equal(uro_engine_resolved(s->engine->engine), &soon);
    assert_int_equal(soon.status, -ETIMEDOUT);
    assert_true(uro_mark_hit("CM.RESOLVE.TIMEOUT"));
    twins_pass_time(s, s->now + URO_MS(2800));
    assert_null(uro_engine_resolved(s->engine->engine));
    twins_pass_time(s, s->now + URO_MS(200));
    assert_ptr_equal(uro_engine_resolved(s->engine->engine), &late);
    assert_int_equal(late.status, -ETIMEDOUT);
    uro_engine_resolve_end(s->engine->engine, &soon);
    uro_engine_resolve_end(s->engine->engine, &late);
}

static void resolve__abandoned__no_event(void **state)
{
    struct twins *s = *state;
    struct uro_resolve resolve = { 0 };

    assert_int_equal(begin(s, &resolve, IPV4, "10.0.0.77", URO_MS(100)), 0);
    uro_engine_resolve_end(s->engine->engine, &resolve);
    twins_pass_time(s, s->now + URO_MS(200));
    assert_null(uro_engine_resolved(s->engine->engine));
}

static void resolve__no_route__fails_at_once(void **state)
{
    struct twins *s = *state;
    struct uro_resolve resolve = { 0 };

    assert_int_equal(begin(s, &resolve, IPV4, "192.168.7.7", URO_MS(1)), -ENETUNREACH);
    assert_int_equal(begin(s, &resolve, LINK_LOCAL, "10.0.0.1", URO_MS(1)), -EINVAL);
    assert_null(uro_engine_resolved(s->engine->engine));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resolve__own_address__at_once),
        TEST(resolve__no_answer__times_out_as_requested),
        TEST(resolve__abandoned__no_event),
        TEST(resolve__no_route__fails_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
