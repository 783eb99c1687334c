/* SPDX-License-Identifier: BSD-3-Clause */
/* stat.h - the parts of `uroce stat`. */
#pragma once

#include "stat_view.h"

#define URO_STAT_QPS      (1u << 0)
#define URO_STAT_CQS      (1u << 1)
#define URO_STAT_MRS      (1u << 2)
#define URO_STAT_COUNTERS (1u << 3)

/* These functions print the view. @sections is the set of URO_STAT_* that the user chose;
 * 0: the user chose none. */
void uro_stat_print_text(const struct uro_stat_view *view, unsigned sections);
void uro_stat_print_json(const struct uro_stat_view *view, unsigned sections);
void uro_stat_print_prometheus(const struct uro_stat_view *view, unsigned sections);

/* Makes @directory a copy of /sys with the devices of the user, and refreshes their files once a
 * second. The other entries are links to those of /sys. Ends after SIGINT, SIGTERM or an error, and
 * then removes the files. Prints errors. Returns the exit status. */
int uro_stat_sysfs(const char *directory);
