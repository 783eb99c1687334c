/* SPDX-License-Identifier: BSD-3-Clause */
/* touch.c - see touch.h. */
#include "core/touch.h"

#include <string.h>

#include "base/copy.h"
#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/shard.h"

#define WORD 8u

static bool may_fault(const struct uro_shard *shard, uint32_t number)
{
    return shard->on_demand > 0 && shard->attempt != NULL && uro_key_may_fault(shard, number);
}

struct copy {
    uint8_t *to;
    const uint8_t *from;
    uint32_t length;
};

static void copy_in_order(void *argument)
{
    const struct copy *copy = argument;

    uro_copy_in_order(copy->to, copy->from, copy->length);
}

/* Whether the attempt to touch @at was cut short. */
static bool attempt(const struct uro_shard *shard, void (*touch)(void *argument), void *argument,
                    const uint8_t *at, uint32_t length)
{
    if (shard->attempt(touch, argument, at, length))
        return true;
    URO_MARK("KEY.VANISHED");
    return false;
}

bool uro_touch_write(const struct uro_shard *shard, uint32_t number, uint8_t *to,
                     const uint8_t *from, uint32_t length)
{
    struct copy copy = { to, from, length };

    if (may_fault(shard, number))
        return attempt(shard, copy_in_order, &copy, to, length);
    uro_copy_in_order(to, from, length);
    return true;
}

/* A ring: what was lent by the last output was sent. */
static uint8_t *place_for(struct uro_shard *shard, uint32_t length)
{
    if (length > uro_touch_size() - shard->copied)
        shard->copied = 0;
    uint8_t *place = shard->copies + shard->copied;
    shard->copied += length;
    return place;
}

const uint8_t *uro_touch_read(struct uro_shard *shard, uint32_t number, const uint8_t *at,
                              uint32_t length)
{
    if (!may_fault(shard, number))
        return at;
    struct copy copy = { place_for(shard, length), at, length };
    return attempt(shard, copy_in_order, &copy, at, length) ? copy.to : NULL;
}

bool uro_touch_word(const struct uro_shard *shard, uint32_t number, void (*touch)(void *argument),
                    void *argument, const uint8_t *at)
{
    if (may_fault(shard, number))
        return attempt(shard, touch, argument, at, WORD);
    touch(argument);
    return true;
}
