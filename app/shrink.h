/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.h - the runs of a command under `uroce shrink`. */
#pragma once

#include <stdbool.h>

enum uro_shrink_result {
    URO_SHRINK_PASSES,    /* exit status 0 */
    URO_SHRINK_FAILS,     /* another status, a signal, or too slow */
    URO_SHRINK_CANNOT_RUN /* the command does not exist; a message was printed */
};

/* Runs @command, a NULL-terminated list of words, with UROCE_REPLAY set to @trace. Kills it after
 * @timeout_s seconds; 0: never. Its output goes to /dev/null unless @verbose. */
enum uro_shrink_result uro_shrink_run(char *const *command, const char *trace, unsigned timeout_s,
                                      bool verbose);
