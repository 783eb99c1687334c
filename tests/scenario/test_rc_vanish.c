/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_vanish.c - tests on-demand memory that is mapped when a request arrives, and unmapped
 * when its bytes are copied. The engine must refuse the request as for unmapped memory, and
 * continue. Rule KEY.VANISHED. */
#include "inside.h"
#include "scene.h"

static bool vanished;
static unsigned attempts;

static bool there(const uint8_t *at, uint64_t length, bool write)
{
    (void)at;
    (void)length;
    (void)write;
    return true;
}

/* Calls @touch unless the memory has vanished. Returns false if the memory has vanished, like the
 * host's function. */
static bool try_to(void (*touch)(void *argument), void *argument, const uint8_t *at, size_t length)
{
    (void)at;
    assert_true(length > 0);
    attempts++;
    if (!vanished)
        touch(argument);
    return !vanished;
}

static void make_on_demand(struct scene *s, struct uro_key *key)
{
    struct uro_shard *shard = inside_shard(s->engine);

    assert_int_equal(uro_key_deregister(shard, key), 0);
    key->reachable = there;
    uro_key_register(shard, key);
    shard->attempt = try_to;
    vanished = false;
    attempts = 0;
}

/* Opens a connection with on-demand memory: the local memory, or the memory that the peer
 * accesses. */
static struct scene *open_on_demand(bool local)
{
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);

    make_on_demand(s, local ? &s->local_mr->key : &s->remote_mr->key);
    return s;
}

static void refused(struct scene *s, const struct scene_packet *packet)
{
    vanished = true;
    scene_rx(s, 0, packet);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = packet->psn, .syndrome = 0x62));
    scene_expect_mark(s, "KEY.VANISHED");
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    assert_int_equal(scene_counter(s, "access_refused"), 1);
    scene_close(s);
}

static void rc_write__memory_vanishes__access_nak(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(false);
    refused(s, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .dma = 64, .length = 64));
}

static void rc_atomic__memory_vanishes__access_nak(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(false);
    refused(s, PACKET(.op = "RC_FETCH_ADD", .psn = 100, .swap_add = 1));
}

static void rc_read__memory_vanishes__access_nak(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(false);
    vanished = true;
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 64));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62, .msn = 1));
    scene_expect_mark(s, "KEY.VANISHED");
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    scene_close(s);
}

/* The frame contains the bytes at the time of the copy, even if the memory is unmapped later. */
static void rc_read__on_demand__sends_a_copy(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(false);
    scene_fill(s->remote, 7, 3000);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 3000));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024, .fill = 7));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 101, .length = 1024, .fill = 7 + 1024));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 102, .msn = 1, .length = 952,
                           .fill = 7 + 2048));
    assert_int_equal(attempts, 3);
    scene_close(s);
}

/* The copy buffer has space for the copies of one round. The copies of later rounds overwrite
 * them. */
static void rc_read__more_than_the_copy_buffer__reuses_its_start(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(false);
    struct uro_shard *shard = inside_shard(s->engine);
    const uint32_t number = uroce_mr_key(s->remote_mr);
    const uint8_t *first = uro_touch_read(shard, number, s->remote, 1024);
    for (size_t octets = 1024; octets + 1024 <= uro_touch_size(); octets += 1024)
        assert_ptr_equal(uro_touch_read(shard, number, s->remote, 1024), first + octets);
    scene_fill(s->remote, 9, 1024);
    assert_ptr_equal(uro_touch_read(shard, number, s->remote, 1024), first);
    assert_memory_equal(first, s->remote, 1024);
    scene_close(s);
}

static void rc_send__local_memory_vanishes__local_protection_error(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(true);
    vanished = true;
    scene_post_send(s, SEND(.id = 1, .length = 64));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    scene_expect_mark(s, "KEY.VANISHED");
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

static void rc_memory__always_mapped__is_accessed_without_fault_handler(void **state)
{
    (void)state;
    struct scene *s = open_on_demand(true); /* another region of the device */
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .dma = 64, .length = 64));
    scene_rx(s, 0, PACKET(.op = "RC_FETCH_ADD", .psn = 101, .swap_add = 0));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_ATOMIC_ACK", .psn = 101, .msn = 2,
                           .original = *(uint64_t *)(void *)s->remote));
    assert_int_equal(attempts, 0);
    scene_close(s);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rc_write__memory_vanishes__access_nak),
        TEST(rc_atomic__memory_vanishes__access_nak),
        TEST(rc_read__memory_vanishes__access_nak),
        TEST(rc_read__on_demand__sends_a_copy),
        TEST(rc_read__more_than_the_copy_buffer__reuses_its_start),
        TEST(rc_send__local_memory_vanishes__local_protection_error),
        TEST(rc_memory__always_mapped__is_accessed_without_fault_handler),
    };
    return cmocka_run_group_tests_name("scenario/rc_vanish", tests, NULL, NULL);
}
