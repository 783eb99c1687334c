/* SPDX-License-Identifier: BSD-3-Clause */
/* port_owner.c - looks the socket up in /proc/net, then searches all processes for a descriptor
 * with its inode. */
#define _GNU_SOURCE /* readlinkat, dirfd, strsep */
#include "io/udp/port_owner.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the address in the format of /proc/net/udp and udp6: 32-bit words in host byte order. */
static void proc_text(const struct uro_gid *address, bool v6, char out[static 33])
{
    uint32_t words[4];

    memcpy(words, address->octets, sizeof words);
    if (v6)
        (void)snprintf(out, 33, "%08X%08X%08X%08X", words[0], words[1], words[2], words[3]);
    else
        (void)snprintf(out, 33, "%08X", words[3]);
}

/* The sockets bound to the port, at this address or at the wildcard address. */
struct sockets {
    uint32_t count; /* a hub has several */
    unsigned user;  /* user ID of the first socket */
    unsigned long inode;
};

static struct sockets find_sockets(const char *file, const char *address, uint16_t port)
{
    struct sockets found = { 0 };
    FILE *in = fopen(file, "r");
    char line[512];

    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        char local[33];
        unsigned at, user;
        unsigned long inode;
        if (sscanf(line, " %*[^:]: %32[0-9A-F]:%X %*s %*s %*s %*s %*s %u %*s %lu", local, &at,
                   &user, &inode) != 4 ||
            at != port || (strcmp(local, address) != 0 && strspn(local, "0") != strlen(local)))
            continue;
        if (found.count++ == 0) {
            found.user = user;
            found.inode = inode;
        }
    }
    if (in != NULL)
        (void)fclose(in);
    return found;
}

/* Finds the name of @user in /etc/passwd only, because a directory service may take long. */
static void name_user(unsigned user, char name[static 33])
{
    FILE *in = fopen("/etc/passwd", "r");
    char line[512];

    (void)snprintf(name, 33, "%u", user);
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        char known[33];
        unsigned number;
        if (sscanf(line, "%32[^:]:%*[^:]:%u:", known, &number) == 2 && number == user) {
            memcpy(name, known, sizeof known);
            break;
        }
    }
    if (in != NULL)
        (void)fclose(in);
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

static bool find_process(unsigned long inode, char text[static URO_PORT_OWNER_TEXT_MAX])
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
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX, "process %.20s (%s)", at->d_name, name);
    }
    (void)closedir(processes);
    return found;
}

void uro_port_owner_find(const struct uro_gid *address, uint16_t port,
                         char text[static URO_PORT_OWNER_TEXT_MAX])
{
    const bool v6 = !uro_gid_is_ipv4(address);
    char local[33], user[33];

    proc_text(address, v6, local);
    struct sockets found = find_sockets(v6 ? "/proc/net/udp6" : "/proc/net/udp", local, port);
    if (!v6 && found.count == 0) /* maybe an IPv6 socket that also receives IPv4 */
        found = find_sockets("/proc/net/udp6", "", port);
    name_user(found.user, user);
    if (found.count == 0)
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX, "another process");
    else if (found.inode == 0)
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX,
                       "the kernel (an rxe device? see `rdma link`)");
    else if (found.count > 1 && found.user != geteuid())
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX,
                       "a hub of user %s (one user can share an address)", user);
    else if (!find_process(found.inode, text))
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX, "a process of user %s", user);
}
