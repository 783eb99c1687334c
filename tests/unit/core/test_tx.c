/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tx.c - tests the bytes of a frame. Also tests the bytes without the IP and UDP headers, for
 * links on which the kernel writes these headers. */
#include "base/mark.h"
#include "core/tx.h"

#include <string.h>

#include "base/rng.h"
#include "support/check.h"
#include "wire/bytes.h"
#include "wire/icrc.h"

#define ETHERNET    14u
#define AT_IDENT    4u
#define PAYLOAD_MAX 300u
#define FRAME_MAX   (URO_TX_HEAD_MAX + PAYLOAD_MAX + 8u)

static struct uro_rng rng;
static uint8_t payload[PAYLOAD_MAX];

static uint32_t headers_of(bool v6)
{
    return ETHERNET + (v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN;
}

/* Returns a frame of random bytes, its payload in up to three spans. */
static struct uro_tx any_tx(bool v6, bool doubled)
{
    struct uro_tx tx = {
        .icrc = true, .icrc_v6 = v6, .icrc_doubled = doubled, .network_at = ETHERNET
    };
    uint32_t at = 0, left = doubled ? 0 : uro_rng_below(&rng, PAYLOAD_MAX);

    tx.head_length = (uint16_t)(headers_of(v6) + URO_BTH_LEN + 4u * uro_rng_below(&rng, 5));
    for (uint32_t i = 0; i < tx.head_length; i++)
        tx.head[i] = (uint8_t)uro_rng_below(&rng, 256);
    tx.payload_length = left;
    tx.pad_count = (uint8_t)(-left & 3);
    while (left > 0) {
        uint32_t part = tx.span_count == 2 ? left : 1 + uro_rng_below(&rng, left);
        tx.spans[tx.span_count++] = (struct uro_span){ payload + at, part };
        at += part;
        left -= part;
    }
    return tx;
}

/* Writes the frame as the specification defines it. If @ident is not 0, it goes to the IPv4
 * header. */
static void write_plainly(const struct uro_tx *tx, uint16_t ident, uint8_t *out)
{
    uint32_t length = uro_tx_length(tx) - 4;

    memset(out, 0, length);
    memcpy(out, tx->head, tx->head_length);
    memcpy(out + tx->head_length, payload, tx->payload_length);
    if (ident != 0)
        uro_put_be16(out + ETHERNET + AT_IDENT, ident);
    uro_put_le32(out + length, (tx->icrc_doubled ? uro_icrc_rxe_flush : uro_icrc)(
                                   out + ETHERNET, tx->icrc_v6, length - ETHERNET));
}

static void write__of_any_frame__has_the_bytes_and_the_icrc(void **state)
{
    uint8_t want[FRAME_MAX], got[FRAME_MAX];

    (void)state;
    uro_mark_clear();
    for (unsigned i = 0; i < 2000; i++) {
        struct uro_tx tx = any_tx(i & 1, i % 7 == 0);
        write_plainly(&tx, 0, want);
        uro_tx_write(&tx, got);
        assert_memory_equal(got, want, uro_tx_length(&tx));
    }
    assert_true(uro_mark_hit("TX.COPY"));
    assert_true(uro_mark_hit("ICRC.ORDER"));
}

/* Links with impair= corrupt frames in this way. */
static void write__wrong_icrc__differs_in_these_bits(void **state)
{
    uint8_t right[FRAME_MAX], wrong[FRAME_MAX];

    (void)state;
    struct uro_tx tx = any_tx(false, false);
    uro_tx_write(&tx, right);
    tx.icrc_wrong = 0x80000001;
    uro_tx_write(&tx, wrong);
    const uint32_t end = uro_tx_length(&tx) - 4;
    assert_memory_equal(wrong, right, end);
    assert_int_equal(uro_get_le32(wrong + end) ^ uro_get_le32(right + end), 0x80000001);
}

static void write_from__behind_the_udp_header__icrc_covers_the_kernels_ip_id(void **state)
{
    uint8_t want[FRAME_MAX], got[FRAME_MAX];

    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        struct uro_tx tx = any_tx(i & 1, i % 7 == 0);
        uint16_t ident = tx.icrc_v6 || i % 5 == 0 ? 0 : (uint16_t)(1 + uro_rng_below(&rng, 0xffff));
        uint32_t skip = headers_of(tx.icrc_v6), rest = uro_tx_length(&tx) - skip;
        write_plainly(&tx, ident, want);
        memset(got, 0xcc, sizeof got);
        uro_tx_write_from(&tx, skip, ident, got);
        assert_memory_equal(got, want + skip, rest);
        assert_int_equal(got[rest], 0xcc);
    }
}

static int seed(void **state)
{
    (void)state;
    uro_rng_init_number(&rng, 1);
    for (uint32_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 13 + 5);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__of_any_frame__has_the_bytes_and_the_icrc),
        cmocka_unit_test(write__wrong_icrc__differs_in_these_bits),
        cmocka_unit_test(write_from__behind_the_udp_header__icrc_covers_the_kernels_ip_id),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}
