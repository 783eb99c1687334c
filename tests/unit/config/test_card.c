/* SPDX-License-Identifier: BSD-3-Clause */
/* test_card.c - tests the cards that like= selects: built-in cards, card files, and the messages
 * about errors in them. */
#include "config/card.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "support/check.h"

static struct uro_card card;
static char error[URO_CARD_ERROR_MAX];

/* Parses a text as the file "my.card". */
static const char *parse(const char *text)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

    assert_non_null(in);
    const char *wrong = uro_card_parse(&card, in, "dir/my.card", error);
    (void)fclose(in);
    return wrong;
}

static void expect_wrong(const char *text, const char *message)
{
    const char *wrong = parse(text);

    if (wrong == NULL)
        fail_msg("%s: is accepted", text);
    assert_string_equal(wrong, message);
}

static void parse__each_kind_of_key__is_read(void **state)
{
    (void)state;
    const char *wrong = parse("# a card\n"
                              "\n"
                              "  card = My card #5  # the name\r\n"
                              "firmware=1.2.3\n"
                              "vendor_id = 0x02c9 # a source\n"
                              "max_send_sge=4\n"
                              "max_mr_size = 0xffffffffffffffff\n"
                              "max_qp = unknown\n"
                              "rate = 200\n"
                              "roce_v1 = yes\n"
                              "grants = exact\n"
                              "long_mr = ENOMEM\n"
                              "lacks = srq, atomics\n"
                              "lacks = xrc:ENOSYS");
    assert_null(wrong);
    assert_string_equal(card.name, "my.card");
    assert_string_equal(card.title, "My card");
    assert_string_equal(card.fw_ver, "1.2.3");
    assert_int_equal(card.numbers[URO_CARD_VENDOR_ID], 0x02c9);
    assert_int_equal(uro_card_limit(&card, URO_CARD_MAX_SEND_SGE, 32), 4);
    assert_int_equal(uro_card_limit(&card, URO_CARD_MAX_SEND_SGE, 3), 3);
    assert_int_equal(uro_card_value(&card, URO_CARD_MAX_MR_SIZE, 1), UINT64_MAX);
    assert_false(uro_card_knows(&card, URO_CARD_MAX_QP));
    assert_int_equal(uro_card_limit(&card, URO_CARD_MAX_QP, 77), 77);
    assert_int_equal(card.speed, 200000);
    assert_true(card.roce_v1);
    assert_int_equal(card.grants, URO_CARD_GRANTS_EXACT);
    assert_int_equal(card.long_mr, URO_CARD_LONG_MR_ENOMEM);
    assert_int_equal(card.missing[URO_CARD_NO_SRQ], EOPNOTSUPP);
    assert_int_equal(card.missing[URO_CARD_NO_ATOMICS], EINVAL);
    assert_int_equal(card.missing[URO_CARD_NO_XRC], ENOSYS);
    assert_int_equal(card.missing[URO_CARD_NO_UD], 0);
}

static void parse__max_sge_and_types__set_several_keys(void **state)
{
    (void)state;
    assert_null(parse("max_sge = 6\nmax_send_sge = 8\ntypes = rc, ud"));
    assert_int_equal(uro_card_limit(&card, URO_CARD_MAX_SEND_SGE, 32), 8);
    assert_int_equal(uro_card_limit(&card, URO_CARD_MAX_RECV_SGE, 32), 6);
    assert_int_equal(card.missing[URO_CARD_NO_UC], EOPNOTSUPP);
    assert_int_equal(card.missing[URO_CARD_NO_XRC], EOPNOTSUPP);
    assert_int_equal(card.missing[URO_CARD_NO_UD], 0);
    expect_wrong("types = ud", "dir/my.card:1: types must contain rc, because every card has RC");
    expect_wrong("types = rc rd", "dir/my.card:1: unknown type \"rd\"; did you mean ud?");
}

static void parse__wrong_line__error_has_line_and_word(void **state)
{
    (void)state;
    expect_wrong("max_qp = 3\nmax_sgee = 1",
                 "dir/my.card:2: unknown key \"max_sgee\"; did you mean max_sge?");
    expect_wrong("max_send_sg = 1",
                 "dir/my.card:1: unknown key \"max_send_sg\"; did you mean max_send_sge?");
    expect_wrong("max_qp = 0", "dir/my.card:1: max_qp = 0: must be a number from 1 to 2147483647, "
                               "or a hexadecimal number with 0x, or unknown");
    expect_wrong("max_qp = -1",
                 "dir/my.card:1: max_qp = -1: must be a number from 1 to 2147483647, "
                 "or a hexadecimal number with 0x, or unknown");
    expect_wrong(
        "vendor_id = 0x100000000",
        "dir/my.card:1: vendor_id = 0x100000000: must be a number from 0 to 4294967295, or "
        "a hexadecimal number with 0x, or unknown");
    expect_wrong("max_mr_size = 18446744073709551616",
                 "dir/my.card:1: max_mr_size = 18446744073709551616: must be a number from 1 to "
                 "18446744073709551615, or a hexadecimal number with 0x, or unknown");
    expect_wrong("max_qp = 2G",
                 "dir/my.card:1: max_qp = 2G: must be a number from 1 to 2147483647, "
                 "or a hexadecimal number with 0x, or unknown");
    expect_wrong("max_qp = 1\nmax_qp = 2", "dir/my.card:2: max_qp is given twice");
    expect_wrong("max_qp = unknown\nmax_qp = 2", "dir/my.card:2: max_qp is given twice");
    expect_wrong("lacks = srqs",
                 "dir/my.card:1: unknown word of lacks \"srqs\"; did you mean srq?");
    expect_wrong("lacks = srq:EAGAIN", "dir/my.card:1: unknown errno \"EAGAIN\"; known: EOPNOTSUPP "
                                       "ENOSYS EINVAL ENOMEM EPERM");
    expect_wrong("lacks = srq xrc srq", "dir/my.card:1: \"srq\" is given twice");
    expect_wrong("max_qp = 3\n[a=b]", "dir/my.card:2: \"[a=b]\" must be key = value");
    expect_wrong("lacks = ,", "dir/my.card:1: lacks needs a word, such as srq");
    expect_wrong("grants = some", "dir/my.card:1: unknown value of grants \"some\"; known: exact "
                                  "power_of_two power_of_two_less_1");
    expect_wrong("roce_v1 = true",
                 "dir/my.card:1: unknown value of roce_v1 \"true\"; known: no yes");
    expect_wrong("long_mr = EIO", "dir/my.card:1: unknown value of long_mr \"EIO\"; known: EINVAL "
                                  "ENOMEM");
    expect_wrong("rate = 90", "dir/my.card:1: rate = 90: must be a number of Gb/s: 2.5, 5, 10, 20, "
                              "25, 40, 50, 56, 100, 200, "
                              "400 or 800");
    expect_wrong("firmware =", "dir/my.card:1: firmware = : must have 1 to 63 characters");
    expect_wrong("firmware = \001",
                 "dir/my.card:1: firmware has a character that cannot be printed");
    expect_wrong("\n\nmax_qp", "dir/my.card:3: \"max_qp\" must be key = value");
    expect_wrong("[card]", "dir/my.card:1: \"[card]\" must be key = value");
    expect_wrong("= 5", "dir/my.card:1: \"= 5\" has no key before the =");
    expect_wrong("# nothing", "dir/my.card:1: the card has no key, such as max_sge_rd = 1");
}

static void parse__long_or_endless_text__is_refused(void **state)
{
    char *text = calloc(1, 4000);

    (void)state;
    memcpy(text, "firmware = ", 9);
    memset(text + 9, 'a', 300);
    expect_wrong(text, "dir/my.card:1: the line is too long");
    memset(text + 9, 'a', 2000);
    expect_wrong(text, "dir/my.card:1: the line is too long");
    memset(text, '\n', 1001);
    memcpy(text + 1001, "max_qp=1", 9);
    expect_wrong(text, "dir/my.card:1002: a card has at most 1000 lines");
    free(text);
}

/* ---- built-in cards ------------------------------------------------------- */

/* Returns whether the text has a line with the key. */
static bool has_key(const char *text, const char *key)
{
    char line[80];

    (void)snprintf(line, sizeof line, "\n%s = ", key);
    return strstr(text, line) != NULL;
}

static void built_in__each_card__has_each_key(void **state)
{
    static const char *const others[] = { "card",    "firmware", "hca_type", "board_id", "rate",
                                          "roce_v1", "grants",   "long_mr",  "lacks" };

    (void)state;
    assert_true(uro_card_text_count >= 8);
    for (unsigned i = 0; i < uro_card_text_count; i++) {
        const struct uro_card_text *text = &uro_card_texts[i];
        const char *wrong = uro_card_read(&card, text->name, error);
        if (wrong != NULL)
            fail_msg("%s", wrong);
        assert_string_equal(card.name, text->name);
        assert_true(card.title[0] != '\0');
        for (unsigned number = 0; number < URO_CARD_NUMBERS; number++)
            if (!has_key(text->text, uro_card_key(number)))
                fail_msg("%s has no key %s; if the value is not known, write unknown", text->name,
                         uro_card_key(number));
        for (size_t k = 0; k < URO_ARRAY_LEN(others); k++)
            if (!has_key(text->text, others[k]))
                fail_msg("%s has no key %s; if the value is not known, write unknown", text->name,
                         others[k]);
    }
}

static void built_in__each_value__has_a_source(void **state)
{
    (void)state;
    for (unsigned i = 0; i < uro_card_text_count; i++) {
        char *copy = strdup(uro_card_texts[i].text);
        char *rest = copy, *line;
        while ((line = strsep(&rest, "\n")) != NULL)
            if (line[0] != '\0' && line[0] != '#' && strstr(line, "  # ") == NULL)
                fail_msg("%s: no source: %s", uro_card_texts[i].name, line);
        free(copy);
    }
}

#define KNOWN                                                                                      \
    "bnxt_re connectx3 connectx4 connectx4lx connectx5 connectx6lx connectx7 e810 erdma fastlinq " \
    "ionic mana rxe rxe5; a file of your own is like=@FILE"

static void read__unknown_name__lists_the_cards(void **state)
{
    (void)state;
    assert_string_equal(uro_card_read(&card, "conectx7", error), "no such card; known: " KNOWN);
    assert_string_equal(uro_card_read(&card, "@/nowhere/x", error),
                        "/nowhere/x: No such file or directory");
    assert_string_equal(uro_card_read(&card, "/", error), "/: is not a regular file");
    assert_string_equal(uro_card_read(&card, "@/dev/null", error),
                        "/dev/null: is not a regular file");
    assert_string_equal(uro_card_read(&card, "@", error), ": No such file or directory");
}

/* ---- use ------------------------------------------------------------------ */

static void grant__each_way__rounds_up_to_the_limit(void **state)
{
    (void)state;
    assert_null(parse("grants = exact"));
    assert_int_equal(uro_card_grant(&card, 100, 8127), 100);
    assert_null(parse("grants = power_of_two"));
    assert_int_equal(uro_card_grant(&card, 100, 8127), 128);
    assert_int_equal(uro_card_grant(&card, 0, 8127), 0);
    assert_int_equal(uro_card_grant(&card, 8000, 8127), 8127);
    assert_int_equal(uro_card_grant(&card, 8128, 8127), 8128);
    assert_null(parse("grants = power_of_two_less_1"));
    assert_int_equal(uro_card_grant(&card, 100, 65535), 127);
    assert_int_equal(uro_card_grant(&card, 127, 65535), 127);
    assert_int_equal(uro_card_grant(&card, 128, 65535), 255);
}

static const struct uro_device_config *configure(const char *devices)
{
    static struct uro_config config;

    uro_config_read(&config, devices, NULL);
    assert_int_equal(config.count, 1);
    return &config.entries[0].config;
}

static void config__like__lowers_quotas_and_keeps_given_keys(void **state)
{
    (void)state;
    const struct uro_device_config *d = configure("a:net_null0;like=irdma;max_cq=5;rate=25");
    assert_string_equal(d->problem, "");
    assert_string_equal(d->card.name, "e810"); /* irdma is its driver */
    assert_int_equal(d->most[URO_QUOTA_QP], 4092);
    assert_int_equal(d->most[URO_QUOTA_CQ], 5);
    assert_int_equal(d->most[URO_QUOTA_SRQ], 0);
    assert_int_equal(d->most[URO_QUOTA_MW], 1048576);
    assert_int_equal(d->speed, 25000);
    assert_int_equal(d->vendor_part_id, 5522);
    d = configure("a:net_null0;vendor_part_id=7;like=ionic");
    assert_int_equal(d->vendor_part_id, 7);
    assert_int_equal(d->speed, 400000);
    d = configure("a:net_null0;like=rxe7");
    assert_string_equal(d->problem,
                        "UROCE_DEVICES, device 1 (a): like=rxe7: no such card; known: " KNOWN);
}

static void config__like_a_file__is_read(void **state)
{
    char path[] = "/tmp/uroce-card-XXXXXX", devices[100];
    const int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "max_qp = 9\n", 11), 11);
    (void)snprintf(devices, sizeof devices, "a:net_null0;like=@%s", path);
    assert_int_equal(configure(devices)->most[URO_QUOTA_QP], 9);
    (void)snprintf(devices, sizeof devices, "a:net_null0;like=%s", path);
    assert_int_equal(configure(devices)->most[URO_QUOTA_QP], 9);
    (void)close(fd);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__each_kind_of_key__is_read),
        cmocka_unit_test(parse__max_sge_and_types__set_several_keys),
        cmocka_unit_test(parse__wrong_line__error_has_line_and_word),
        cmocka_unit_test(parse__long_or_endless_text__is_refused),
        cmocka_unit_test(built_in__each_card__has_each_key),
        cmocka_unit_test(built_in__each_value__has_a_source),
        cmocka_unit_test(read__unknown_name__lists_the_cards),
        cmocka_unit_test(grant__each_way__rounds_up_to_the_limit),
        cmocka_unit_test(config__like__lowers_quotas_and_keeps_given_keys),
        cmocka_unit_test(config__like_a_file__is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
