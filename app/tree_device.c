/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_device.c - writes the sysfs files that the kernel would have for a device, with the values
 * that the queries of lib/verbs/query.c return. tests/system/test_tree.py compares the values.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tree.h"

#define CPUS_MAX 1024
#define PATH     256

/* A device, and the tree that gets its files. */
struct device {
    struct uro_tree *tree;
    const char *name;
    const struct uro_sysfs_port *port;
};

static const char *path_of(const struct device *device, char path[static PATH], const char *name)
{
    (void)snprintf(path, PATH, URO_SYSFS_DEVICES "/%s/%s", device->name, name);
    return path;
}

static void write_file(const struct device *device, const char *name, const char *value)
{
    char path[PATH];

    uro_tree_file(device->tree, path_of(device, path, name), "%s\n", value);
}

static void write_guid(const struct device *device, const char *name, uint64_t guid)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
                   (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
                   (unsigned int)(guid & 0xffff));
    write_file(device, name, text);
}

static void write_hw_rev(const struct device *device, uint32_t revision)
{
    char text[16];

    (void)snprintf(text, sizeof text, "0x%x", (unsigned int)revision);
    write_file(device, "hw_rev", text);
}

static void write_port(const struct device *device)
{
    uro_tree_port(device->tree, device->name, device->port);
    write_file(device, "ports/1/link_layer", "Ethernet");
    write_file(device, "ports/1/lid", "0x0");
    write_file(device, "ports/1/lid_mask_count", "0");
    write_file(device, "ports/1/sm_lid", "0x0");
    write_file(device, "ports/1/sm_sl", "0");
    write_file(device, "ports/1/cap_mask", "0x04010000");
    write_file(device, "ports/1/pkeys/0", "0xffff");
}

/* Writes the local CPUs: all CPUs of the machine, in masks of 32 bits, the highest mask first. */
static void write_cpus(const struct device *device)
{
    long count = sysconf(_SC_NPROCESSORS_CONF);
    char text[CPUS_MAX / 32 * 9 + 1] = "";

    count = count < 1 ? 1 : count > CPUS_MAX ? CPUS_MAX : count;
    for (long word = (count - 1) / 32; word >= 0; word--) {
        long bits = count - word * 32;
        uint32_t mask = bits >= 32 ? UINT32_MAX : (UINT32_C(1) << bits) - 1;
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%08x%s", mask,
                       word > 0 ? "," : "");
    }
    write_file(device, "device/local_cpus", text);
}

/* Writes a link for each interface. uro_tree_link() keeps an existing link, so an interface with
 * several addresses has one link. */
static void write_interfaces(const struct device *device)
{
    char name[64], path[PATH], target[64];

    for (uint32_t i = 0; i < device->port->gid_count; i++) {
        if (device->port->ndevs[i][0] == '\0')
            continue;
        (void)snprintf(name, sizeof name, "device/net/%s", device->port->ndevs[i]);
        (void)snprintf(target, sizeof target, "/sys/class/net/%s", device->port->ndevs[i]);
        uro_tree_link(device->tree, path_of(device, path, name), target);
    }
}

/* Writes the entries in class/infiniband_verbs and dev/infiniband. @index is the number of the
 * device. */
static void write_verbs(const struct device *device, unsigned int index)
{
    char path[PATH];

    (void)snprintf(path, sizeof path, "class/infiniband_verbs/uverbs%u/ibdev", index);
    uro_tree_file(device->tree, path, "%s\n", device->name);
    (void)snprintf(path, sizeof path, "class/infiniband_verbs/uverbs%u/abi_version", index);
    uro_tree_file(device->tree, path, "1\n");
    (void)snprintf(path, sizeof path, "class/infiniband_verbs/uverbs%u/dev", index);
    /* The device number of /dev/null, because the node in dev/infiniband is a link to /dev/null. */
    uro_tree_file(device->tree, path, "1:3\n");
    (void)snprintf(path, sizeof path, "dev/infiniband/uverbs%u", index);
    uro_tree_link(device->tree, path, "/dev/null");
}

/* Writes the text of the card of like=, or @own without like=. Writes no file if the card's text is
 * unknown: the kernel has no such file either when a driver does not fill in the text. */
static void write_card_text(const struct device *device, const char *name, const char *text,
                            const char *own, const struct uro_card *card)
{
    if (text[0] != '\0')
        write_file(device, name, text);
    else if (!uro_card_given(card))
        write_file(device, name, own);
}

void uro_tree_device(struct uro_tree *tree, const char *name, uint64_t guid,
                     const struct uro_sysfs_port *port, const struct uro_card *card,
                     unsigned int index)
{
    const struct device device = { tree, name, port };
    char path[PATH], target[PATH];

    (void)snprintf(path, sizeof path, "class/infiniband/%s", name);
    (void)snprintf(target, sizeof target, "../../" URO_SYSFS_DEVICES "/%s", name);
    uro_tree_link(tree, path, target);
    write_file(&device, "node_type", "1: CA");
    write_guid(&device, "node_guid", guid);
    write_guid(&device, "sys_image_guid", guid);
    write_file(&device, "fw_ver", card->fw_ver[0] != '\0' ? card->fw_ver : URO_VERSION);
    write_card_text(&device, "hca_type", card->hca_type, "uroce", card);
    /* Prometheus exporters require the file board_id. */
    write_card_text(&device, "board_id", card->board_id, "uroce", card);
    if (uro_card_knows(card, URO_CARD_HW_VER))
        write_hw_rev(&device, (uint32_t)card->numbers[URO_CARD_HW_VER]);
    write_file(&device, "device/numa_node", "-1");
    write_cpus(&device);
    write_interfaces(&device);
    write_port(&device);
    write_verbs(&device, index);
}
