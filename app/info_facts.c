/* SPDX-License-Identifier: BSD-3-Clause */
/* info_facts.c - reads the properties of the kernel and the rights of this user. */
#define _GNU_SOURCE /* SOCK_CLOEXEC, program_invocation_name */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include "info.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define SEGMENT      1024 /* segment size that is tried, bytes; any valid value */
#define SHM_LEAST    (16u << 20)
#define BUFFERS_GOOD 1048576u /* bytes for a window of 256 packets of 4 KiB */

URO_PRINTF(3)
static void set(struct uro_info_fact *fact, bool good, const char *format, ...)
{
    va_list arguments;

    fact->good = good;
    va_start(arguments, format);
    (void)vsnprintf(fact->text, sizeof fact->text, format, arguments);
    va_end(arguments);
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* Tries an option of UDP sockets. */
static void try_udp(struct uro_info_fact *fact, int option, int value, const char *instead)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        set(fact, false, "no UDP socket: %s", strerror(errno));
    else if (setsockopt(fd, IPPROTO_UDP, option, &value, sizeof value) == 0)
        set(fact, true, "yes");
    else
        set(fact, false, "no (%s): %s", strerror(errno), instead);
    if (fd >= 0)
        (void)close(fd);
}

/* Tries to open a socket. */
static void try_socket(struct uro_info_fact *fact, int family, int protocol, const char *without)
{
    const int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd >= 0) {
        (void)close(fd);
        set(fact, true, "yes");
        return;
    }
    set(fact, false, "no (%s): %s", strerror(errno), without);
}

/* ---- rights ---------------------------------------------------------------------------------- */

static bool has_capability(unsigned number)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    return (data[number / 32].effective >> (number % 32) & 1) != 0;
}

/* Tries AF_XDP. It needs an XDP socket, and the right to load a BPF program that redirects packets
 * to the socket. */
static void try_xdp(struct uro_info_fact *fact)
{
    try_socket(fact, AF_XDP, 0, "net_af_xdp needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF");
    if (fact->good && !(has_capability(CAP_NET_ADMIN) &&
                        (has_capability(CAP_BPF) || has_capability(CAP_SYS_ADMIN))))
        set(fact, false, "sockets only: net_af_xdp also needs CAP_NET_ADMIN and CAP_BPF");
}

static void look_at_file(struct uro_info_fact *fact, const char *path, const char *without)
{
    if (access(path, R_OK | W_OK) == 0)
        set(fact, true, "yes");
    else
        set(fact, false, "no (%s: %s): %s", path, strerror(errno), without);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Reads a number from a file of /proc. @name begins its line, or is NULL for the first word of the
 * file. Returns false if the number cannot be read. */
static bool read_number(const char *path, const char *name, uint64_t *number)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        if (name == NULL || strncmp(line, name, strlen(name)) == 0) {
            const char *digits = line + (name != NULL ? strlen(name) : 0);
            char *end;
            *number = strtoull(digits, &end, 10);
            found = end != digits;
        }
    if (file != NULL)
        (void)fclose(file);
    return found;
}

static void look_at_hugepages(struct uro_info_fact *fact)
{
    uint64_t total, left, size;

    if (!read_number("/proc/meminfo", "HugePages_Total:", &total) ||
        !read_number("/proc/meminfo", "HugePages_Free:", &left) ||
        !read_number("/proc/meminfo", "Hugepagesize:", &size))
        set(fact, false, "unknown: /proc/meminfo has no lines about them");
    else if (total == 0)
        set(fact, false,
            "none; DPDK links then use ordinary memory (hugepages=), and some network cards "
            "need them");
    else
        set(fact, left > 0, "%" PRIu64 " of %" PRIu64 " free, %" PRIu64 " kB each", left, total,
            size);
}

static void look_at_memlock(struct uro_info_fact *fact)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        set(fact, false, "unknown: %s", strerror(errno));
    else if (limit.rlim_cur == RLIM_INFINITY)
        set(fact, true, "no limit");
    else
        set(fact, true, "%" PRIu64 " kB; uroce locks no memory, so ibv_reg_mr is not limited",
            (uint64_t)limit.rlim_cur / 1024);
}

static void look_at_buffers(struct uro_info_fact *fact)
{
    uint64_t receive, send;

    if (!read_number("/proc/sys/net/core/rmem_max", NULL, &receive) ||
        !read_number("/proc/sys/net/core/wmem_max", NULL, &send))
        set(fact, false, "unknown: /proc/sys/net/core cannot be read");
    else if (receive < BUFFERS_GOOD || send < BUFFERS_GOOD)
        set(fact, true,
            "%" PRIu64 " and %" PRIu64 " bytes; larger ones allow a larger window over udp: "
            "sysctl net.core.rmem_max=8388608 net.core.wmem_max=8388608",
            receive, send);
    else
        set(fact, true, "%" PRIu64 " and %" PRIu64 " bytes", receive, send);
}

static void look_at_shm(struct uro_info_fact *fact)
{
    struct statvfs is;

    if (statvfs("/dev/shm", &is) != 0 || access("/dev/shm", W_OK | X_OK) != 0)
        set(fact, false,
            "no (%s): `uroce stat` then reads from $XDG_RUNTIME_DIR or /tmp; mount a tmpfs at "
            "/dev/shm",
            strerror(errno));
    else if ((uint64_t)is.f_bavail * is.f_frsize < SHM_LEAST)
        set(fact, false,
            "%" PRIu64 " kB free: Open MPI and UCX may need more; see --shm-size of docker",
            (uint64_t)is.f_bavail * is.f_frsize / 1024);
    else
        set(fact, true, "yes");
}

static void look_at_sys(struct uro_info_fact *fact)
{
    if (access("/sys/devices/system/cpu", F_OK) == 0)
        set(fact, true, "yes");
    else
        set(fact, false, "no (%s): DPDK links need it; mount sysfs at /sys", strerror(errno));
}

static void look_at_proc(struct uro_info_fact *fact)
{
    if (access("/proc/self/exe", F_OK) == 0)
        set(fact, true, "yes");
    else
        set(fact, false, "no (%s): `uroce run` needs it to find its libraries; mount /proc",
            strerror(errno));
}

/* ---- all facts ------------------------------------------------------------------------------- */

uint32_t uro_info_facts(struct uro_info_fact facts[static URO_INFO_FACTS_MAX])
{
    struct uro_info_fact *next = facts;

    *next = (struct uro_info_fact){ .key = "udp_gso", .title = "UDP GSO" };
    try_udp(next++, UDP_SEGMENT, SEGMENT, "udp sends packets one by one; Linux has it since 4.18");
    *next = (struct uro_info_fact){ .key = "udp_gro", .title = "UDP GRO" };
    try_udp(next++, UDP_GRO, 1, "udp receives packets one by one; Linux has it since 5.0");
    *next = (struct uro_info_fact){ .key = "socket_buffers", .title = "socket buffers" };
    look_at_buffers(next++);
    *next = (struct uro_info_fact){ .key = "raw_sockets", .title = "raw sockets" };
    try_socket(next++, AF_INET, IPPROTO_UDP,
               "udp does without; its option ident=full needs CAP_NET_RAW");
    *next = (struct uro_info_fact){ .key = "packet_sockets", .title = "packet sockets" };
    try_socket(next++, AF_PACKET, 0, "net_af_packet needs CAP_NET_RAW");
    *next = (struct uro_info_fact){ .key = "af_xdp", .title = "AF_XDP" };
    try_xdp(next++);
    *next = (struct uro_info_fact){ .key = "tun", .title = "tap interfaces" };
    look_at_file(next++, "/dev/net/tun", "net_tap needs it, and CAP_NET_ADMIN");
    *next = (struct uro_info_fact){ .key = "vfio", .title = "VFIO" };
    look_at_file(next++, "/dev/vfio/vfio", "network cards under DPDK need it");
    *next = (struct uro_info_fact){ .key = "hugepages", .title = "hugepages" };
    look_at_hugepages(next++);
    *next = (struct uro_info_fact){ .key = "memlock", .title = "locked memory" };
    look_at_memlock(next++);
    *next = (struct uro_info_fact){ .key = "dev_shm", .title = "/dev/shm" };
    look_at_shm(next++);
    *next = (struct uro_info_fact){ .key = "proc", .title = "/proc" };
    look_at_proc(next++);
    *next = (struct uro_info_fact){ .key = "sys", .title = "/sys" };
    look_at_sys(next++);
    return (uint32_t)(next - facts);
}

const struct uro_info_fact *uro_info_fact_of(const struct uro_info_fact *facts, uint32_t count,
                                             const char *key)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(facts[i].key, key) == 0)
            return &facts[i];
    return NULL;
}
