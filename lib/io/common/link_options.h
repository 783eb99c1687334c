/* SPDX-License-Identifier: BSD-3-Clause */
/* link_options.h - finds the driver of a link and reads the link's options:
 * "NAME,key=value,...". */
#pragma once

#include "engine/port.h"

#define URO_LINK_OPTIONS_EXPECTS 96u

/* Returns whether @driver is the driver of the link. The name of the link, up to the first comma,
 * shows this: it has the prefix of the driver, or is a PCI address. */
bool uro_link_options_serve(const struct uro_port_driver *driver, const char *link);

/* Reads each option of @link by the table of @driver. Stores the values in the struct at @into,
 * unless @into is NULL. Sets bit i of @given when option i of the table is given, unless @given is
 * NULL. Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_link_options_read(const struct uro_port_driver *driver, const char *link,
                                        void *into, uint32_t *given,
                                        char error[static URO_PORT_ERROR_MAX]);

/* Copies the value of option @name to @out. Returns false when the link does not have the option,
 * or when the value is empty or does not fit into @size bytes. */
bool uro_link_options_value(const char *link, const char *name, char *out, size_t size);

/* Writes the allowed values of the option, as part of a sentence: "yes or no". Returns @text. */
char *uro_link_options_expects(const struct uro_link_option *option,
                               char text[static URO_LINK_OPTIONS_EXPECTS]);

/* Reads a decimal number from @min to @max that is a multiple of @grain, unless @grain is 0.
 * Returns false if @value is not such a number. Functions for URO_OPTION_OTHER may call it, too. */
bool uro_link_options_number(const char *value, uint32_t min, uint32_t max, uint32_t grain,
                             uint32_t *out);
