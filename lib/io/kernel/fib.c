/* SPDX-License-Identifier: BSD-3-Clause */
/* fib.c - see fib.h. Requests from rtnetlink the matching entry of the table (RTM_F_FIB_MATCH), not
 * the cached route that the kernel makes from it. */
#define _DEFAULT_SOURCE /* struct ifreq */
#include "io/kernel/fib.h"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define LONGEST 65535u /* length of the longest IP packet */
#define REPLY_MAX                                                                                  \
    8192u /* bytes; a longer reply, with hundreds of next hops, leaves the MTU unknown */
#define NUMBER_TEXT  16u
#define MATCH_IN_FIB 0x2000 /* RTM_F_FIB_MATCH, which older headers do not have */

struct request {
    struct nlmsghdr header;
    struct rtmsg route;
    uint8_t attributes[64];
};

static void add(struct request *request, uint16_t type, const void *value, uint16_t length)
{
    uint8_t *at =
        request->attributes + (request->header.nlmsg_len - NLMSG_LENGTH(sizeof request->route));
    const struct rtattr head = { .rta_len = (uint16_t)RTA_LENGTH(length), .rta_type = type };

    memcpy(at, &head, sizeof head);
    memcpy(at + RTA_LENGTH(0), value, length);
    request->header.nlmsg_len += (uint32_t)RTA_SPACE(length);
}

static void add_address(struct request *request, uint16_t type, const struct uro_gid *gid)
{
    const bool v4 = uro_gid_is_ipv4(gid);

    add(request, type, gid->octets + (v4 ? 12 : 0), v4 ? 4 : 16);
}

static bool send_request(int fd, const struct uro_gid *from, const struct uro_gid *to,
                         uint32_t interface)
{
    const bool v4 = uro_gid_is_ipv4(to);
    const uint8_t bits = v4 ? 32 : 128;
    struct request request = {
        .header = { .nlmsg_len = NLMSG_LENGTH(sizeof request.route),
                    .nlmsg_type = RTM_GETROUTE,
                    .nlmsg_flags = NLM_F_REQUEST },
        .route = { .rtm_family = v4 ? AF_INET : AF_INET6,
                   .rtm_dst_len = bits,
                   .rtm_src_len = bits,
                   .rtm_flags = MATCH_IN_FIB },
    };

    add_address(&request, RTA_DST, to);
    add_address(&request, RTA_SRC, from);
    if (interface != 0)
        add(&request, RTA_OIF, &interface, sizeof interface);
    return send(fd, &request, request.header.nlmsg_len, 0) == (ssize_t)request.header.nlmsg_len;
}

/* ---- the reply ---------------------------------------------------------- */

static void lower(uint32_t *least, uint32_t mtu)
{
    if (mtu != 0 && mtu < *least)
        *least = mtu;
}

/* Returns the IPv6 MTU of the interface, which routers may advertise; 0: unknown. */
static uint32_t advertised(const char *name)
{
    char path[64 + IFNAMSIZ], text[NUMBER_TEXT] = "";
    uint32_t mtu = 0;

    (void)snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/mtu", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        for (const char *at = text; *at >= '0' && *at <= '9'; at++)
            mtu = mtu * 10 + (uint32_t)(*at - '0');
    if (fd >= 0)
        (void)close(fd);
    return mtu;
}

static void lower_to_interface(int fd, bool v6, uint32_t index, uint32_t *least)
{
    struct ifreq request;

    memset(&request, 0, sizeof request);
    if (if_indextoname(index, request.ifr_name) == NULL)
        return;
    if (v6)
        lower(least, advertised(request.ifr_name));
    if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
        lower(least, (uint32_t)request.ifr_mtu);
}

static uint32_t number_in(const struct rtattr *attribute)
{
    uint32_t number = 0;

    if (RTA_PAYLOAD(attribute) >= sizeof number)
        memcpy(&number, RTA_DATA(attribute), sizeof number);
    return number;
}

static void read_metrics(const struct rtattr *metrics, uint32_t *least)
{
    size_t left = RTA_PAYLOAD(metrics);

    for (const struct rtattr *at = RTA_DATA(metrics); RTA_OK(at, left); at = RTA_NEXT(at, left))
        if (at->rta_type == RTAX_MTU)
            lower(least, number_in(at));
}

static void read_next_hops(int fd, bool v6, const struct rtattr *hops, uint32_t *least)
{
    const struct rtnexthop *at = RTA_DATA(hops);
    size_t left = RTA_PAYLOAD(hops);

    while (left >= sizeof *at && at->rtnh_len >= sizeof *at && at->rtnh_len <= left) {
        size_t step = RTNH_ALIGN(at->rtnh_len);
        lower_to_interface(fd, v6, (uint32_t)at->rtnh_ifindex, least);
        if (step >= left)
            break;
        left -= step;
        at = (const void *)((const uint8_t *)at + step);
    }
}

static uint32_t read_route(int fd, const struct nlmsghdr *reply)
{
    const struct rtmsg *route = NLMSG_DATA(reply);
    const bool v6 = route->rtm_family == AF_INET6;
    size_t left = RTM_PAYLOAD(reply);
    uint32_t least = UINT32_MAX;

    if (route->rtm_type != RTN_UNICAST && route->rtm_type != RTN_LOCAL)
        return 0;
    for (const struct rtattr *at = RTM_RTA(route); RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type == RTA_OIF)
            lower_to_interface(fd, v6, number_in(at), &least);
        else if (at->rta_type == RTA_MULTIPATH)
            read_next_hops(fd, v6, at, &least);
        else if (at->rta_type == RTA_METRICS)
            read_metrics(at, &least);
    }
    if (least == UINT32_MAX)
        return 0;
    return least < LONGEST ? least : LONGEST;
}

uint32_t uro_fib_mtu(const struct uro_gid *from, const struct uro_gid *to, uint32_t interface)
{
    _Alignas(struct nlmsghdr) uint8_t reply[REPLY_MAX];
    const struct nlmsghdr *header = (const void *)reply;
    uint32_t mtu = 0;

    if (uro_gid_is_ipv4(from) != uro_gid_is_ipv4(to))
        return 0;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return 0;
    /* The reply is available when send() returns. */
    ssize_t length = send_request(fd, from, to, interface) ? recv(fd, reply, sizeof reply, 0) : -1;
    if (length > 0 && NLMSG_OK(header, (size_t)length) && header->nlmsg_type == RTM_NEWROUTE &&
        header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg)))
        mtu = read_route(fd, header);
    (void)close(fd);
    return mtu;
}
