/* SPDX-License-Identifier: BSD-3-Clause */
/* emulator_probes.c - tries calls of Linux that an emulator may lack, without any code of uroce.
 *
 * Prints "NAME works" or "NAME missing" for each call. tools/cross runs this program on this
 * machine and on the emulator. A failure of a test is excused only if its call works on this
 * machine and is missing on the emulator. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGE 4096u
#define SENT 8u

static void *pages(int rights)
{
    return mmap(NULL, PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The call must fail for a page without read permission. */
static bool madvise_populate(void)
{
    return madvise(pages(PROT_NONE), PAGE, MADV_POPULATE_READ) != 0;
}

static bool madvise_wipeonfork(void)
{
    char *page = pages(PROT_READ | PROT_WRITE);
    int status = -1;

    page[0] = 1;
    (void)madvise(page, PAGE, MADV_WIPEONFORK);
    pid_t child = fork();
    if (child == 0)
        _exit(page[0]);
    return waitpid(child, &status, 0) == child && status == 0;
}

static bool multicast_option(int option, const void *value, socklen_t length)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool works = setsockopt(fd, IPPROTO_IP, option, value, length) == 0;

    (void)close(fd);
    return works;
}

static bool ip_multicast_if(void)
{
    const struct ip_mreqn loopback = { .imr_address = { htonl(INADDR_LOOPBACK) } };

    return multicast_option(IP_MULTICAST_IF, &loopback, sizeof loopback);
}

static bool ip_multicast_all(void)
{
    return multicast_option(IP_MULTICAST_ALL, &(int){ 0 }, sizeof(int));
}

/* The error must be about the descriptor, not about an unknown option. */
static bool packet_rx_ring(void)
{
    const struct tpacket_req ring = { PAGE, 1, PAGE, 1 };

    return setsockopt(-1, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) != 0 && errno == EBADF;
}

static bool aio(void)
{
    aio_context_t context = 0;

    return syscall(SYS_io_setup, 1, &context) == 0;
}

static bool preadv2_nowait(void)
{
    char octet = 0;
    const struct iovec to = { &octet, 1 };
    int fds[2];

    return pipe(fds) == 0 && write(fds[1], "x", 1) == 1 &&
           preadv2(fds[0], &to, 1, -1, RWF_NOWAIT) == 1;
}

static bool rlimit_as(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        (void)setrlimit(RLIMIT_AS, &(struct rlimit){ 1, 1 });
        _exit(pages(PROT_READ) == MAP_FAILED ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

/* A message has more descriptors than the buffer of the receiver. Only the descriptors that the
 * program gets may be open. */
static bool scm_rights_truncated(void)
{
    union {
        char octets[CMSG_SPACE(SENT * sizeof(int))];
        struct cmsghdr first;
    } out = { { 0 } }, in;
    char octet = 0;
    struct iovec data = { &octet, 1 };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &out, .msg_controllen = sizeof out
    };
    int pair[2], sent[SENT] = { 0 };

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        return false;
    out.first.cmsg_level = SOL_SOCKET;
    out.first.cmsg_type = SCM_RIGHTS;
    out.first.cmsg_len = CMSG_LEN(sizeof sent);
    memcpy(CMSG_DATA(&out.first), sent, sizeof sent);
    if (sendmsg(pair[0], &message, 0) != 1)
        return false;
    message.msg_control = &in;
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    const int lowest = dup(0);
    (void)close(lowest);
    if (recvmsg(pair[1], &message, 0) != 1)
        return false;
    const int next = dup(0);
    const size_t seen = (in.first.cmsg_len - CMSG_LEN(0)) / sizeof(int);
    return (size_t)(next - lowest) == seen;
}

/* Sends a datagram with another hop limit than the socket. */
static bool control_message(void)
{
    union {
        char octets[CMSG_SPACE(sizeof(int))];
        struct cmsghdr first;
    } control = { { 0 } };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof to;
    char octet = 0;
    struct iovec data = { &octet, 1 };
    const struct msghdr message = { .msg_name = &to,
                                    .msg_namelen = sizeof to,
                                    .msg_iov = &data,
                                    .msg_iovlen = 1,
                                    .msg_control = &control,
                                    .msg_controllen = sizeof control };
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    control.first.cmsg_level = IPPROTO_IP;
    control.first.cmsg_type = IP_TTL;
    control.first.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.first), &(int){ 1 }, sizeof(int));
    return bind(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
           getsockname(fd, (struct sockaddr *)&to, &length) == 0 && sendmsg(fd, &message, 0) == 1;
}

/* A filter chooses the process that gets a packet of a shared port. */
static bool reuseport_filter(void)
{
    struct sock_filter first[] = { BPF_STMT(BPF_RET | BPF_K, 0) };
    const struct sock_fprog filter = { 1, first };
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 }, sizeof(int)) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &filter, sizeof filter) == 0;
}

/* DPDK reads the number of queues of an interface. Loopback does not have the number, so Linux
 * returns EOPNOTSUPP. */
static bool ethtool_channels(void)
{
    struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
    struct ifreq request = { .ifr_name = "lo", .ifr_data = (char *)&channels };

    return ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCETHTOOL, &request) == 0 || errno == EOPNOTSUPP;
}

int main(void)
{
    static const struct {
        const char *name;
        bool (*works)(void);
    } probes[] = {
        { "madvise-populate", madvise_populate },
        { "madvise-wipeonfork", madvise_wipeonfork },
        { "ip-multicast-if", ip_multicast_if },
        { "ip-multicast-all", ip_multicast_all },
        { "packet-rx-ring", packet_rx_ring },
        { "aio", aio },
        { "preadv2-nowait", preadv2_nowait },
        { "rlimit-as", rlimit_as },
        { "scm-rights-truncated", scm_rights_truncated },
        { "control-message", control_message },
        { "reuseport-filter", reuseport_filter },
        { "ethtool-channels", ethtool_channels },
    };

    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        bool works = probes[i].works();
        (void)printf("%s %s\n", probes[i].name, works ? "works" : "missing");
        (void)fflush(stdout);
    }
    return 0;
}
