/* SPDX-License-Identifier: BSD-3-Clause */
/* test_demux.c - tests that the prefetch of a frame reads nothing after the end of the frame.
 * tests/scenario tests the processing of frames. */
#include "engine/demux.h"

#include <stdlib.h>
#include <string.h>

#include "core/shard.h"
#include "support/check.h"
#include "wire/ether.h"

#define LONGEST 100u

/* Each frame is in a block of its exact size, so that a sanitizer detects reads after its end. */
static void prefetch__frames_of_every_length__are_not_read_beyond_their_end(void **state)
{
    static const uint16_t types[][2] = {
        { URO_ETHERTYPE_IPV4, 0 },
        { URO_ETHERTYPE_IPV6, 0 },
        { URO_ETHERTYPE_VLAN, URO_ETHERTYPE_IPV4 },
        { URO_ETHERTYPE_VLAN, URO_ETHERTYPE_IPV6 },
        { URO_ETHERTYPE_ARP, 0 },
    };
    static struct uro_shard shard;
    static struct uro_table_bucket bucket;
    const struct uro_demux demux = { .shard = &shard };

    (void)state;
    shard.qps.buckets = &bucket;
    for (size_t i = 0; i < URO_ARRAY_LEN(types); i++)
        for (uint32_t length = 1; length <= LONGEST; length++) {
            uint8_t whole[LONGEST] = { 0 };
            uint8_t *octets = malloc(length);
            assert_non_null(octets);
            uro_put_be16(whole + 12, types[i][0]);
            uro_put_be16(whole + 16, types[i][1]);
            memcpy(octets, whole, length);
            const struct uro_pkt pkt = { .octets = octets, .length = length };
            for (enum uro_demux_step step = URO_DEMUX_BUCKET; step <= URO_DEMUX_QP; step++)
                uro_demux_prefetch(&demux, uro_demux_guess(&pkt), step);
            free(octets);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefetch__frames_of_every_length__are_not_read_beyond_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
