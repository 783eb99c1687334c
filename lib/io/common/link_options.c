/* SPDX-License-Identifier: BSD-3-Clause */
/* link_options.c - see link_options.h. */
#define _GNU_SOURCE /* strsep */
#include "io/common/link_options.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_MAX   512u
#define NAME_CHARS 32

/* ---- the driver of a link ------------------------------------------------- */

/* Returns whether the name of the link has the form 0000:00:05.0 or 00:05.0. */
static bool is_pci_address(const char *link)
{
    unsigned domain, bus, device, function;
    int end = 0;

    if (sscanf(link, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 &&
        sscanf(link, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3)
        return false;
    return link[end] == '\0' || link[end] == ',';
}

bool uro_link_options_serve(const struct uro_port_driver *driver, const char *link)
{
    const size_t length = strlen(driver->prefix);

    if ((driver->flags & URO_DRIVER_PCI) != 0)
        return is_pci_address(link);
    if (strncmp(link, driver->prefix, length) != 0)
        return false;
    link += length;
    if ((driver->flags & URO_DRIVER_ANY_NAME) != 0)
        return *link != '\0' && *link != ',';
    if ((driver->flags & URO_DRIVER_NUMBERED) != 0)
        link += strspn(link, "0123456789");
    return *link == '\0' || *link == ',';
}

/* ---- one option ------------------------------------------------------------ */

bool uro_link_options_number(const char *value, uint32_t min, uint32_t max, uint32_t grain,
                             uint32_t *out)
{
    char *end;
    const unsigned long number = strtoul(value, &end, 10);

    if (!isdigit((unsigned char)value[0]) || *end != '\0' || number < min || number > max ||
        (grain != 0 && number % grain != 0))
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool read_text(const struct uro_link_option *option, const char *value, char *out)
{
    const size_t length = strlen(value);

    if (length < option->min || length > option->max)
        return false;
    memcpy(out, value, length + 1);
    return true;
}

static bool read_choice(const struct uro_link_option *option, const char *value, uint32_t *out)
{
    for (uint32_t i = 0; i < URO_OPTION_CHOICES_MAX && option->choices[i] != NULL; i++)
        if (strcmp(value, option->choices[i]) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool read_yes_no(const char *value, bool *out)
{
    *out = strcmp(value, "yes") == 0;
    return *out || strcmp(value, "no") == 0;
}

/* Reads the value into @member, whose type is that of the option's kind. */
static bool read_value(const struct uro_link_option *option, const char *value, void *member)
{
    switch (option->kind) {
    case URO_OPTION_TEXT:
        return read_text(option, value, member);
    case URO_OPTION_NUMBER:
        return uro_link_options_number(value, option->min, option->max, option->grain, member);
    case URO_OPTION_CHOICE:
        return read_choice(option, value, member);
    case URO_OPTION_YES_NO:
        return read_yes_no(value, member);
    case URO_OPTION_OTHER:
        return option->read(value, member);
    }
    return false;
}

/* ---- messages --------------------------------------------------------------- */

/* Appends text to the string at @out, which has space for @size bytes. Cuts off the text that does
 * not fit. */
URO_PRINTF(3) static void append(char *out, size_t size, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

static void append_number(const struct uro_link_option *option, char *text)
{
    append(text, URO_LINK_OPTIONS_EXPECTS, "a number ");
    if (option->unit != NULL)
        append(text, URO_LINK_OPTIONS_EXPECTS, "of %s ", option->unit);
    append(text, URO_LINK_OPTIONS_EXPECTS, "from %u to %u", option->min, option->max);
    if (option->grain > 1)
        append(text, URO_LINK_OPTIONS_EXPECTS, ", a multiple of %u", option->grain);
}

static void append_choices(const struct uro_link_option *option, char *text)
{
    for (uint32_t i = 0; i < URO_OPTION_CHOICES_MAX && option->choices[i] != NULL; i++) {
        const bool last = i + 1 == URO_OPTION_CHOICES_MAX || option->choices[i + 1] == NULL;
        append(text, URO_LINK_OPTIONS_EXPECTS, "%s%s",
               i == 0 ? ""
               : last ? " or "
                      : ", ",
               option->choices[i]);
    }
}

char *uro_link_options_expects(const struct uro_link_option *option,
                               char text[static URO_LINK_OPTIONS_EXPECTS])
{
    text[0] = '\0';
    if (option->expects != NULL)
        append(text, URO_LINK_OPTIONS_EXPECTS, "%s", option->expects);
    else if (option->kind == URO_OPTION_NUMBER)
        append_number(option, text);
    else if (option->kind == URO_OPTION_CHOICE)
        append_choices(option, text);
    else if (option->kind == URO_OPTION_YES_NO)
        append(text, URO_LINK_OPTIONS_EXPECTS, "yes or no");
    else if (option->min == 0)
        append(text, URO_LINK_OPTIONS_EXPECTS, "a text of at most %u characters", option->max);
    else
        append(text, URO_LINK_OPTIONS_EXPECTS, "a text of %u to %u characters", option->min,
               option->max);
    return text;
}

static void explain_unknown(const struct uro_port_driver *driver, const char *name,
                            const char *option, char error[static URO_PORT_ERROR_MAX])
{
    (void)snprintf(error, URO_PORT_ERROR_MAX, "link %.32s: unknown option \"%.40s\"; %s %s", name,
                   option, driver->prefix, driver->option_count > 0 ? "knows" : "has no options");
    for (uint32_t i = 0; i < driver->option_count; i++)
        append(error, URO_PORT_ERROR_MAX, "%s %s=", i > 0 ? "," : "", driver->options[i].name);
}

static void explain_value(const struct uro_link_option *option, const char *name, const char *value,
                          char error[static URO_PORT_ERROR_MAX])
{
    char expects[URO_LINK_OPTIONS_EXPECTS];

    (void)snprintf(error, URO_PORT_ERROR_MAX, "link %.32s: %s=%.80s: must be %s", name,
                   option->name, option->secret ? "..." : value,
                   uro_link_options_expects(option, expects));
}

/* ---- all options ------------------------------------------------------------ */

static const struct uro_link_option *find(const struct uro_port_driver *driver, const char *name)
{
    for (uint32_t i = 0; i < driver->option_count; i++)
        if (strcmp(name, driver->options[i].name) == 0)
            return &driver->options[i];
    return NULL;
}

/* Reads one value. Checks the value even if it is not stored. */
static bool take(const struct uro_link_option *option, const char *value, void *into)
{
    union {
        uint64_t number;
        char text[LINK_MAX];
    } unused;

    if (into == NULL || option->member == URO_OPTION_NOT_KEPT)
        return read_value(option, value, &unused);
    return read_value(option, value, (char *)into + option->member);
}

int uro_link_options_read(const struct uro_port_driver *driver, const char *link, void *into,
                          uint32_t *given, char error[static URO_PORT_ERROR_MAX])
{
    char copy[LINK_MAX], empty[] = "";
    char *rest = copy, *value;
    uint32_t seen = 0;

    if (strlen(link) >= sizeof copy) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link %.*s: must be at most %zu characters",
                       NAME_CHARS, link, sizeof copy - 1);
        return -1;
    }
    memcpy(copy, link, strlen(link) + 1);
    const char *name = strsep(&rest, ",");
    while ((value = strsep(&rest, ",")) != NULL) {
        const char *key = strsep(&value, "=");
        const struct uro_link_option *option = find(driver, key);
        if (option == NULL && (driver->flags & URO_DRIVER_OTHER_OPTIONS) != 0)
            continue;
        if (option == NULL) {
            explain_unknown(driver, name, key, error);
            return -1;
        }
        const uint32_t bit = UINT32_C(1) << (option - driver->options);
        if ((seen & bit) != 0 && !option->repeats) {
            (void)snprintf(error, URO_PORT_ERROR_MAX, "link %.32s: %s= is given twice", name,
                           option->name);
            return -1;
        }
        seen |= bit;
        value = value != NULL ? value : empty;
        if (!take(option, value, into)) {
            explain_value(option, name, value, error);
            return -1;
        }
    }
    if (given != NULL)
        *given |= seen;
    return 0;
}

bool uro_link_options_value(const char *link, const char *name, char *out, size_t size)
{
    const size_t length = strlen(name);

    for (const char *comma = strchr(link, ','); comma != NULL; comma = strchr(comma + 1, ',')) {
        const char *value = comma + 1 + length + 1;
        if (strncmp(comma + 1, name, length) != 0 || comma[1 + length] != '=')
            continue;
        const size_t value_length = strcspn(value, ",");
        if (value_length == 0 || value_length >= size)
            return false;
        memcpy(out, value, value_length);
        out[value_length] = '\0';
        return true;
    }
    return false;
}
