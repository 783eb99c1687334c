/* SPDX-License-Identifier: BSD-3-Clause */
/* device_options.h - the options --device and --config of `uroce run` and `uroce peer`. */
#pragma once

#include <stdbool.h>

struct uro_device_options {
    const char *command; /* name of the subcommand, for messages */
    char *devices;       /* values of --device, separated by spaces; NULL: none */
    const char *config;  /* value of --config; NULL: none */
};

/* Adds the value of --device. Returns false after a message. */
bool uro_device_options_add(struct uro_device_options *options, const char *spec);

/* Sets UROCE_DEVICES or UROCE_CONFIG if an option names devices. Returns false after a message. */
bool uro_device_options_apply(struct uro_device_options *options);

/* Checks the devices after uro_device_options_apply(). Prints a message if the configuration names
 * no device. Returns false after a message if a --device is wrong. Does not report an interface or
 * an address that is missing: the program may create it, or run in another network namespace. */
bool uro_device_options_check(const struct uro_device_options *options);
