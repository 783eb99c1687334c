/* SPDX-License-Identifier: BSD-3-Clause */
/* test_eal_args.c - tests the arguments that uroce gives to DPDK's EAL, and the effect of eal=. */
#include "support/check.h"

#include <stdio.h>
#include <string.h>

#include "io/dpdk/eal_args.h"

static struct uro_eal_args args;
static char error[URO_PORT_ERROR_MAX];
static char joined[URO_EAL_TEXT_MAX];

/* Returns the arguments, joined by spaces, or the error. */
static const char *filled(const char *eal, enum uro_port_hugepages wanted, bool free_pages,
                          const char *card)
{
    const struct uro_port_config config = { .eal = eal, .hugepages = wanted };
    const struct uro_eal_machine machine = {
        .lcores = "0@(0,1)", .pid = 77, .memory_mib = 320, .hugepages = free_pages, .card = card
    };

    error[0] = joined[0] = '\0';
    if (uro_eal_args_fill(&args, &config, &machine, error) != 0)
        return error;
    assert_ptr_equal(args.list[args.count], NULL);
    for (int i = 0; i < args.count; i++) {
        const size_t used = strlen(joined);
        (void)snprintf(joined + used, sizeof joined - used, "%s%s", i > 0 ? " " : "", args.list[i]);
    }
    return joined;
}

static const char *with(const char *eal)
{
    return filled(eal, URO_HUGEPAGES_AUTO, false, NULL);
}

#define CORES  "--lcores=0@(0,1) "
#define PREFIX "--file-prefix=uroce-77 "
#define QUIET  "--no-telemetry --log-level=*:error "
#define SMALL  "--no-huge --no-shconf -m320"
#define NO_PCI " --no-pci --iova-mode=va"

static void eal_args__none_given__nothing_is_pinned_shared_or_logged(void **state)
{
    (void)state;
    assert_string_equal(with(NULL), "uroce " CORES PREFIX QUIET SMALL NO_PCI);
    assert_string_equal(with(""), "uroce " CORES PREFIX QUIET SMALL NO_PCI);
}

static void eal_args__hugepages__are_used_if_free_or_wanted(void **state)
{
    (void)state;
    assert_string_equal(filled("", URO_HUGEPAGES_AUTO, true, NULL),
                        "uroce " CORES PREFIX QUIET "--in-memory" NO_PCI);
    assert_string_equal(filled("", URO_HUGEPAGES_YES, true, NULL),
                        "uroce " CORES PREFIX QUIET "--in-memory" NO_PCI);
    assert_string_equal(filled("", URO_HUGEPAGES_NO, true, NULL),
                        "uroce " CORES PREFIX QUIET SMALL NO_PCI);
    assert_string_equal(filled("", URO_HUGEPAGES_YES, false, NULL),
                        "hugepages=yes: 320 MiB of hugepages are not free; reserve them as root "
                        "with `sysctl vm.nr_hugepages=160`, or leave out hugepages=");
}

static void eal_args__a_card__only_this_card_is_taken(void **state)
{
    (void)state;
    assert_string_equal(filled("", URO_HUGEPAGES_AUTO, true, "0000:00:05.0"),
                        "uroce " CORES PREFIX QUIET "--in-memory --allow=0000:00:05.0");
    assert_string_equal(filled("-a 0000:00:06.0", URO_HUGEPAGES_AUTO, true, "0000:00:05.0"),
                        "uroce -a 0000:00:06.0 " CORES PREFIX QUIET "--in-memory");
}

static void eal_args__given__replace_the_arguments_of_the_same_purpose(void **state)
{
    (void)state;
    assert_string_equal(with("-l 2-3"), "uroce -l 2-3 " PREFIX QUIET SMALL NO_PCI);
    assert_string_equal(with("--lcores=(0-3)@1 --main-lcore=0"),
                        "uroce --lcores=(0-3)@1 --main-lcore=0 " PREFIX QUIET SMALL NO_PCI);
    assert_string_equal(with("--file-prefix=mine --telemetry"),
                        "uroce --file-prefix=mine --telemetry " CORES
                        "--log-level=*:error " SMALL NO_PCI);
    assert_string_equal(with("--log-level pmd:debug"),
                        "uroce --log-level pmd:debug " CORES PREFIX "--no-telemetry " SMALL NO_PCI);
    assert_string_equal(with("--huge-dir=/mnt/huge"), "uroce --huge-dir=/mnt/huge " CORES PREFIX
                                                      "--no-telemetry --log-level=*:error" NO_PCI);
    assert_string_equal(with("-m512"),
                        "uroce -m512 " CORES PREFIX QUIET "--no-huge --no-shconf" NO_PCI);
    assert_string_equal(
        with("--vdev=net_tap0,iface=x  --no-pci\t--iova-mode=pa"),
        "uroce --vdev=net_tap0,iface=x --no-pci --iova-mode=pa " CORES PREFIX QUIET SMALL);
}

static const struct {
    const char *eal, *problem;
} wrong[] = {
    { "--hug-dir=/x", "eal=--hug-dir=/x: DPDK's EAL has no such argument; its guide \"EAL "
                      "parameters\" lists them" },
    { "--allowance=1", "eal=--allowance=1: DPDK's EAL has no such argument; its guide \"EAL "
                       "parameters\" lists them" },
    { "-x", "eal=-x: DPDK's EAL has no such argument; its guide \"EAL parameters\" lists them" },
    { "-", "eal=-: DPDK's EAL has no such argument; its guide \"EAL parameters\" lists them" },
    { "word",
      "eal=word: DPDK's EAL has no such argument; its guide \"EAL parameters\" lists them" },
    { "--memory=4", "eal=--memory=4: DPDK's EAL has no such argument; its guide \"EAL "
                    "parameters\" lists them" },
    { "--no-huge=1", "eal=--no-huge=1: this argument has no value" },
    { "-l", "eal=-l: the value is missing" },
    { "--huge-dir --no-pci", "eal=--huge-dir: the value is missing" },
    { "--proc-type=secondary",
      "eal=--proc-type=secondary: uroce does not pass this argument on: a uroce "
      "process is always a primary process of its own; leave it out" },
    { "-h",
      "eal=-h: uroce does not pass this argument on: DPDK would end the program; leave it out" },
    { "--help", "eal=--help: uroce does not pass this argument on: DPDK would end the program; "
                "leave it out" },
    { "--syslog", "eal=--syslog: uroce does not pass this argument on: the log would go to syslog; "
                  "verbose=yes writes it to stderr; leave it out" },
    { "-S 1",
      "eal=-S: uroce does not pass this argument on: uroce has a service thread of its own; see "
      "progress= and cpu=; leave it out" },
};

static void eal_args__wrong__are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++)
        assert_string_equal(with(wrong[i].eal), wrong[i].problem);
    assert_string_equal(with("-d /x.so"),
                        "eal=-d: uroce does not pass this argument on: the drivers are part of "
                        "liburoce-dpdk.so, and a second copy of DPDK would come with a shared one; "
                        "leave it out");
}

static void eal_args__too_many_words__are_refused(void **state)
{
    char many[URO_PORT_EAL_MAX] = "";

    (void)state;
    for (unsigned i = 0; i <= URO_EAL_ARGS_MAX - 10; i++)
        memcpy(many + 4 * (size_t)i, "-n1 ", 5);
    assert_string_equal(with(many), "eal=: more than 54 arguments");
    many[strlen(many) - 4] = '\0';
    assert_non_null(strstr(with(many), "-n1 " CORES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eal_args__none_given__nothing_is_pinned_shared_or_logged),
        cmocka_unit_test(eal_args__hugepages__are_used_if_free_or_wanted),
        cmocka_unit_test(eal_args__a_card__only_this_card_is_taken),
        cmocka_unit_test(eal_args__given__replace_the_arguments_of_the_same_purpose),
        cmocka_unit_test(eal_args__wrong__are_refused_with_the_reason),
        cmocka_unit_test(eal_args__too_many_words__are_refused),
    };

    return cmocka_run_group_tests_name("io/eal_args", tests, NULL, NULL);
}
