/* SPDX-License-Identifier: BSD-3-Clause */
/* test_mbuf.c - tests received buffers of DPDK that are not plain frames. They have several
 * segments, a VLAN tag that the driver removed, or a flag for a wrong checksum. */
#include "support/check.h"

#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "io/dpdk/mbuf.h"

#define BUFFERS 64u
#define ROOM    256u /* bytes of a frame that a buffer holds */
#define TCI     0xa00au

static struct rte_mempool *pool;

/* Makes one segment of @length bytes, which begin with @first and count up. */
static struct rte_mbuf *segment(uint8_t first, uint16_t length)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);

    assert_non_null(mbuf);
    uint8_t *octets = (uint8_t *)rte_pktmbuf_append(mbuf, length);
    assert_non_null(octets);
    for (uint16_t i = 0; i < length; i++)
        octets[i] = (uint8_t)(first + i);
    return mbuf;
}

/* Makes a frame of two segments, whose bytes count up from 0. */
static struct rte_mbuf *two_segments(uint16_t first, uint16_t second)
{
    struct rte_mbuf *mbuf = segment(0, first);

    assert_int_equal(rte_pktmbuf_chain(mbuf, segment((uint8_t)first, second)), 0);
    return mbuf;
}

static void check_bytes(const struct rte_mbuf *mbuf, uint16_t at, uint8_t first, uint16_t length)
{
    const uint8_t *octets = rte_pktmbuf_mtod(mbuf, const uint8_t *);

    assert_int_equal(mbuf->nb_segs, 1);
    assert_int_equal(mbuf->pkt_len, mbuf->data_len);
    assert_int_equal(mbuf->data_len, at + length);
    for (uint16_t i = 0; i < length; i++)
        assert_int_equal(octets[at + i], (uint8_t)(first + i));
}

static void check_no_leak(void)
{
    assert_int_equal(rte_mempool_avail_count(pool), BUFFERS);
}

static void segments__fit_into_the_first__are_joined(void **state)
{
    (void)state;
    struct rte_mbuf *mbufs[] = { segment(0, 60), two_segments(42, 100), segment(0, 61) };
    uint64_t dropped = 0;

    assert_int_equal(uro_mbuf_restore(mbufs, 3, &dropped), 3);
    assert_int_equal(dropped, 0);
    check_bytes(mbufs[0], 0, 0, 60);
    check_bytes(mbufs[1], 0, 0, 142);
    check_bytes(mbufs[2], 0, 0, 61);
    rte_pktmbuf_free_bulk(mbufs, 3);
    check_no_leak();
}

static void segments__too_long_for_the_first__frame_is_dropped_and_counted(void **state)
{
    (void)state;
    struct rte_mbuf *mbufs[] = { two_segments(ROOM, 100), segment(0, 60), two_segments(200, 100) };
    uint64_t dropped = 5;

    assert_int_equal(uro_mbuf_restore(mbufs, 3, &dropped), 1);
    assert_int_equal(dropped, 7);
    check_bytes(mbufs[0], 0, 0, 60);
    rte_pktmbuf_free(mbufs[0]);
    check_no_leak();
}

static void vlan__tag_removed_by_the_driver__is_inserted_again(void **state)
{
    (void)state;
    struct rte_mbuf *mbufs[] = { segment(0, 60), two_segments(42, 100) };
    const uint8_t tag[] = { 0x81, 0x00, TCI >> 8, TCI & 0xff };
    uint64_t dropped = 0;

    for (unsigned i = 0; i < 2; i++) {
        mbufs[i]->ol_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
        mbufs[i]->vlan_tci = TCI;
    }
    assert_int_equal(uro_mbuf_restore(mbufs, 2, &dropped), 2);
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *octets = rte_pktmbuf_mtod(mbufs[i], const uint8_t *);

        assert_memory_equal(octets + 12, tag, sizeof tag);
        for (unsigned k = 0; k < 12; k++)
            assert_int_equal(octets[k], k);
        check_bytes(mbufs[i], 16, 12, i == 0 ? 48 : 130);
    }
    assert_int_equal(dropped, 0);
    rte_pktmbuf_free_bulk(mbufs, 2);
    check_no_leak();
}

/* The flag RTE_MBUF_F_RX_VLAN alone says that the tag is in vlan_tci, and still in the frame. */
static void vlan__tag_in_the_frame__frame_is_unchanged(void **state)
{
    (void)state;
    struct rte_mbuf *mbuf = segment(0, 60);
    uint64_t dropped = 0;

    mbuf->ol_flags = RTE_MBUF_F_RX_VLAN;
    mbuf->vlan_tci = TCI;
    assert_int_equal(uro_mbuf_restore(&mbuf, 1, &dropped), 1);
    check_bytes(mbuf, 0, 0, 60);
    rte_pktmbuf_free(mbuf);
}

static void vlan__removed_tag_that_cannot_be_inserted__frame_is_dropped(void **state)
{
    (void)state;
    struct rte_mbuf *mbufs[] = { segment(0, 60), segment(0, 8), segment(0, 60) };
    uint64_t dropped = 0;

    for (unsigned i = 0; i < 3; i++)
        mbufs[i]->ol_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
    mbufs[0]->ol_flags |= RTE_MBUF_F_RX_QINQ | RTE_MBUF_F_RX_QINQ_STRIPPED;         /* two tags */
    assert_non_null(rte_pktmbuf_prepend(mbufs[2], rte_pktmbuf_headroom(mbufs[2]))); /* no space */
    assert_int_equal(uro_mbuf_restore(mbufs, 3, &dropped), 0);
    assert_int_equal(dropped, 3);
    check_no_leak();
}

static void checksum__flag_says_wrong__frame_is_kept_for_the_engine(void **state)
{
    (void)state;
    struct rte_mbuf *mbuf = segment(0, 60);
    uint64_t dropped = 0;

    mbuf->ol_flags = RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD;
    assert_int_equal(uro_mbuf_restore(&mbuf, 1, &dropped), 1);
    check_bytes(mbuf, 0, 0, 60);
    rte_pktmbuf_free(mbuf);
    check_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments__fit_into_the_first__are_joined),
        cmocka_unit_test(segments__too_long_for_the_first__frame_is_dropped_and_counted),
        cmocka_unit_test(vlan__tag_removed_by_the_driver__is_inserted_again),
        cmocka_unit_test(vlan__tag_in_the_frame__frame_is_unchanged),
        cmocka_unit_test(vlan__removed_tag_that_cannot_be_inserted__frame_is_dropped),
        cmocka_unit_test(checksum__flag_says_wrong__frame_is_kept_for_the_engine),
    };
    char words[][32] = { "test_mbuf",      "--no-huge",      "--no-shconf", "--no-pci",
                         "--no-telemetry", "--iova-mode=va", "-m16",        "--log-level=*:error" };
    char *eal[RTE_DIM(words)];

    for (unsigned i = 0; i < RTE_DIM(words); i++)
        eal[i] = words[i];
    if (rte_eal_init(RTE_DIM(words), eal) < 0) {
        printf("Bail out! DPDK does not start\n");
        return 1;
    }
    pool =
        rte_pktmbuf_pool_create("test", BUFFERS, 0, 0, RTE_PKTMBUF_HEADROOM + ROOM, SOCKET_ID_ANY);
    if (pool == NULL) {
        printf("Bail out! no memory for buffers\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
