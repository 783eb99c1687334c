/* SPDX-License-Identifier: BSD-3-Clause */
/* rate.c - the link rates of enum ibv_rate in Mbit/s and in multiples of 2.5 Gbit/s. */
#include "verbs/objects.h"

struct rate {
    int mbps;     /* 0: undefined rate */
    int multiple; /* in units of 2.5 Gbit/s; 0: rdma-core has no multiple for this rate */
};

/* Indexed by enum ibv_rate. Some names are rounded: lanes may have 14.0625, 25.78125, 53.125 or
 * 106.25 Gbit/s. The values are those of rdma-core, because programs compare them. rdma-core has
 * a multiple for only some rates. */
static const struct rate rates[] = {
    /* clang-format off */
    [IBV_RATE_2_5_GBPS]  = { 2500, 1 },
    [IBV_RATE_5_GBPS]    = { 5000, 2 },
    [IBV_RATE_10_GBPS]   = { 10000, 4 },
    [IBV_RATE_14_GBPS]   = { 14062, 0 },
    [IBV_RATE_20_GBPS]   = { 20000, 8 },
    [IBV_RATE_25_GBPS]   = { 25781, 0 },
    [IBV_RATE_28_GBPS]   = { 28125, 11 },
    [IBV_RATE_30_GBPS]   = { 30000, 12 },
    [IBV_RATE_40_GBPS]   = { 40000, 16 },
    [IBV_RATE_50_GBPS]   = { 53125, 20 },
    [IBV_RATE_56_GBPS]   = { 56250, 0 },
    [IBV_RATE_60_GBPS]   = { 60000, 24 },
    [IBV_RATE_80_GBPS]   = { 80000, 32 },
    [IBV_RATE_100_GBPS]  = { 103125, 0 },
    [IBV_RATE_112_GBPS]  = { 112500, 0 },
    [IBV_RATE_120_GBPS]  = { 120000, 48 },
    [IBV_RATE_168_GBPS]  = { 168750, 0 },
    [IBV_RATE_200_GBPS]  = { 206250, 0 },
    [IBV_RATE_300_GBPS]  = { 309375, 0 },
    [IBV_RATE_400_GBPS]  = { 425000, 160 },
    [IBV_RATE_600_GBPS]  = { 637500, 240 },
    [IBV_RATE_800_GBPS]  = { 850000, 320 },
    [IBV_RATE_1200_GBPS] = { 1275000, 480 },
    /* clang-format on */
};

static struct rate lookup(enum ibv_rate rate)
{
    static const struct rate none;

    return (unsigned)rate < URO_ARRAY_LEN(rates) ? rates[rate] : none;
}

int ibv_rate_to_mult(enum ibv_rate rate)
{
    int multiple = lookup(rate).multiple;

    return multiple != 0 ? multiple : -1;
}

int ibv_rate_to_mbps(enum ibv_rate rate)
{
    int mbps = lookup(rate).mbps;

    return mbps != 0 ? mbps : -1;
}

enum ibv_rate mult_to_ibv_rate(int mult)
{
    for (unsigned i = 0; mult > 0 && i < URO_ARRAY_LEN(rates); i++)
        if (rates[i].multiple == mult)
            return (enum ibv_rate)i;
    return IBV_RATE_MAX;
}

enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    for (unsigned i = 0; mbps > 0 && i < URO_ARRAY_LEN(rates); i++)
        if (rates[i].mbps == mbps)
            return (enum ibv_rate)i;
    return IBV_RATE_MAX;
}
