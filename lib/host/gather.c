/* SPDX-License-Identifier: BSD-3-Clause */
/* gather.c - see gather.h. */
#include "host/gather.h"

#define GATHER       500u  /* ns, after posts left, and shorter than any answer takes */
#define GATHER_BURST 1500u /* likewise between the posts of a burst: a round for several of them */
#define GATHER_CALLS                                                                               \
    URO_US(4) /* likewise where each send is a system call, which mostly takes no longer */
#define GATHER_POSTS 32u
#define LONG_BURST   64u         /* posts without a poll: the next one comes soon ... */
#define PAUSE        URO_US(50)  /* ... unless there was one between two of them */
#define POLLS_SOON   URO_US(200) /* that a program has polled: it will again */

/* Where a send takes longer than GATHER_CALLS, so does, in proportion, what a program does between its calls. */
static uro_time slowly(const struct uro_device *device, uro_time usual)
{
    uro_time took = atomic_load_explicit(&device->send_took, memory_order_relaxed);

    if (!device->gathers || took <= GATHER_CALLS)
        return usual;
    return usual * took / GATHER_CALLS;
}

static bool bursts(const struct uro_device *device)
{
    return atomic_load_explicit(&device->posted, memory_order_relaxed) >
           atomic_load_explicit(&device->polled, memory_order_relaxed);
}

/* Likewise, between the posts of a burst. One that is alone must not wait so long: nothing may follow. */
static uro_time in_burst(const struct uro_device *device, uro_time usual)
{
    return bursts(device) ? slowly(device, usual) : usual;
}

/* Whether the service thread looks when the program does not come after all. */
static bool is_safe(const struct uro_device *device, uro_time now)
{
    return device->config.progress != URO_PROGRESS_CALLER &&
           atomic_load(&device->wakes) <= now + URO_STAND_BACK_MAX;
}

static bool polls_soon(const struct uro_device *device, uro_time now)
{
    return now - atomic_load_explicit(&device->polled, memory_order_relaxed) <
           in_burst(device, POLLS_SOON);
}

/* Whether sending may wait for the next call, which will be soon. */
static bool may_wait(const struct uro_device *device, uro_time now)
{
    return polls_soon(device, now) && is_safe(device, now);
}

static bool paused(const struct uro_device *device, uro_time now)
{
    return now - atomic_load_explicit(&device->posted, memory_order_relaxed) >=
           in_burst(device, PAUSE);
}

/* A program with many queue pairs that finds room in all of them posts for longer than others stay away. */
static bool goes_on(const struct uro_device *device, uro_time now)
{
    return atomic_load_explicit(&device->burst, memory_order_relaxed) >= LONG_BURST &&
           !paused(device, now);
}

bool uro_gather_leave(struct uro_device *device, bool posted, uro_time now)
{
    uint32_t waited = atomic_exchange_explicit(&device->gathered, 0, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(&device->burst, memory_order_relaxed);
    uint32_t burst = paused(device, now) ? 1 : before + waited + 1;

    atomic_store_explicit(&device->burst, posted ? burst : 0, memory_order_relaxed);
    return posted || waited > 0;
}

void uro_gather_polled(struct uro_device *device)
{
    atomic_store_explicit(&device->burst, 0, memory_order_relaxed);
}

bool uro_gather_post(struct uro_device *device, uro_time now)
{
    uro_time gather = device->gathers  ? in_burst(device, GATHER_CALLS)
                      : bursts(device) ? GATHER_BURST
                                       : GATHER;

    return now - atomic_load_explicit(&device->posted, memory_order_relaxed) < gather &&
           (polls_soon(device, now) || goes_on(device, now)) && is_safe(device, now) &&
           atomic_fetch_add_explicit(&device->gathered, 1, memory_order_relaxed) < GATHER_POSTS;
}

bool uro_gather_receives(const struct uro_device *device, bool posted, uro_time now)
{
    return !(posted && device->gathers && may_wait(device, now));
}
