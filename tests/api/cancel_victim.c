/* SPDX-License-Identifier: BSD-3-Clause */
/* cancel_victim.c - starts and cancels threads, and has the functions of the threads that call
 * rdma_cm. */
#include "api/cancel.h"

#include <stdio.h>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#define WAIT_MS 60000 /* a guard against hanging */

/* ---- a thread ------------------------------------------------------------ */

static void ended(void *argument)
{
    (void)argument;
    if (cancel_inside == NULL)
        return;
    (void)fprintf(stderr, "cancelled inside of %s\n", cancel_inside);
    abort();
}

static void *live(void *argument)
{
    struct cancel_victim *victim = argument;

    pthread_cleanup_push(ended, NULL);
    for (;;) {
        victim->turn();
        atomic_fetch_add(&victim->turns, 1);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

void cancel_start(struct cancel_victim *victim, void (*turn)(void))
{
    victim->turn = turn;
    atomic_store(&victim->turns, 0);
    assert_int_equal(pthread_create(&victim->thread, NULL, live, victim), 0);
}

void cancel_end(struct cancel_victim *victim)
{
    void *result;

    assert_int_equal(pthread_cancel(victim->thread), 0);
    assert_int_equal(pthread_join(victim->thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
}

/* ---- rdma_cm ------------------------------------------------------------- */

static struct rdma_event_channel *waited;
static struct rdma_cm_id *resolving;
static struct sockaddr_in first, second;
static unsigned raised;
static atomic_uint taken;

static struct sockaddr_in address_of(struct ibv_context *context)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    union ibv_gid gid;

    assert_int_equal(ibv_query_gid(context, API_PORT, API_GID, &gid), 0);
    __builtin_memcpy(&address.sin_addr, gid.raw + 12, sizeof address.sin_addr);
    return address;
}

void cancel_cm_open(void)
{
    first = address_of(cancel_devices.contexts[0]);
    second = address_of(cancel_devices.contexts[1]);
    waited = rdma_create_event_channel();
    assert_non_null(waited);
    assert_int_equal(rdma_create_id(waited, &resolving, NULL, RDMA_PS_TCP), 0);
    second.sin_port = htons(9);
}

void cancel_cm_turn(void)
{
    struct rdma_event_channel *channel = CANCEL_CALL(rdma_create_event_channel());
    struct rdma_cm_id *id;
    struct rdma_cm_event *event;
    struct sockaddr_in address = first;

    CANCEL_MUST(channel != NULL);
    CANCEL_MUST(CANCEL_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_bind_addr(id, (struct sockaddr *)&address)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_listen(id, 4)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_destroy_id(id)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&second, WAIT_MS)) == 0);
    /* If the thread is cancelled here, its identifier and channel leak, as in any program. */
    CANCEL_MUST(CANCEL_WAIT(rdma_get_cm_event(channel, &event)) == 0);
    CANCEL_MUST(event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
    CANCEL_MUST(CANCEL_CALL(rdma_ack_cm_event(event)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_destroy_id(id)) == 0);
    CANCEL_CALL((rdma_destroy_event_channel(channel), 0));
}

void cancel_cm_raise(void)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(waited, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&second, WAIT_MS), 0);
    raised++;
}

void cancel_cm_wait(void)
{
    struct rdma_cm_event *event;

    CANCEL_MUST(CANCEL_WAIT(rdma_get_cm_event(waited, &event)) == 0);
    struct rdma_cm_id *id = event->id;
    CANCEL_MUST(CANCEL_CALL(rdma_ack_cm_event(event)) == 0);
    CANCEL_MUST(CANCEL_CALL(rdma_destroy_id(id)) == 0);
    atomic_fetch_add(&taken, 1);
}

void cancel_cm_take_rest(void)
{
    while (atomic_load(&taken) < raised)
        cancel_cm_wait();
    assert_int_equal(rdma_destroy_id(resolving), 0);
    rdma_destroy_event_channel(waited);
}
