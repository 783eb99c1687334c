/* SPDX-License-Identifier: BSD-3-Clause */
/* eal_args.h - the arguments of rte_eal_init(): arguments of uroce, and arguments of the key eal=.
 *
 * The names are those of DPDK's guide "EAL parameters". These files do not use DPDK.
 */
#pragma once

#include "engine/port.h"

#define URO_EAL_ARGS_MAX 64u
#define URO_EAL_TEXT_MAX 6144u

struct uro_eal_args {
    int count;
    char *list[URO_EAL_ARGS_MAX + 1]; /* arguments, then NULL */
    size_t used;                      /* bytes of `text` */
    char text[URO_EAL_TEXT_MAX];
};

/* Facts of the machine, for uro_eal_args_fill(). */
struct uro_eal_machine {
    const char *lcores; /* "0@(0,1,3)": one logical core that may run on these CPUs */
    long pid;
    uint32_t memory_mib; /* memory to reserve */
    bool hugepages;      /* memory_mib of hugepages are free */
    const char *card;    /* the link, if it is a card on the PCI bus, or NULL */
};

/* Writes all arguments. Arguments in @config->eal replace arguments of uroce for the same purpose.
 * Returns 0, or -1 with a sentence in @error: an argument is unknown, has no value, or would harm
 * the program; or hugepages=yes and too few are free. */
URO_NODISCARD int uro_eal_args_fill(struct uro_eal_args *args, const struct uro_port_config *config,
                                    const struct uro_eal_machine *machine,
                                    char error[static URO_PORT_ERROR_MAX]);
