/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.c - see loopback.h. */
#include "engine/loopback.h"

#include "base/mark.h"
#include "wire/ether.h"

#define LINE 64u

static uint32_t stride(uint32_t mtu)
{
    return (URO_ETHER_LEN_MAX + mtu + LINE - 1) / LINE * LINE;
}

size_t uro_loop_size(uint32_t mtu)
{
    return (size_t)URO_LOOP_FRAMES * stride(mtu);
}

void uro_loop_init(struct uro_loop *loop, uint32_t mtu, void *memory)
{
    loop->octets = memory;
    loop->stride = stride(mtu);
    loop->count = 0;
}

static void keep(struct uro_loop *loop, const struct uro_tx *tx)
{
    uint32_t length = uro_tx_length(tx);

    URO_ASSERT(loop->count < URO_LOOP_FRAMES && length <= loop->stride);
    uint8_t *octets = loop->octets + (size_t)loop->count * loop->stride;
    uro_tx_write(tx, octets);
    loop->frames[loop->count++] = (struct uro_pkt){ .octets = octets, .length = length };
}

uint32_t uro_loop_take(struct uro_loop *loop, struct uro_tx *tx, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (tx[i].way == URO_TX_LOCAL || tx[i].way == URO_TX_BOTH)
            keep(loop, &tx[i]);
        if (tx[i].way == URO_TX_LOCAL) {
            URO_MARK("LOOP.SAME");
            continue;
        }
        if (left < i)
            tx[left] = tx[i];
        left++;
    }
    return left;
}
