/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c - see fork.h for the contract.
 *
 * The child has the memory of its parent, but not its threads, and it must not use the ports of the
 * parent. It abandons the parent's devices: it closes their descriptors, and does not change their
 * memory. The parent is not affected, because the engine copies packets with the processor and pins
 * no pages.
 */
#define _GNU_SOURCE /* MADV_WIPEONFORK, pthread_cond_clockwait */
#include "host/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host/device.h"
#include "host/report/pcap.h"

#define PARTS          4u
#define START_WAIT_MAX URO_MS(1000) /* longest wait of fork() for a device that is starting */

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* since Linux 4.14 */
#endif

static struct uro_device **_Atomic watched;
/* True if prepare() did nothing. In a child that was created without the handlers, any lock may be
 * held for ever. */
static bool skipped;
static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER; /* one fork() at a time */

/* ---- generations --------------------------------------------------------- */

/* The generation is in a page that the kernel sets to zero in each child. Linux before 4.14 does
 * not do that. There, uroce detects only children of fork(). */
static _Atomic uint32_t first = 1;
static _Atomic uint32_t *number = &first;
static uint32_t last = 1; /* generation in memory that the kernel does not set to zero */

static void make_page(void)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, size);
        return;
    }
    number = page;
    atomic_store(number, last);
}

uint32_t uro_fork_generation(void)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* ---- parts --------------------------------------------------------------- */

static const struct uro_fork_part *parts[URO_FORK_RANKS][PARTS];
static atomic_uint part_counts[URO_FORK_RANKS];
/* Number of parts whose prepare() was called. Another thread may register a part during the
 * fork(). */
static unsigned called[URO_FORK_RANKS];
static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;

void uro_fork_join(enum uro_fork_rank rank, const struct uro_fork_part *part)
{
    (void)pthread_mutex_lock(&joining);
    unsigned count = atomic_load(&part_counts[rank]);
    URO_ASSERT(count < PARTS);
    parts[rank][count] = part;
    atomic_store(&part_counts[rank], count + 1);
    (void)pthread_mutex_unlock(&joining);
}

static void prepare_parts(enum uro_fork_rank rank)
{
    called[rank] = atomic_load(&part_counts[rank]);
    for (unsigned i = 0; i < called[rank]; i++)
        parts[rank][i]->prepare();
}

static void end_parts(enum uro_fork_rank rank, bool child)
{
    for (unsigned i = called[rank]; i-- > 0;)
        child ? parts[rank][i]->child() : parts[rank][i]->parent();
}

/* ---- before -------------------------------------------------------------- */

/* Takes the start lock of the device. While the device starts, waits for a limited time, because
 * the child could not find the descriptors of a device that is starting. */
static void lock_start(struct uro_device *device)
{
    const uro_time until = uro_device_now() + START_WAIT_MAX;
    const struct timespec end = { .tv_sec = (time_t)(until / 1000000000u),
                                  .tv_nsec = (long)(until % 1000000000u) };

    (void)pthread_mutex_lock(&device->start_lock);
    while (atomic_load(&device->life) == URO_DEVICE_STARTING)
        if (pthread_cond_clockwait(&device->start_done, &device->start_lock, CLOCK_MONOTONIC,
                                   &end) != 0)
            return;
}

/* Stops the engines while the address space is copied, so that the child has consistent objects. */
static void prepare(void)
{
    skipped = uro_host_cloned();
    if (skipped)
        return;
    (void)pthread_mutex_lock(&forking);
    prepare_parts(URO_FORK_OUTER);
    for (struct uro_device **device = watched; *device != NULL; device++)
        for (struct uro_device *engine = *device; engine != NULL; engine = engine->next_engine)
            lock_start(engine);
    for (struct uro_device **device = watched; *device != NULL; device++)
        for (struct uro_device *engine = *device; engine != NULL; engine = engine->next_engine)
            (void)pthread_mutex_lock(&engine->mutex);
    prepare_parts(URO_FORK_INNER);
}

static void unlock(struct uro_device *device)
{
    (void)pthread_mutex_unlock(&device->mutex);
    (void)pthread_mutex_unlock(&device->start_lock);
}

/* Wakes the service threads. A thread that posted during the fork() found the engine lock taken, so
 * the service thread must send its request. */
static void in_parent(void)
{
    if (skipped)
        return;
    end_parts(URO_FORK_INNER, false);
    for (struct uro_device **device = watched; *device != NULL; device++)
        for (struct uro_device *engine = *device; engine != NULL; engine = engine->next_engine) {
            unlock(engine);
            if (atomic_load(&engine->life) == URO_DEVICE_RUNNING)
                uro_service_wake(engine);
        }
    end_parts(URO_FORK_OUTER, false);
    (void)pthread_mutex_unlock(&forking);
}

/* ---- in the child -------------------------------------------------------- */

static void close_descriptors(struct uro_device *device)
{
    uro_stats_abandon(&device->stats);
    uro_pcap_abandon(device);
    uro_device_close_fds(device);
    if (device->port != NULL && !device->closed)
        uro_port_forked(device->port);
}

static bool was_used(const struct uro_device *device)
{
    const int life = atomic_load(&device->life);

    return life == URO_DEVICE_STARTING || life == URO_DEVICE_RUNNING;
}

/* Returns whether the driver works in one process only. True for DPDK, which a process can
 * initialize only once. */
static bool is_of_one_process(const struct uro_device *device)
{
    return uro_port_driver_has(device->config.driver, URO_DRIVER_ONE_PROCESS);
}

/* Returns whether a device was started whose driver works in one process only. All such drivers use
 * the same library. */
static bool one_process_was_used(void)
{
    for (struct uro_device **device = watched; *device != NULL; device++)
        if (is_of_one_process(*device) && atomic_load(&(*device)->life) != URO_DEVICE_IDLE)
            return true;
    return false;
}

/* Abandons all engines of a device that was used in the parent. */
static void abandon(struct uro_device *device)
{
    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine) {
        if (was_used(engine))
            close_descriptors(engine);
        atomic_store(&engine->life, URO_DEVICE_FAILED);
    }
}

static bool abandoned; /* whether a device ran in the parent when this process was forked */

bool uro_fork_abandoned(void)
{
    return abandoned;
}

static void in_child(void)
{
    if (skipped)
        return;
    const bool was_started = one_process_was_used();

    abandoned = false;
    atomic_store(number, ++last);
    for (struct uro_device **entry = watched; *entry != NULL; entry++) {
        struct uro_device *device = *entry;
        const bool stays = is_of_one_process(device);
        for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine)
            unlock(engine);
        if (was_used(device)) {
            abandon(device);
            abandoned = true;
            if (!stays)
                *entry = uro_host_make_for_child(device);
        } else if (!stays || !was_started) {
            for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine)
                engine->generation = last;
        }
    }
    uro_quota_forked();
    end_parts(URO_FORK_INNER, true);
    end_parts(URO_FORK_OUTER, true);
    (void)pthread_mutex_unlock(&forking);
}

void uro_fork_watch_list(struct uro_device **devices)
{
    atomic_store(&watched, devices);
}

void uro_fork_watch(struct uro_device **devices)
{
    uro_fork_watch_list(devices);
    make_page();
    (void)pthread_atfork(prepare, in_parent, in_child);
}

/* ---- dead devices -------------------------------------------------------- */

bool uro_device_dead(const struct uro_device *device)
{
    return device->generation != uro_fork_generation();
}

bool uro_device_removed(const struct uro_device *device)
{
    return device->generation == URO_FORK_NEVER;
}

bool uro_host_cloned(void)
{
    return uro_fork_generation() == 0;
}

/* Returns the reason why the device is dead. */
static const char *death_reason(const struct uro_device *device)
{
    if (uro_host_cloned())
        return "this process was created by clone() or _Fork(), which run no fork handlers, so it "
               "cannot use RDMA; create it with fork(), or call exec() first";
    if (uro_device_removed(device))
        return "the device was removed";
    for (struct uro_device **entry = watched; *entry != NULL; entry++)
        if (*entry == device)
            return "a child of fork() cannot use DPDK after its parent did; fork before the device "
                   "is used, or choose link udp, net_memif or net_af_packet";
    return "an object that was created before fork() belongs to the parent; open the device again "
           "in the child";
}

int uro_device_refusal(const struct uro_device *device)
{
    static atomic_uint reported; /* generation in which the message was printed */

    if (!uro_device_dead(device))
        return 0;
    if (atomic_exchange(&reported, last + uro_host_cloned()) != last + uro_host_cloned())
        fprintf(stderr, "uroce: %s: %s\n", device->config.name, death_reason(device));
    return -EIO;
}
