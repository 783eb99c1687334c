/* SPDX-License-Identifier: BSD-3-Clause */
/* link_rate.c - the table of link_rate.h, with one pair for each speed.
 *
 * IBTA has several pairs for some speeds. The table has the pair that network cards of this speed
 * report, because programs expect it.
 */
#include "stats/link_rate.h"

#include <string.h>

enum width { X1 = 1, X4 = 2, X8 = 4 };
enum lane { SDR = 1, DDR = 2, QDR = 4, FDR = 16, EDR = 32, HDR = 64, NDR = 128 };

static const struct uro_link_rate rates[] = {
    { 2500, X1, SDR, "2.5 Gb/sec (1X SDR)" },   { 5000, X1, DDR, "5 Gb/sec (1X DDR)" },
    { 10000, X1, QDR, "10 Gb/sec (1X QDR)" },   { 20000, X4, DDR, "20 Gb/sec (4X DDR)" },
    { 25000, X1, EDR, "25 Gb/sec (1X EDR)" },   { 40000, X4, QDR, "40 Gb/sec (4X QDR)" },
    { 50000, X1, HDR, "50 Gb/sec (1X HDR)" },   { 56000, X4, FDR, "56 Gb/sec (4X FDR)" },
    { 100000, X4, EDR, "100 Gb/sec (4X EDR)" }, { 200000, X4, HDR, "200 Gb/sec (4X HDR)" },
    { 400000, X4, NDR, "400 Gb/sec (4X NDR)" }, { 800000, X8, NDR, "800 Gb/sec (8X NDR)" },
};

const struct uro_link_rate *uro_link_rate_of(uint32_t speed)
{
    size_t i = URO_ARRAY_LEN(rates) - 1;

    while (i > 0 && rates[i].speed > speed)
        i--;
    return &rates[i];
}

const struct uro_link_rate *uro_link_rate_parse(const char *text)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(rates); i++) {
        const size_t length = strcspn(rates[i].text, " ");
        if (strlen(text) == length && memcmp(text, rates[i].text, length) == 0)
            return &rates[i];
    }
    return NULL;
}
