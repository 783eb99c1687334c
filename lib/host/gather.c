/* SPDX-License-Identifier: BSD-3-Clause */
/* gather.c - see gather.h. */
#include "host/gather.h"

#define GATHER       500u  /* ns, after a send, and shorter than any answer takes */
#define GATHER_BURST 1500u /* likewise between the posts of a burst: a round for several of them */
#define GATHER_CALLS                                                                               \
    URO_US(4) /* likewise where each send is a system call, which mostly takes no longer */
#define GATHER_POSTS 32u
#define LONG_BURST   64u         /* posts without a poll: the next one comes soon ... */
#define PAUSE        URO_US(50)  /* ... unless there was one between two of them */
#define POLLS_SOON   URO_US(200) /* that a program has polled: it will again */
#define ANSWER       URO_US(2)   /* in which a program that got something posts its answer */
#define DISTRUST     64 /* finds that are answered at once, when it was late too often: ... */
#define TRUST        64
#define TRUST_AGAIN  16 /* after that, and at first */
#define LATE         8  /* ... more than once in so many */

/* Where a send takes longer than GATHER_CALLS, so does, in proportion, what a program does between its calls. */
static uro_time slowly(const struct uro_device *device, uro_time usual)
{
    uro_time took = atomic_load_explicit(&device->send_took, memory_order_relaxed);

    if (!device->port->gathers || took <= GATHER_CALLS)
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

static bool is_late(const struct uro_device *device, uro_time now)
{
    return now - device->owes_since >= slowly(device, URO_GATHER_HOLD);
}

void uro_gather_leave(struct uro_device *device, bool posted, uro_time now)
{
    uint32_t waited = atomic_exchange_explicit(&device->gathered, 0, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(&device->burst, memory_order_relaxed);
    uint32_t burst = paused(device, now) ? 1 : before + waited + 1;

    atomic_store_explicit(&device->burst, posted ? burst : 0, memory_order_relaxed);
    if (posted || (waited > 0 && !device->owes)) /* in time for an answer, or not */
        device->answers = !is_late(device, now);
}

void uro_gather_polled(struct uro_device *device)
{
    atomic_store_explicit(&device->burst, 0, memory_order_relaxed);
}

bool uro_gather_post(struct uro_device *device, uro_time now)
{
    uro_time gather = device->port->gathers ? in_burst(device, GATHER_CALLS)
                      : bursts(device)      ? GATHER_BURST
                                            : GATHER;

    return now - atomic_load_explicit(&device->sent_at, memory_order_relaxed) < gather &&
           (polls_soon(device, now) || goes_on(device, now)) && is_safe(device, now) &&
           atomic_fetch_add_explicit(&device->gathered, 1, memory_order_relaxed) < GATHER_POSTS;
}

/* Peers wait for the answer until the service thread looks. A program that is interrupted now and then is not meant. */
static void come_late(struct uro_device *device)
{
    device->prompt -= LATE;
    if (device->prompt <= 0)
        device->prompt = -DISTRUST;
}

/* How long a program has for its answer. One that only takes what comes makes nobody wait for longer. */
static uro_time answers_within(const struct uro_device *device)
{
    uro_time slow = slowly(device, ANSWER);

    if (!device->answers)
        return ANSWER;
    return slow < URO_GATHER_HOLD ? slow : URO_GATHER_HOLD;
}

/* Whether what is owed leaves with this call. */
static bool is_paid(const struct uro_device *device, bool posted, uro_time now)
{
    return posted || uro_engine_rung(device->engine) ||
           now - device->owes_since >= answers_within(device);
}

/* Whether the program comes back soon for what it was given before it was answered. */
static void judge_answer(struct uro_device *device, bool posted, uro_time now)
{
    if (!device->owes)
        return;
    if (is_late(device, now))
        come_late(device);
    else if (is_paid(device, posted, now))
        device->prompt += device->prompt < TRUST;
}

/* Who posts leaves looking to who polls, where a send costs a call: it is not kept waiting, and what came stays. While
 * an answer is awaited nobody looks, unless the rest of what was sent together may have come meanwhile. */
static enum uro_round_part part_of(const struct uro_device *device, bool posted, uro_time now)
{
    const struct uro_port *port = device->port;

    if (!may_wait(device, now))
        return URO_ROUND_WHOLE;
    if (posted && port->gathers)
        return URO_ROUND_SEND;
    if (device->prompt < 0)
        return URO_ROUND_WHOLE;
    if (device->owes && is_paid(device, posted, now))
        return URO_ROUND_SEND;
    if (device->owes)
        return port->gathers && !port->trickles ? URO_ROUND_NOTHING : URO_ROUND_RECEIVE;
    return posted ? URO_ROUND_WHOLE : URO_ROUND_RECEIVE_FIRST;
}

enum uro_round_part uro_gather_part(struct uro_device *device, bool posted, uro_time now)
{
    judge_answer(device, posted, now);
    enum uro_round_part part = part_of(device, posted, now);
    if (part == URO_ROUND_SEND && !posted && !uro_engine_rung(device->engine))
        device->answers = false; /* its time was over */
    return part;
}

enum uro_round_part uro_gather_thread_part(struct uro_device *device, uro_time now)
{
    uro_time posted = atomic_load_explicit(&device->posted, memory_order_relaxed);

    if (device->owes && is_late(device, now))
        come_late(device);
    if (device->config.progress != URO_PROGRESS_HYBRID || device->owes || device->prompt < 0 ||
        now - posted >= POLLS_SOON)
        return URO_ROUND_WHOLE;
    return URO_ROUND_RECEIVE_FIRST;
}

void uro_gather_found(struct uro_device *device)
{
    device->prompt += device->prompt < 0;
    if (device->prompt == 0)
        device->prompt = TRUST_AGAIN;
}
