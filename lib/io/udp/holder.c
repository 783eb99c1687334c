/* SPDX-License-Identifier: BSD-3-Clause */
/* holder.c - looks the socket up in /proc/net, and its inode among everybody's descriptors. */
#define _GNU_SOURCE /* readlinkat, dirfd, strsep */
#include "io/udp/holder.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The address as /proc/net/udp and udp6 write it: words of the host's order. */
static void proc_text(const struct uro_gid *address, bool v6, char out[static 33])
{
    uint32_t words[4];

    memcpy(words, address->octets, sizeof words);
    if (v6)
        (void)snprintf(out, 33, "%08X%08X%08X%08X", words[0], words[1], words[2], words[3]);
    else
        (void)snprintf(out, 33, "%08X", words[3]);
}

/* The inode of the socket that has the port, of this address or of all; 0: none seen. */
static unsigned long find_inode(const char *file, const char *address, uint16_t port, bool *found)
{
    FILE *in = fopen(file, "r");
    char line[512];
    unsigned long inode = 0;

    if (in == NULL)
        return 0;
    while (!*found && fgets(line, sizeof line, in) != NULL) {
        char local[33];
        unsigned at;
        if (sscanf(line, " %*[^:]: %32[0-9A-F]:%X %*s %*s %*s %*s %*s %*s %*s %lu", local, &at,
                   &inode) == 3 &&
            at == port && (strcmp(local, address) == 0 || strspn(local, "0") == strlen(local)))
            *found = true;
    }
    (void)fclose(in);
    return *found ? inode : 0;
}

static bool has_descriptor(const char *pid, const char *target)
{
    char path[300], link[64];
    bool has = false;

    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *descriptors = opendir(path);
    if (descriptors == NULL)
        return false;
    for (struct dirent *at; !has && (at = readdir(descriptors)) != NULL;) {
        ssize_t length = readlinkat(dirfd(descriptors), at->d_name, link, sizeof link - 1);
        if (length <= 0)
            continue;
        link[length] = '\0';
        has = strcmp(link, target) == 0;
    }
    (void)closedir(descriptors);
    return has;
}

static bool find_process(unsigned long inode, char text[static URO_HOLDER_TEXT_MAX])
{
    char target[64], path[300], name[32] = "?";
    DIR *processes = opendir("/proc");
    bool found = false;

    if (processes == NULL)
        return false;
    (void)snprintf(target, sizeof target, "socket:[%lu]", inode);
    for (struct dirent *at; !found && (at = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)at->d_name[0]) || !has_descriptor(at->d_name, target))
            continue;
        found = true;
        (void)snprintf(path, sizeof path, "/proc/%s/comm", at->d_name);
        FILE *in = fopen(path, "r");
        if (in != NULL && fgets(name, sizeof name, in) != NULL)
            name[strcspn(name, "\n")] = '\0';
        if (in != NULL)
            (void)fclose(in);
        (void)snprintf(text, URO_HOLDER_TEXT_MAX, "process %.20s (%s)", at->d_name, name);
    }
    (void)closedir(processes);
    return found;
}

void uro_holder_find(const struct uro_gid *address, uint16_t port,
                     char text[static URO_HOLDER_TEXT_MAX])
{
    bool v6 = !uro_gid_is_ipv4(address), found = false;
    char local[33];

    proc_text(address, v6, local);
    unsigned long inode = find_inode(v6 ? "/proc/net/udp6" : "/proc/net/udp", local, port, &found);
    if (!v6 && !found) /* a socket of both versions */
        inode = find_inode("/proc/net/udp6", "", port, &found);
    if (found && inode == 0)
        (void)snprintf(text, URO_HOLDER_TEXT_MAX, "the kernel (an rxe device? see `rdma link`)");
    else if (!found || !find_process(inode, text))
        (void)snprintf(text, URO_HOLDER_TEXT_MAX, "another process");
}
