/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_config.c - parses any text as configuration. The first byte selects whether the text is in
 * UROCE_DEVICES or in the file of UROCE_CONFIG. Every entry must be usable, or have an error
 * message of one line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 8192u
#define FILE_BIT 1u

static char folder[64];
static char path[96];

/* Aborts unless @condition. Unlike assert(), it works in every build. */
static void demand(bool condition)
{
    if (!condition)
        abort();
}

static void clean_up(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

/* Creates the folder of the file, and the variables that a configuration can name. */
static void prepare(void)
{
    if (folder[0] != '\0')
        return;
    (void)snprintf(folder, sizeof folder, "/tmp/uroce-fuzz-XXXXXX");
    demand(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/uroce.conf", folder);
    demand(setenv("SHORT", "10.0.0.1", 1) == 0 && setenv("EMPTY", "", 1) == 0);
    demand(atexit(clean_up) == 0);
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* Returns whether the prefix length is valid. It is 0 over UDP sockets, where the kernel does the
 * routing. */
static bool is_prefix(const struct uro_device_config *config, uint8_t bits)
{
    return uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES)
               ? bits == 0
               : bits >= 1 && bits <= 128;
}

static void check(const struct uro_device_config *config)
{
    demand(ends(config->name, sizeof config->name) && ends(config->link, sizeof config->link));
    demand(ends(config->pcap, sizeof config->pcap));
    demand(ends(config->problem, sizeof config->problem));
    demand(strchr(config->problem, '\n') == NULL); /* one line */
    if (config->problem[0] != '\0')
        return;
    demand(config->name[0] != '\0' && config->link[0] != '\0');
    demand(config->gid_count >= 1 && config->gid_count <= URO_ENGINE_ADDRESSES_MAX);
    demand(config->mtu >= URO_PORT_MTU_MIN && config->mtu <= URO_PORT_MTU_MAX);
    demand((config->mac.octets[0] & 1) == 0);
    for (uint32_t i = 0; i < config->gid_count; i++)
        demand(!uro_gid_is_zero(&config->gids[i]) && is_prefix(config, config->prefix[i]));
}

static void read_file(struct uro_config *config, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);

    demand(fd >= 0 && write(fd, text, size) == (ssize_t)size && close(fd) == 0);
    uro_config_read(config, NULL, path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct uro_config config;
    char text[TEXT_MAX + 1];

    if (size == 0 || size > TEXT_MAX)
        return 0;
    prepare();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] & FILE_BIT)
        read_file(&config, text, size - 1);
    else
        uro_config_read(&config, text, NULL);
    demand(config.count <= URO_ARRAY_LEN(config.entries));
    for (uint32_t i = 0; i < config.count; i++)
        check(&config.entries[i].config);
    return 0;
}
