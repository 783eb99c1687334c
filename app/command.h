/* SPDX-License-Identifier: BSD-3-Clause */
/* command.h - runs a command of the user and waits for its end, for `uroce shrink` and
 * `uroce run --chaos`. */
#pragma once

#include <stdbool.h>

struct uro_command {
    char *const *words;   /* NULL-terminated */
    const char *variable; /* environment variable that the command gets, and its value */
    const char *value;
    unsigned timeout_s; /* time after which the command is killed, seconds; 0: never */
    int output;         /* descriptor for stdout and stderr of the command; -1: those of uroce */
};

struct uro_command_end {
    int error;  /* errno if the command could not be started, else 0 */
    int status; /* status from waitpid() */
    bool slow;  /* the command was killed because of the timeout */
    double seconds;
};

/* Runs the command, and then kills the remaining processes of its process group. If SIGINT, SIGTERM
 * or SIGHUP ends this program, the command is killed, too. Only one command runs at a time. */
struct uro_command_end uro_command_run(const struct uro_command *command);
