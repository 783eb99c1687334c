/* SPDX-License-Identifier: BSD-3-Clause */
/* learn.c - see learn.h. */
#include "host/learn.h"

#define SILENCE_MAX     URO_MS(2) /* who needs more than half of it to come back was away */
#define BALANCE_TOP     64
#define BALANCE_CHARGE  8 /* the thread is in charge from here on, until the balance is 0 again */
#define FOUND_BY_THREAD 2
#define FOUND_BY_CALLER 1
#define IN_VAIN         2u          /* polls in a row: the program waits by polling */
#define ANSWERS         URO_US(200) /* since it posted: its peer may have answered that */
#define REPLY_TOP       8           /* the reply score is from -REPLY_TOP to REPLY_TOP */
#define REPLY_MISSED    4 /* a look in vain costs the program more than one that helps saves */

static void weigh(struct uro_device *device, int change)
{
    int balance = atomic_load_explicit(&device->balance, memory_order_relaxed) + change;

    balance = balance < 0 ? 0 : balance > BALANCE_TOP ? BALANCE_TOP : balance;
    atomic_store_explicit(&device->balance, balance, memory_order_relaxed);
    if (balance == 0)
        atomic_store_explicit(&device->in_charge, false, memory_order_relaxed);
    else if (balance >= BALANCE_CHARGE)
        atomic_store_explicit(&device->in_charge, true, memory_order_relaxed);
}

void uro_learn_caller(struct uro_device *device)
{
    weigh(device, -FOUND_BY_CALLER);
}

uint64_t uro_learn_served(const struct uro_device *device)
{
    const struct uro_counters *counters = uro_engine_counters(device->engine);

    return counters->value[URO_COUNT_RX_WRITES] + counters->value[URO_COUNT_RX_READS] +
           counters->value[URO_COUNT_RX_ATOMICS];
}

static void score_reply(struct uro_device *device, int change)
{
    int score = device->reply_score + change;

    device->reply_score = score < -REPLY_TOP ? -REPLY_TOP : score > REPLY_TOP ? REPLY_TOP : score;
}

void uro_learn_reply(struct uro_device *device, bool came)
{
    score_reply(device, came ? 1 : -REPLY_MISSED);
}

void uro_learn_thread(struct uro_device *device, uro_time now)
{
    uint64_t served = uro_learn_served(device);
    uro_time posted = atomic_load_explicit(&device->posted, memory_order_relaxed);
    bool polls = atomic_exchange_explicit(&device->in_vain, 0, memory_order_relaxed) >= IN_VAIN;

    weigh(device, served != device->served && !polls ? FOUND_BY_THREAD : -FOUND_BY_CALLER);
    if (served != device->served) {
        if (!polls && now - posted < ANSWERS)
            score_reply(device, 1);
        device->was_needed = true;
        atomic_store_explicit(&device->silence, URO_SILENCE_MIN, memory_order_relaxed);
    }
    device->served = served;
}

void uro_learn_poll(struct uro_device *device, bool found)
{
    if (found)
        atomic_store_explicit(&device->in_vain, 0, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&device->in_vain, 1, memory_order_relaxed);
}

void uro_learn_silence(struct uro_device *device, uro_time now)
{
    uro_time silence = atomic_load_explicit(&device->silence, memory_order_relaxed);
    uro_time called = atomic_load_explicit(&device->called, memory_order_relaxed);
    uro_time posted = atomic_load_explicit(&device->posted, memory_order_relaxed);
    uro_time gap = now - (called > posted ? called : posted);

    device->took_over = false;
    if (gap > SILENCE_MAX / 2)
        silence = silence / 2 > URO_SILENCE_MIN ? silence / 2 : URO_SILENCE_MIN;
    else if (gap * 2 > silence)
        silence = gap * 2;
    atomic_store_explicit(&device->silence, silence, memory_order_relaxed);
}

bool uro_learn_waits(struct uro_device *device)
{
    atomic_store(&device->balance, BALANCE_TOP);
    return atomic_exchange(&device->in_charge, true);
}
