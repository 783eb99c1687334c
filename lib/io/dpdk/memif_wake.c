/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_wake.c - a memif peer writes an eventfd when it is asked to; DPDK's driver never asks.
 *
 * The memif protocol has a bit in the header of each ring, "do not write the eventfd". DPDK's
 * driver obeys the peer's bit when it sends, and as a receiver sets its own for good. Here the
 * bit is cleared while the port is armed. The ring's place is found through the driver's own
 * structures, whose layout is that of one DPDK release and is checked where it can be: by the
 * port number, the buffer pool and the ring's cookie.
 *
 * A sender stores the ring's head and then loads the bit, without a barrier between, so the load
 * may come first: it may have missed a bit we just cleared, and its frame be invisible yet. The
 * store is visible a moment later, so arm() looks again for that long.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_intr_fd_get(), rte_intr_fd_set() */
#include "io/dpdk/memif_wake.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <rte_interrupts.h>
#include <rte_pause.h>
#include <rte_version.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "io/dpdk/dpdk.h"
#include "io/dpdk/queue.h"

/* Of the protocol: a ring begins with them. */
enum { AT_COOKIE = 0, AT_FLAGS = 4 };
#define COOKIE 0x3E31F20u
static const uint16_t mask_interrupt = 1;

/* Of the driver in DPDK 22.11, 64 bit: its queue, and DPDK's device. */
enum { AT_POOL = 0, AT_REGION = 20, AT_PORT = 22, AT_OFFSET = 24, AT_INTERRUPT = 56 };
enum { AT_PROCESS_PRIVATE = 56 };

#define LOOKS       8 /* with the pauses between, a few microseconds */
#define LOOK_PAUSES 16
#define RETRY_NS    20000000

static const uint8_t *queue_of(const struct uro_dpdk *dpdk)
{
    void **queues = rte_eth_fp_ops[dpdk->id].rxq.data;

    return queues == NULL ? NULL : queues[0];
}

static const uint8_t *pointer_at(const uint8_t *base, size_t at)
{
    const uint8_t *pointer;

    memcpy(&pointer, base + at, sizeof pointer);
    return pointer;
}

static uint16_t u16_at(const uint8_t *base, size_t at)
{
    uint16_t value;

    memcpy(&value, base + at, sizeof value);
    return value;
}

static uint32_t u32_at(const uint8_t *base, size_t at)
{
    uint32_t value;

    memcpy(&value, base + at, sizeof value);
    return value;
}

bool uro_memif_wake_known(const struct uro_dpdk *dpdk)
{
    (void)dpdk;
    return sizeof(void *) == 8 && RTE_VERSION >= RTE_VERSION_NUM(22, 11, 0, 0) &&
           RTE_VERSION <= RTE_VERSION_NUM(22, 11, 99, 99);
}

static bool watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool uro_memif_wake_start(struct uro_dpdk *dpdk)
{
    struct uro_memif_wake *wake = &dpdk->memif.wake;

    wake->retry = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return watch(dpdk->wait.epoll, wake->retry);
}

void uro_memif_wake_stop(struct uro_dpdk *dpdk)
{
    uro_memif_enter(&dpdk->memif);
    uro_memif_wake_gone(dpdk);
    uro_memif_leave(&dpdk->memif);
    if (dpdk->memif.wake.retry >= 0)
        close(dpdk->memif.wake.retry);
    dpdk->memif.wake.retry = -1;
}

void uro_memif_wake_gone(struct uro_dpdk *dpdk)
{
    struct uro_memif_wake *wake = &dpdk->memif.wake;

    wake->ring = NULL;
    if (wake->doorbell < 0)
        return;
    epoll_ctl(dpdk->wait.epoll, EPOLL_CTL_DEL, wake->doorbell, NULL);
    close(wake->doorbell);
    wake->doorbell = -1;
}

/* With the lock held and the peer connected. */
static void resolve(struct uro_dpdk *dpdk)
{
    struct uro_memif_wake *wake = &dpdk->memif.wake;
    const uint8_t *queue = queue_of(dpdk);

    if (queue == NULL || u16_at(queue, AT_PORT) != dpdk->id ||
        pointer_at(queue, AT_POOL) != (const uint8_t *)dpdk->pool)
        return;
    const uint8_t *regions = pointer_at(dpdk->memif.device, AT_PROCESS_PRIVATE);
    const uint8_t *region = pointer_at(regions, u16_at(queue, AT_REGION) * sizeof(void *));
    if (region == NULL)
        return;
    const uint8_t *memory = pointer_at(region, 0);
    if (memory == NULL)
        return;
    uint8_t *ring = (uint8_t *)(uintptr_t)memory + u32_at(queue, AT_OFFSET);
    if (u32_at(ring, AT_COOKIE) != COOKIE)
        return;
    struct rte_intr_handle *handle = (void *)(uintptr_t)pointer_at(queue, AT_INTERRUPT);
    int doorbell = rte_intr_fd_get(handle);
    if (!watch(dpdk->wait.epoll, doorbell))
        return;
    /* Ours from now on: the driver would read it whenever it looks for frames and the bit is clear. */
    (void)rte_intr_fd_set(handle, -1);
    wake->doorbell = doorbell;
    wake->ring = ring;
}

static void ask(const struct uro_memif_wake *wake, bool wanted)
{
    _Atomic uint16_t *flags = (_Atomic uint16_t *)(void *)(wake->ring + AT_FLAGS);

    atomic_store(flags, wanted ? 0 : mask_interrupt);
}

static void empty(int fd)
{
    uint64_t count;

    if (fd >= 0)
        (void)!read(fd, &count, sizeof count);
}

static void set_retry(struct uro_memif_wake *wake, bool on)
{
    struct itimerspec when = { .it_value = { .tv_nsec = on ? RETRY_NS : 0 } };

    if (wake->retry < 0 || wake->retrying == on)
        return;
    wake->retrying = on;
    timerfd_settime(wake->retry, 0, &when, NULL);
    if (!on)
        empty(wake->retry);
}

bool uro_memif_wake_arm(struct uro_dpdk *dpdk)
{
    struct uro_memif *memif = &dpdk->memif;
    struct uro_memif_wake *wake = &memif->wake;
    bool asked = false;

    uro_memif_enter(memif);
    if (atomic_load(&memif->connected)) {
        if (wake->ring == NULL)
            resolve(dpdk);
        if (wake->ring != NULL)
            ask(wake, true);
        asked = wake->ring != NULL;
    }
    uro_memif_leave(memif);

    if (!asked) {
        set_retry(wake, memif->client || atomic_load(&memif->connected));
        return !uro_queue_peek(dpdk);
    }
    for (unsigned i = 0; i < LOOKS; i++) {
        if (uro_queue_peek(dpdk))
            return false;
        for (unsigned pause = 0; pause < LOOK_PAUSES; pause++)
            rte_pause();
    }
    return true;
}

void uro_memif_wake_disarm(struct uro_dpdk *dpdk)
{
    struct uro_memif *memif = &dpdk->memif;
    struct uro_memif_wake *wake = &memif->wake;

    uro_memif_enter(memif);
    if (wake->ring != NULL)
        ask(wake, false);
    empty(wake->doorbell);
    uro_memif_leave(memif);
    set_retry(wake, false);
}
