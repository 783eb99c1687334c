/* SPDX-License-Identifier: BSD-3-Clause */
/* dpdk.h - one open DPDK port: definitions that the files of this driver share.
 *
 *   port.c          opens and closes the port
 *   link.c          options and limits of a link
 *   drivers.c       the kinds of links
 *   eal.c           starts DPDK, once per process; its log
 *   eal_args.c      the arguments of DPDK
 *   nic.c           DPDK's device of the port, and its buffers
 *   queue.c         receives and sends frames
 *   mbuf.h          makes received buffers frames of one segment
 *   wait.c          sleeps until a frame arrives
 *   driver_fd.c     finds the descriptor of the driver
 *   interrupt.h     finds out whether receive interrupts arrive
 *   filter.c        chooses the frames received
 *   kernel_copies.c copies of ARP, ICMP, ND, IGMP and MLD for the kernel; af_xdp
 *   xdp.c           the XDP program of af_xdp
 *   xdp_socket.c    connects the driver's socket to the XDP program
 *   remove.c        detects that the machine removes a card
 *   card_problem.c  says why DPDK cannot use a card
 *   guard.c         turns thread cancellation off around the driver
 *   signal.c        prevents SIGPIPE
 */
#pragma once

#include <stdatomic.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "engine/port.h"
#include "io/dpdk/drivers.h"
#include "io/dpdk/interrupt.h"
#include "io/dpdk/xdp.h"
#include "io/kernel/iface.h"
#include "io/packet/socket.h"
#include "wire/gid.h"

struct uro_dpdk;

/* ---- kernel_copies.c: copies of packets that the kernel needs, too --------------- */

/* On an interface that af_xdp shares with the kernel, both the kernel and this port need ARP, ICMP,
 * ND, IGMP and MLD. A packet socket receives copies of these packets, so that both can resolve
 * neighbours. */

struct uro_control {
    int fd; /* packet socket; -1: none */
    struct uro_packet_ring ring;
};

#define URO_CONTROL_INIT                                                                           \
    (struct uro_control)                                                                           \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Opens the socket. @alien: the device has another MAC address than the interface. Returns 0 or
 * -errno. */
URO_NODISCARD int uro_control_open(struct uro_control *control, int interface, bool alien);
void uro_control_close(struct uro_control *control);

/* Copies frames into buffers of @pool. Returns their number, at most @max. */
uint16_t uro_control_take(struct uro_control *control, struct rte_mempool *pool,
                          struct rte_mbuf **mbufs, uint32_t max);

/* ---- driver_fd.c: the descriptor of the driver -------------------------------- */

/* The driver reads the frames of a kernel interface (af_xdp, tap) from this descriptor. */
struct uro_source {
    int fd;               /* the driver's descriptor, or -1 */
    void (*trigger)(int); /* net_tap: the signal handler of the driver, to call before each read */
};

#define URO_SOURCE_INIT                                                                            \
    (struct uro_source)                                                                            \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Descriptors of this process that DPDK may have opened for the interface. */
#define URO_SOURCE_FDS_MAX 32u
struct uro_source_fds {
    uint32_t count;
    int list[URO_SOURCE_FDS_MAX];
};
void uro_source_fds(struct uro_source_fds *fds, const char *name);

/* Finds the descriptor that is new since @before. Turns off the signals of a tap. */
void uro_source_find(struct uro_source *source, const char *name,
                     const struct uro_source_fds *before);

/* ---- filter.c: the frames that a link receives ----------------------------- */

/* A link receives frames to our address and to our groups. */
enum uro_filter_groups {
    URO_FILTER_LIST, /* groups of the list, if the link filters at all */
    URO_FILTER_ALL_GROUPS,
    URO_FILTER_EVERYTHING,
};

struct uro_filter {
    bool promiscuous;
    enum uro_filter_groups groups;
    int socket; /* packet socket that requests all groups, or -1 */
};

#define URO_FILTER_INIT                                                                            \
    (struct uro_filter)                                                                            \
    {                                                                                              \
        .socket = -1                                                                               \
    }

/* Configures the link to receive frames to dpdk->port.mac. @alien: this is not the interface's own
 * address. */
void uro_filter_address(struct uro_dpdk *dpdk, bool alien);

/* Configures the link to receive frames of that VLAN, if the device filters VLANs. */
void uro_filter_vlan(struct uro_dpdk *dpdk, uint16_t vlan);

/* Configures the link to receive frames to these groups. A driver without such a list receives
 * more. */
void uro_filter_groups(struct uro_dpdk *dpdk, const struct uro_mac *macs, uint32_t count);

void uro_filter_close(struct uro_dpdk *dpdk);

/* ---- wait.c: sleep --------------------------------------------------------- */

/* The host sleeps until a frame arrives, on one epoll descriptor for each port. */
enum uro_wait_source {
    URO_WAIT_NONE,      /* the driver can only be polled */
    URO_WAIT_LEVEL,     /* a descriptor that is readable while frames wait in it */
    URO_WAIT_INTERRUPT, /* a descriptor that DPDK makes readable once for each request */
};

struct uro_wait {
    enum uro_wait_source source;
    int epoll; /* descriptor on which the host waits; -1 when source is URO_WAIT_NONE */
    int fd;    /* the driver's descriptor inside the epoll set */
    int news;  /* eventfd, signalled by changes of link, queue or card, which may undo arming */
    struct uro_interrupt interrupt; /* valid for URO_WAIT_INTERRUPT */
};

#define URO_WAIT_INIT                                                                              \
    (struct uro_wait)                                                                              \
    {                                                                                              \
        .source = URO_WAIT_NONE, .epoll = -1, .fd = -1, .news = -1                                 \
    }

/* Sets up waiting, after the port was started. Ports that cannot wait are polled. */
void uro_wait_start(struct uro_dpdk *dpdk);
void uro_wait_stop(struct uro_dpdk *dpdk);

/* Returns the descriptor to sleep on, or -1 if the port must be polled. */
int uro_wait_descriptor(struct uro_dpdk *dpdk);
bool uro_wait_arm(struct uro_dpdk *dpdk);
void uro_wait_disarm(struct uro_dpdk *dpdk);

/* ---- remove.c: the machine removes a card ---------------------------------- */

/* Sets dpdk->removed when the kernel asks for the card. Call it after uro_wait_start(). */
void uro_remove_start(struct uro_dpdk *dpdk);
void uro_remove_stop(struct uro_dpdk *dpdk);

/* ---- the port ---------------------------------------------------------- */

#define URO_DPDK_BACKLOG_MAX URO_PORT_BURST

struct uro_dpdk_counters {
    uint64_t rx_dropped; /* frames that uro_mbuf_restore() drops */
    uint64_t tx_dropped; /* frames not sent: no link, no buffer, or longer than the link allows */
};

struct uro_dpdk {
    struct uro_port port; /* the first member, because the host has a pointer to it */
    enum uro_dpdk_kind kind;
    uint16_t id;         /* port number in DPDK */
    bool started;        /* the device is started */
    bool up;             /* whether the link was up at the last check */
    bool interrupts;     /* receive interrupts are enabled */
    atomic_bool removed; /* the kernel waits until this process closes the card */

    struct uro_wait wait;
    struct uro_iface iface; /* the kernel interface, for af_xdp and tap */
    struct uro_source source;
    struct uro_icmp_suppress icmp_suppress;
    struct uro_filter filter;
    struct uro_xdp xdp;         /* af_xdp: the program that takes RoCE packets */
    struct uro_control control; /* af_xdp: copies of packets that the kernel needs, too */
    struct rte_mempool *pool;
    uint32_t frame_max; /* longest frame that is sent, bytes */
    uint32_t mtu;       /* MTU of the port at opening */
    uint32_t idle;      /* receive() calls that found no frame */

    uint32_t backlog_count; /* frames to send that the link had no room for, oldest first */
    struct rte_mbuf *backlog[URO_DPDK_BACKLOG_MAX];
    uint32_t stash_count; /* received frames that arm() found */
    struct rte_mbuf *stash[URO_PORT_BURST];

    struct uro_dpdk_counters counters;
};

static inline struct uro_dpdk *uro_dpdk_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_dpdk, port);
}

/* ---- eal.c: DPDK is started once, and its log is captured ------------------------------- */

/* DPDK is linked statically. A shared DPDK loads drivers that load libibverbs, which is uroce
 * itself. */

/* Starts DPDK in the calling thread, which keeps its CPU affinity. Later calls return at once.
 * @card: the link, if it is a card on the PCI bus, or NULL. Returns 0, or -1 with a sentence in
 * @error. Callers must serialise. */
URO_NODISCARD int uro_eal_start(const struct uro_port_config *config, const char *card,
                                char error[static URO_PORT_ERROR_MAX]);

/* Captures DPDK's log, which then no longer goes to stderr and syslog. Call this before
 * rte_eal_init(). */
void uro_log_capture(void);

/* Prints the log to stderr from now on. */
void uro_log_show(void);

/* Clears the stored error before an operation. */
void uro_log_forget(void);

/* Copies the first error since uro_log_forget() to @out: a line without its end, or "" if there was
 * no error. */
void uro_log_complaint(char *out, size_t size);

/* ---- queue.c: receives and sends frames --------------------------------------------- */

/* Operations of the data path. */
uint32_t uro_queue_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max);
void uro_queue_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
uint32_t uro_queue_tx_free_count(struct uro_port *port);
void uro_queue_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count);

/* Receives frames and keeps them for the next receive(). Returns true when there are frames. */
bool uro_queue_peek(struct uro_dpdk *dpdk);

/* Frees the waiting frames of both directions. */
void uro_queue_drop_all(struct uro_dpdk *dpdk);

/* ---- guard.c: no cancellation in system calls of the driver --------------------------- */

/* Returns port operations that call those of @ops, which must live as long as the port. All ports
 * of the process share one table, so @ops must be the same each time. */
const struct uro_port_ops *uro_guard_ops(const struct uro_port_ops *ops);
