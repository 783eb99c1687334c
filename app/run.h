/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - the parts of `uroce run`. */
#pragma once

#include <stdbool.h>

#include "host/host.h"

/* Sets UROCE_DEVICES to the default device, uroce0:udp,ip=auto. Returns false when devices are
 * configured already. */
bool uro_run_choose_default(void);

/* Returns the reason why the default device is not usable. The text does not name a place in the
 * configuration, because the user did not write this configuration. */
const char *uro_run_default_problem(const struct uro_device_config *config);

/* Chooses the default device if no device is configured. Prints the device, unless @quiet. Always
 * warns about a loopback address. If the default device is not usable, prints the reason to stderr
 * and returns false. */
bool uro_run_default_device(bool quiet);

/* Starts the brokers for the addresses of UDP devices. Keeps the brokers running until this
 * process, which becomes the program, and all of its children have ended. */
void uro_run_brokers(void);

/* Starts the broker of @address, unless one runs. On failure the broker prints the reason. */
void uro_run_broker(const struct uro_gid *address);

/* Warns on stderr if uroce cannot be loaded into @program: the program is static, has more
 * privileges than its caller, or is built with AddressSanitizer. Searches @program like
 * execvp(). */
void uro_run_check_program(const char *program);

/* Returns the variable that names the devices: UROCE_DEVICES or UROCE_CONFIG. */
const char *uro_run_source(void);

/* Prints a message if the configuration names no device. @command: name of the subcommand. Returns
 * whether it names none. */
bool uro_run_warn_no_device(const char *command);
