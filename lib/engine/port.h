/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - what a driver (lib/io/...) does for an engine: frames in, frames out, a way to wait.
 *
 * A port is used by one thread at a time, the one that drives the engine; another may sleep on what
 * wait_fds() named. Drivers: io/dpdk, io/memif, io/packet and io/udp, each a plug-in
 * (liburoce-KIND.so); io/pcap. The simulator (lib/sim) drives engines without a port.
 */
#pragma once

#include "core/pkt.h"
#include "core/tx.h"
#include "wire/gid.h"

#define URO_PORT_BURST        32u
#define URO_PORT_ERROR_MAX    256u
#define URO_PORT_GROUPS_MAX   256u  /* groups that a port with ->groups can receive */
#define URO_PORT_SERVICES_MAX 2048u /* at one address, that a port with ->services can announce */
#define URO_PORT_FDS_MAX      33u   /* that one waits for */

#define URO_PORT_MTU_MIN     576u  /* bytes: of a link's largest IP packet, as all below */
#define URO_PORT_MTU_MAX     9600u /* jumbo frames; a RoCE path MTU of 4096 needs 4200 */
#define URO_PORT_MTU_DEFAULT 1500u /* of links that know nothing better */
#define URO_PORT_MTU_MEMORY                                                                        \
    4500u /* default of links in memory: enough for a RoCE path MTU of 4096 */

struct uro_port;
struct uro_listened;

/* What the host wants of a port; strings are borrowed for the call. */
struct uro_port_config {
    const char *device; /* "uroce0": used in names and messages */
    const char *link;   /* the driver and its options: "net_af_packet0,iface=veth0" */
    uint32_t mtu;       /* largest IP packet wanted; 0 = the link's own */
    bool has_mac;
    struct uro_mac mac;              /* wanted address, when has_mac */
    uint32_t memory_mib;             /* for packet buffers; 0 = driver's choice */
    const struct uro_gid *addresses; /* our IP addresses: af_packet and tap keep the kernel from
                                        answering for them */
    uint32_t address_count;
    bool
        forked; /* the process is a forked child: whoever has the name of the link may be its parent */
    bool verbose; /* let the driver's own log through to stderr */
};

/* What a driver can do. An operation that may be NULL says what happens then; call it by its
 * function below. */
struct uro_port_ops {
    const char *name;

    /* Frees the port. */
    void (*close)(struct uro_port *port);
    /* In a forked child: closes the child's copies of descriptors and unmaps memory that others
     * have, too. Sends nothing and changes nothing that the parent goes on with. No lock of the
     * port may be taken: a thread that the child does not have may hold it. The port is not used
     * afterwards, not even closed. NULL: the child has nothing to free. */
    void (*forked)(struct uro_port *port);

    /* ---- frames ---------------------------------------------------------- */

    /* Lends at most @room received frames until release(). Returns how many. */
    uint32_t (*receive)(struct uro_port *port, struct uro_pkt *pkts, uint32_t room);
    /* NULL: the frames of receive() are valid until the next receive(). */
    void (*release)(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
    /* Frames that transmit() takes now: at most URO_PORT_BURST, 0 when the link is full. Tries to
     * flush frames that are left over from earlier. */
    uint32_t (*room)(struct uro_port *port);
    /* Writes the frames into the driver's own buffers (uro_tx_write) and sends them; @count is at
     * most the last room(). Frames that a link cannot carry (down) are dropped and counted. */
    void (*transmit)(struct uro_port *port, const struct uro_tx *tx, uint32_t count);

    /* ---- sleep ------------------------------------------------------------ */

    /* Descriptors of which one is readable when frames may have arrived; returns how many. They may
     * be others after the next call: ask for them before each sleep. NULL, or 0 returned: the port
     * can only be polled. */
    uint32_t (*wait_fds)(struct uro_port *port, int fds[static URO_PORT_FDS_MAX]);
    /* Asks for a wake-up before a sleep on the descriptors. Returns false when frames are already
     * there: do not sleep. NULL: the descriptors are readable as long as frames are there, and need
     * no request. */
    bool (*arm)(struct uro_port *port);
    /* After the sleep, before the next receive(). NULL: there is nothing to take back. */
    void (*disarm)(struct uro_port *port);

    /* ---- control ---------------------------------------------------------- */

    /* Cheap enough to be called every few milliseconds. Keeps `mtu` right. */
    bool (*link_up)(struct uro_port *port);
    /* Returns whether the link is down and will never be up again. NULL: a link that is down may
     * come back. */
    bool (*gone)(struct uro_port *port);
    /* The groups whose frames are wanted, each once, from now on; the port may receive more. NULL:
     * it receives all. */
    void (*multicast)(struct uro_port *port, const struct uro_mac *macs, uint32_t count);
    /* Instead of multicast(), where the kernel has the link: the groups that programs joined. */
    void (*groups)(struct uro_port *port, const struct uro_gid *groups, uint32_t count);
    /* The services that the process listens for, from now on: the broker of a shared address passes
     * their requests on. NULL: no port is shared. */
    void (*services)(struct uro_port *port, const struct uro_listened *services, uint32_t count);
    /* Before the process listens for @what: returns 0, and no other process does at that address
     * until unclaim() or the process' end; -EADDRINUSE: another process does; another -errno: there
     * is no socket or memory to find out by. The address is never zero. NULL: no port is shared,
     * and the claim succeeds. */
    int (*claim)(struct uro_port *port, const struct uro_listened *what);
    /* Nothing happens when @what was not claimed. NULL with claim(). */
    void (*unclaim)(struct uro_port *port, const struct uro_listened *what);
    /* The largest IP packet that is carried on the way from @from, one of our addresses, to @to
     * now; 0: not known. It may be more than `mtu`. NULL: the port does not choose the way, and it
     * is not known. */
    uint32_t (*route_mtu)(struct uro_port *port, const struct uro_gid *from,
                          const struct uro_gid *to);
};

/* What the host does differently for a port: struct uro_port, flags. */
enum {
    URO_PORT_CALL_PER_SEND =
        1 << 0,                    /* each send is a system call: the host sends packets together */
    URO_PORT_AWAITS_PEER = 1 << 1, /* the link is down until another process joins, maybe later */
    URO_PORT_WAKES_DOWN = 1 << 2,  /* its descriptors report that, too: the host sleeps on them */
};

struct uro_port {
    const struct uro_port_ops *ops;
    struct uro_mac mac; /* the address in use */
    uint32_t mtu; /* largest IP packet in use: when opened, or less while the link carries less */
    uint32_t window; /* packets in flight per queue pair that the link holds; 0: any number */
    uint8_t share;  /* other processes have the address too: see struct uro_engine_config; else 0 */
    unsigned flags; /* URO_PORT_... */
};

static inline bool uro_port_has(const struct uro_port *port, unsigned flag)
{
    return (port->flags & flag) != 0;
}

/* ---- operations that may be NULL ------------------------------------------ */

static inline void uro_port_forked(struct uro_port *port)
{
    if (port->ops->forked != NULL)
        port->ops->forked(port);
}

static inline void uro_port_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    if (port->ops->release != NULL)
        port->ops->release(port, pkts, count);
}

static inline uint32_t uro_port_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    return port->ops->wait_fds != NULL ? port->ops->wait_fds(port, fds) : 0;
}

static inline bool uro_port_arm(struct uro_port *port)
{
    return port->ops->arm == NULL || port->ops->arm(port);
}

static inline void uro_port_disarm(struct uro_port *port)
{
    if (port->ops->disarm != NULL)
        port->ops->disarm(port);
}

static inline bool uro_port_gone(struct uro_port *port)
{
    return port->ops->gone != NULL && port->ops->gone(port);
}

static inline void uro_port_multicast(struct uro_port *port, const struct uro_mac *macs,
                                      uint32_t count)
{
    if (port->ops->multicast != NULL)
        port->ops->multicast(port, macs, count);
}

static inline int uro_port_claim(struct uro_port *port, const struct uro_listened *what)
{
    return port->ops->claim != NULL ? port->ops->claim(port, what) : 0;
}

static inline void uro_port_unclaim(struct uro_port *port, const struct uro_listened *what)
{
    if (port->ops->unclaim != NULL)
        port->ops->unclaim(port, what);
}

static inline uint32_t uro_port_route_mtu(struct uro_port *port, const struct uro_gid *from,
                                          const struct uro_gid *to)
{
    return port->ops->route_mtu != NULL ? port->ops->route_mtu(port, from, to) : 0;
}

/* Opens a port and starts it. Returns NULL with a sentence in @error that says what is wrong and
 * what to do. */
typedef struct uro_port *uro_port_open_fn(const struct uro_port_config *config,
                                          char error[static URO_PORT_ERROR_MAX]);
#define URO_PORT_OPEN_SYMBOL "uro_port_open"

/* ---- drivers -------------------------------------------------------------- */

/* What an option of a link takes, and the type of the member that keeps it. */
enum uro_option_kind {
    URO_OPTION_TEXT,   /* min to max characters; char[max + 1] */
    URO_OPTION_NUMBER, /* digits, min to max, a multiple of grain; uint32_t */
    URO_OPTION_CHOICE, /* one of choices; uint32_t, its index */
    URO_OPTION_YES_NO, /* bool */
    URO_OPTION_OTHER,  /* what read() accepts */
};

#define URO_OPTION_CHOICES_MAX 4u
#define URO_OPTION_NOT_KEPT    SIZE_MAX

/* One option of a link, ",name=value". lib/io/common/link_options.h reads the options of a link by
 * a table of these. */
struct uro_link_option {
    const char *name;
    const char *text; /* what the option sets, for a list of options */
    enum uro_option_kind kind;
    uint32_t min, max;
    uint32_t grain;                              /* 0: any number from min to max */
    const char *unit;                            /* of a number, in the plural: "bytes"; or NULL */
    const char *choices[URO_OPTION_CHOICES_MAX]; /* the unused ones are NULL */
    const char *expects; /* of URO_OPTION_OTHER: what a value must be, as part of a sentence */
    bool (*read)(const char *value, void *member);
    size_t
        member; /* offset in the struct that the port reads its options into, or URO_OPTION_NOT_KEPT */
    bool secret; /* the value does not appear in messages */
};

/* What the host does differently for a driver: struct uro_port_driver, flags. */
enum {
    URO_DRIVER_NUMBERED = 1 << 0,         /* a number follows the prefix: net_memif0 */
    URO_DRIVER_PCI = 1 << 1,              /* a PCI address names the link, not the prefix */
    URO_DRIVER_KERNEL_ADDRESSES = 1 << 2, /* addresses, routes and VLAN tags are the kernel's */
    URO_DRIVER_NEEDS_INTERFACE = 1 << 3,  /* the link must name an interface of the kernel */
    URO_DRIVER_ONE_PROCESS = 1 << 4,   /* a forked child cannot open a link after its parent did */
    URO_DRIVER_OTHER_OPTIONS = 1 << 5, /* the driver checks options that are not in the table */
};

/* One kind of link. */
struct uro_port_driver {
    const char *prefix;    /* what links are called: "udp", "net_memif" */
    const char *text;      /* what carries the frames, for a list of links */
    const char *interface; /* name of the option that names an interface of the kernel, or NULL */
    unsigned flags;        /* URO_DRIVER_... */
    uint32_t default_mtu;  /* without mtu= and an interface */
    uint32_t option_count;
    const struct uro_link_option *options;
    uro_port_open_fn
        *open; /* NULL: the symbol URO_PORT_OPEN_SYMBOL of liburoce-LIBRARY.so opens links */
    const char
        *library; /* LIBRARY, for a driver that is too large to be loaded for a list of devices */
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
#define URO_PORT_PLUGIN_VERSION 1u
#define URO_PORT_PLUGIN_SYMBOL  "uro_port_plugin"
