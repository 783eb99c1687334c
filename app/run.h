/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - the parts of `uroce run`. */
#pragma once

#include <stdbool.h>

#include "host/host.h"

/* Sets UROCE_DEVICES to the default device, uroce0:udp,ip=auto. False when devices are configured
 * already. */
bool uro_run_choose_default(void);

/* Why the default device is not usable, without the place that the configuration names: it is not
 * the user's. */
const char *uro_run_default_problem(const struct uro_device_config *config);

/* When the environment names no device: chooses the default one and says so, unless @quiet. Warns
 * when it is a loopback address, in any case. False when there is no such device; stderr says
 * why. */
bool uro_run_default_device(bool quiet);

/* Starts the brokers of the addresses that devices over UDP have, and keeps them until this
 * process, which is the program soon, and all of its children have ended. */
void uro_run_brokers(void);

/* Warns on stderr when uroce cannot be loaded into @program, as execvp() would find it: when it is
 * static, has more rights than its caller, or is built with AddressSanitizer. */
void uro_run_look_at(const char *program);
