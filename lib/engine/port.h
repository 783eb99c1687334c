/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - the functions of a driver (lib/io/...): receive frames, send frames, wait.
 *
 * One thread at a time uses a port: the thread that drives the engine. Another thread may sleep on
 * the descriptors of wait_fds(). Drivers: io/dpdk, io/memif, io/packet and io/udp are plug-ins
 * (liburoce-KIND.so); io/cable and the links that programs add (embed/port.c) are in liburoce.
 * io/impair is a port in front of the port of another driver. The simulator (lib/sim) drives
 * engines without a port.
 */
#pragma once

#include "base/time.h"
#include "core/pkt.h"
#include "core/tx.h"
#include "wire/gid.h"

#define URO_PORT_BURST        32u
#define URO_PORT_ERROR_MAX    256u
#define URO_PORT_GROUPS_MAX   256u  /* groups that a port with ->groups can receive */
#define URO_PORT_SERVICES_MAX 2048u /* services at an address that ->services can announce */
#define URO_PORT_FDS_MAX      33u   /* descriptors of wait_fds() */

#define URO_PORT_MTU_MIN     576u  /* MTUs are the bytes of the largest IP packet of a link */
#define URO_PORT_MTU_MAX     9600u /* jumbo frames; a RoCE path MTU of 4096 needs 4184 */
#define URO_PORT_MTU_DEFAULT 1500u /* default of links without an MTU of their own */
/* default of links in memory: enough for a RoCE path MTU of 4096 */
#define URO_PORT_MTU_MEMORY 4500u

struct uro_port;
struct uro_listened;

#define URO_PORT_EAL_MAX 512u /* bytes of uro_port_config.eal, with its NUL */

/* Whether DPDK uses hugepages. */
enum uro_port_hugepages {
    URO_HUGEPAGES_AUTO, /* if enough hugepages are free */
    URO_HUGEPAGES_YES,  /* always: without hugepages the device cannot be used */
    URO_HUGEPAGES_NO,
};

/* The configuration of a port. Strings are borrowed for the call. */
struct uro_port_config {
    const char *device; /* "uroce0": used in names and messages */
    const char *link;   /* the driver and its options: "net_af_packet0,iface=veth0" */
    uint32_t mtu;       /* largest IP packet wanted; 0 = the link's own */
    bool has_mac;
    struct uro_mac mac;              /* requested MAC address; valid with has_mac */
    uint16_t vlan;                   /* VLAN of the device, 0 = none */
    uint32_t memory_mib;             /* memory for packet buffers, MiB; 0 = choice of the driver */
    const struct uro_gid *addresses; /* our IP addresses; af_packet and tap stop the kernel from
                                      * sending ICMP errors for them */
    uint32_t address_count;
    bool forked;     /* the process is a forked child: its parent may have the link's name in use */
    bool verbose;    /* the driver may write its own log to stderr */
    bool telemetry;  /* DPDK opens its telemetry socket */
    const char *eal; /* arguments for DPDK's EAL, separated by spaces; NULL or "": none */
    enum uro_port_hugepages hugepages;
};

/* The operations of a driver are in three groups. A driver leaves an operation NULL to have the
 * default that its comment describes. Call each operation by its function uro_port_..., which has
 * the default. */

/* Frames. The host calls these in each round. */
struct uro_port_datapath {
    /* Lends at most @max received frames until release(). Returns their number. */
    uint32_t (*receive)(struct uro_port *port, struct uro_pkt *pkts, uint32_t max);
    /* Returns the frames to the port. NULL: the frames of receive() are valid until the next
     * receive(). */
    void (*release)(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
    /* Returns the number of frames that transmit() accepts now: at most URO_PORT_BURST, 0 when the
     * link is full. Tries to flush frames of earlier calls. NULL: always URO_PORT_BURST. */
    uint32_t (*tx_free_count)(struct uro_port *port);
    /* Writes the frames into the driver's own buffers (uro_tx_write) and sends them; @count is at
     * most the last result of tx_free_count(). While the link is down, frames may be dropped. */
    void (*transmit)(struct uro_port *port, const struct uro_tx *tx, uint32_t count);
};

/* Sleep of the host until a frame arrives. */
struct uro_port_sleep {
    /* Writes the descriptors to sleep on, and returns their number. At least one is readable when
     * frames may have arrived. They may change with each call of the port, so call this before each
     * sleep. NULL, or 0 returned: the port can only be polled. */
    uint32_t (*wait_fds)(struct uro_port *port, int fds[static URO_PORT_FDS_MAX]);
    /* Requests a wake-up before a sleep on the descriptors. Returns false when frames have arrived
     * already: do not sleep. NULL: the descriptors are readable whenever frames are there. */
    bool (*arm)(struct uro_port *port);
    /* Withdraws the request for a wake-up, after the sleep and before the next receive(). NULL:
     * there is nothing to withdraw. */
    void (*disarm)(struct uro_port *port);
    /* Returns the time at which the port must be called again, although no descriptor will wake the
     * host: a frame that the port delays is due. The host then calls receive() and tx_free_count(),
     * which lend and send the due frames. arm() returns false while a received frame is due. NULL,
     * or URO_TIME_NEVER returned: there is no such time. */
    uro_time (*next)(struct uro_port *port);
};

/* The link, its addresses, and its end. The host calls these rarely. */
struct uro_port_control {
    /* Frees the port. */
    void (*close)(struct uro_port *port);
    /* Closes a forked child's copies of descriptors, and unmaps shared memory. Sends nothing, and
     * changes nothing that the parent uses. Must not take a lock of the port: a thread that does
     * not exist in the child may hold it. The port is not used afterwards, not even closed. NULL:
     * the child has nothing to free. */
    void (*forked)(struct uro_port *port);
    /* Returns whether the link is up, and updates `mtu`. The host calls this every few milliseconds
     * while the link is down, and less often while it is up. NULL: the link is always up. */
    bool (*link_up)(struct uro_port *port);
    /* Returns whether the link is down and will never be up again. NULL: a link that is down may
     * come back. */
    bool (*gone)(struct uro_port *port);
    /* Sets the multicast MAC addresses to receive, each once. The port may receive more. NULL: it
     * receives all. */
    void (*multicast)(struct uro_port *port, const struct uro_mac *macs, uint32_t count);
    /* Sets the groups that programs joined, on a link of the kernel. NULL: the host calls
     * multicast() instead. */
    void (*groups)(struct uro_port *port, const struct uro_gid *groups, uint32_t count);
    /* Sets the services that have listeners in this process. The broker of a shared address
     * forwards requests for these services. NULL: the address is not shared, and the host does not
     * list the services. */
    void (*services)(struct uro_port *port, const struct uro_listened *services, uint32_t count);
    /* Locks the service @service for this process, before it listens for it. Returns
     *   0            no other process can lock it at this address until unlock_service() or the
     *                end of this process
     *   -EADDRINUSE  another process has locked it
     *   -errno       the lock could not be tried, for example for lack of a descriptor or memory
     * The address is never zero. NULL: the address is not shared, and the lock succeeds. */
    int (*lock_service)(struct uro_port *port, const struct uro_listened *service);
    /* Releases the lock. Has no effect if this process has not locked @service. NULL if
     * lock_service() is NULL. */
    void (*unlock_service)(struct uro_port *port, const struct uro_listened *service);
    /* Returns the path MTU from @from, one of our addresses, to @to now: the largest IP packet, or
     * 0 if it is not known. It may be more than `mtu`. NULL: it is never known. */
    uint32_t (*route_mtu)(struct uro_port *port, const struct uro_gid *from,
                          const struct uro_gid *to);
    /* Returns whether the link is down because the broker of a shared address ended. NULL: no. */
    bool (*lost_broker)(struct uro_port *port);
};

/* Only receive(), transmit() and close() have no default. */
struct uro_port_ops {
    struct uro_port_datapath datapath;
    struct uro_port_sleep sleep;
    struct uro_port_control control;
};

/* Flags of struct uro_port. Each flag changes what the host does. */
enum {
    /* Each send is a system call: the host holds posts back for a moment, and sends their packets
     * together. */
    URO_PORT_CALL_PER_SEND = 1 << 0,
    /* The link is down until another process joins, perhaps later: until then, the host reports the
     * link as up to programs. */
    URO_PORT_AWAITS_PEER = 1 << 1,
    /* The descriptors also wake for a link that comes up: the host sleeps on them while the link is
     * down, too. */
    URO_PORT_WAKES_DOWN = 1 << 2,
    /* Peers of this kind of link send packets to QPNs with one prefix together: the queue pairs of
     * the engine get one prefix, although the address is not shared. */
    URO_PORT_ONE_QPN_PREFIX = 1 << 3,
};

struct uro_port {
    const struct uro_port_ops *ops;
    struct uro_mac mac; /* MAC address in use */
    uint32_t mtu;       /* largest IP packet: as opened, or less while the link carries less */
    uint32_t window;    /* maximum packets in flight per queue pair on this link; 0: no limit */
    uint8_t qpn_prefix; /* shared address: qpn_prefix of struct uro_engine_config; otherwise 0 */
    unsigned flags;     /* URO_PORT_... */
};

static inline bool uro_port_has(const struct uro_port *port, unsigned flag)
{
    return (port->flags & flag) != 0;
}

/* ---- the operations, with their defaults ---------------------------------- */

static inline uint32_t uro_port_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    return port->ops->datapath.receive(port, pkts, max);
}

static inline void uro_port_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    if (port->ops->datapath.release != NULL)
        port->ops->datapath.release(port, pkts, count);
}

static inline uint32_t uro_port_tx_free_count(struct uro_port *port)
{
    return port->ops->datapath.tx_free_count != NULL ? port->ops->datapath.tx_free_count(port)
                                                     : URO_PORT_BURST;
}

static inline void uro_port_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    port->ops->datapath.transmit(port, tx, count);
}

static inline uint32_t uro_port_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    return port->ops->sleep.wait_fds != NULL ? port->ops->sleep.wait_fds(port, fds) : 0;
}

static inline bool uro_port_arm(struct uro_port *port)
{
    return port->ops->sleep.arm == NULL || port->ops->sleep.arm(port);
}

static inline void uro_port_disarm(struct uro_port *port)
{
    if (port->ops->sleep.disarm != NULL)
        port->ops->sleep.disarm(port);
}

static inline uro_time uro_port_next(struct uro_port *port)
{
    return port->ops->sleep.next != NULL ? port->ops->sleep.next(port) : URO_TIME_NEVER;
}

static inline void uro_port_close(struct uro_port *port)
{
    port->ops->control.close(port);
}

static inline void uro_port_forked(struct uro_port *port)
{
    if (port->ops->control.forked != NULL)
        port->ops->control.forked(port);
}

static inline bool uro_port_link_up(struct uro_port *port)
{
    return port->ops->control.link_up == NULL || port->ops->control.link_up(port);
}

static inline bool uro_port_gone(struct uro_port *port)
{
    return port->ops->control.gone != NULL && port->ops->control.gone(port);
}

static inline void uro_port_multicast(struct uro_port *port, const struct uro_mac *macs,
                                      uint32_t count)
{
    if (port->ops->control.multicast != NULL)
        port->ops->control.multicast(port, macs, count);
}

/* Returns whether the host calls uro_port_groups() instead of uro_port_multicast(). */
static inline bool uro_port_takes_groups(const struct uro_port *port)
{
    return port->ops->control.groups != NULL;
}

static inline void uro_port_groups(struct uro_port *port, const struct uro_gid *groups,
                                   uint32_t count)
{
    if (port->ops->control.groups != NULL)
        port->ops->control.groups(port, groups, count);
}

/* Returns whether the host must list its services for uro_port_services(). */
static inline bool uro_port_takes_services(const struct uro_port *port)
{
    return port->ops->control.services != NULL;
}

static inline void uro_port_services(struct uro_port *port, const struct uro_listened *services,
                                     uint32_t count)
{
    if (port->ops->control.services != NULL)
        port->ops->control.services(port, services, count);
}

static inline int uro_port_lock_service(struct uro_port *port, const struct uro_listened *service)
{
    return port->ops->control.lock_service != NULL ? port->ops->control.lock_service(port, service)
                                                   : 0;
}

static inline void uro_port_unlock_service(struct uro_port *port,
                                           const struct uro_listened *service)
{
    if (port->ops->control.unlock_service != NULL)
        port->ops->control.unlock_service(port, service);
}

static inline uint32_t uro_port_route_mtu(struct uro_port *port, const struct uro_gid *from,
                                          const struct uro_gid *to)
{
    return port->ops->control.route_mtu != NULL ? port->ops->control.route_mtu(port, from, to) : 0;
}

static inline bool uro_port_lost_broker(struct uro_port *port)
{
    return port->ops->control.lost_broker != NULL && port->ops->control.lost_broker(port);
}

/* Opens and starts a port. Returns NULL on failure; @error is then a sentence with the reason and
 * the remedy. */
typedef struct uro_port *uro_port_open_fn(const struct uro_port_config *config,
                                          char error[static URO_PORT_ERROR_MAX]);
#define URO_PORT_OPEN_SYMBOL "uro_port_open"

/* ---- drivers -------------------------------------------------------------- */

/* The values of a link option, and the type of the struct member for it. */
enum uro_option_kind {
    URO_OPTION_TEXT,   /* min to max characters; char[max + 1] */
    URO_OPTION_NUMBER, /* digits, min to max, a multiple of grain; uint32_t */
    URO_OPTION_CHOICE, /* one of choices; uint32_t, its index */
    URO_OPTION_YES_NO, /* bool */
    URO_OPTION_OTHER,  /* any value that read() accepts */
};

#define URO_OPTION_CHOICES_MAX 4u
#define URO_OPTION_NOT_KEPT    SIZE_MAX

/* One option of a link, ",name=value". lib/io/common/link_options.h reads the options of a link
 * with a table of this struct. */
struct uro_link_option {
    const char *name;
    const char *text; /* description of the option, for a list of options */
    enum uro_option_kind kind;
    uint32_t min, max;
    uint32_t grain;                              /* 0: any number from min to max */
    const char *unit;                            /* unit of a number, plural: "bytes"; or NULL */
    const char *choices[URO_OPTION_CHOICES_MAX]; /* unused entries are NULL */
    const char *expects; /* URO_OPTION_OTHER: the valid values, as part of a sentence */
    bool (*read)(const char *value, void *member);
    size_t member; /* offset in the option struct of the port, or URO_OPTION_NOT_KEPT */
    bool secret;   /* the value does not appear in messages */
    bool repeats;  /* the option may be given several times */
};

/* Flags of struct uro_port_driver. The host needs them before it opens a link. */
enum {
    URO_DRIVER_NUMBERED = 1 << 0,         /* a number follows the prefix: net_memif0 */
    URO_DRIVER_PCI = 1 << 1,              /* a PCI address names the link, not the prefix */
    URO_DRIVER_KERNEL_ADDRESSES = 1 << 2, /* the kernel has the addresses, routes and VLAN tags */
    URO_DRIVER_NEEDS_INTERFACE = 1 << 3,  /* the link must name an interface of the kernel */
    URO_DRIVER_ONE_PROCESS = 1 << 4,   /* a forked child cannot open a link after its parent did */
    URO_DRIVER_OTHER_OPTIONS = 1 << 5, /* the driver checks options that are not in the table */
    URO_DRIVER_ANY_NAME = 1 << 6,      /* any name follows the prefix: dpdk:net_memif0 */
    URO_DRIVER_DPDK = 1 << 7,    /* DPDK has the link: eal=, hugepages= and telemetry= apply */
    URO_DRIVER_ENGINES = 1 << 8, /* each engine of a device opens the link itself */
};

/* One kind of link. */
struct uro_port_driver {
    const char *prefix;    /* start of the names of such links: "udp", "net_memif" */
    const char *text;      /* description of the link, for a list of links */
    const char *interface; /* name of the option that names an interface of the kernel, or NULL */
    unsigned flags;        /* URO_DRIVER_... */
    uint32_t default_mtu;  /* MTU without the option mtu= and without an interface */
    uint32_t option_count;
    const struct uro_link_option *options;
    /* NULL: the symbol URO_PORT_OPEN_SYMBOL of liburoce-LIBRARY.so opens links */
    uro_port_open_fn *open;
    /* LIBRARY, for a driver that is too large to be loaded for a list of devices */
    const char *library;
};

static inline bool uro_port_driver_has(const struct uro_port_driver *driver, unsigned flag)
{
    return (driver->flags & flag) != 0;
}

/* The one symbol of a plug-in. The host refuses a plug-in of another version. */
struct uro_port_plugin {
    uint32_t version; /* URO_PORT_PLUGIN_VERSION: changes with each struct of this header */
    uint32_t driver_count;
    const struct uro_port_driver *drivers;
};
#define URO_PORT_PLUGIN_VERSION 4u
#define URO_PORT_PLUGIN_SYMBOL  "uro_port_plugin"
