/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - what a driver (lib/io/...) does for an engine: frames in, frames out, a way to wait.
 *
 * A port is used by one thread at a time, the one that drives the engine; another may sleep on what
 * wait_fds() named. Drivers: io/dpdk, io/memif, io/packet and io/udp, each a plug-in (liburoce-KIND.so); io/pcap.
 * The simulator (lib/sim) drives engines without a port.
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

struct uro_port;
struct uro_listened;

/* What the host wants of a port; strings are borrowed for the call. */
struct uro_port_config {
    const char *device; /* "uroce0": used in names and messages */
    const char *link;   /* the driver's own words: DPDK devargs such as
                           "net_af_packet0,iface=veth0" */
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

struct uro_port_ops {
    const char *name;

    /* Frees the port. */
    void (*close)(struct uro_port *port);

    /* Lends at most @room received frames until release(); returns how many. */
    uint32_t (*receive)(struct uro_port *port, struct uro_pkt *pkts, uint32_t room);
    void (*release)(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);

    /* Frames that transmit() would take now: never more than URO_PORT_BURST, 0 when the link is
     * full. Tries to flush what was left over from earlier. */
    uint32_t (*room)(struct uro_port *port);
    /* Writes the frames into the driver's own buffers (uro_tx_write) and sends them; @count is at
     * most the last room(). Frames a link cannot carry (down) are dropped and counted. */
    void (*transmit)(struct uro_port *port, const struct uro_tx *tx, uint32_t count);

    /* Descriptors of which one is readable when frames may have arrived; returns how many, 0 when the port can only
     * be polled. They may be others after the next call: ask for them before each sleep. */
    uint32_t (*wait_fds)(struct uro_port *port, int fds[static URO_PORT_FDS_MAX]);
    /* Before sleeping on them: asks for a wake-up. Returns false when frames are already
     * there: do not sleep. disarm() after waking, before polling again. */
    bool (*arm)(struct uro_port *port);
    void (*disarm)(struct uro_port *port);

    /* Cheap enough to ask every few milliseconds. Keeps `mtu` right. */
    bool (*link_up)(struct uro_port *port);
    /* The link is down and will never be up again: what it stood on does not exist any more. */
    bool (*gone)(struct uro_port *port);

    /* The groups whose frames are wanted, each once, from now on; more may be let in. */
    void (*multicast)(struct uro_port *port, const struct uro_mac *macs, uint32_t count);
    /* Instead of it, where the kernel has the link: the groups that programs joined. */
    void (*groups)(struct uro_port *port, const struct uro_gid *groups, uint32_t count);

    /* What the process listens for, from now on: whoever gets the requests for all processes of a shared
     * address must know. NULL where no port is shared. */
    void (*services)(struct uro_port *port, const struct uro_listened *services, uint32_t count);

    /* Before the process listens for @what: returns 0, and nobody else does at that address until unclaim() or
     * the process' end; -EADDRINUSE: another process does; another -errno: there is no socket or memory to find
     * out by. The address is never zero. NULL where no port is shared. */
    int (*claim)(struct uro_port *port, const struct uro_listened *what);
    /* Nothing happens when it was not claimed. NULL likewise. */
    void (*unclaim)(struct uro_port *port, const struct uro_listened *what);
    /* The largest IP packet that is carried on the way from @from, one of our addresses, to @to now; 0: not known.
     * It may be more than `mtu`. NULL where the port does not choose the way. */
    uint32_t (*route_mtu)(struct uro_port *port, const struct uro_gid *from,
                          const struct uro_gid *to);
    /* In a forked child: closes the child's copies of descriptors and unmaps memory that others have, too. Sends nothing
     * and changes nothing that the parent goes on with. No lock of the port may be taken: a thread that the child does
     * not have may hold it. The port is used no more, close() included. NULL: nothing to do. */
    void (*forked)(struct uro_port *port);
};

struct uro_port {
    const struct uro_port_ops *ops;
    struct uro_mac mac; /* the address in use */
    uint32_t mtu; /* largest IP packet in use: when opened, or less while the link carries less */
    uint32_t window; /* packets in flight per queue pair that the link holds; 0: any number */
    uint8_t share; /* other processes have the address too: see struct uro_engine_config; else 0 */
    bool gathers;  /* each send costs a system call: packets are best sent together */
    bool awaits_peer; /* the link is down until another process joins it, which may come later */
    bool
        wakes_down; /* what wait_fds() names tells of that, too: it is slept on while the link is down */
};

/* The plug-in's one symbol, "uro_port_open": opens a port and starts it.
 * Returns NULL with a sentence in @error that says what is wrong and what to do. */
typedef struct uro_port *uro_port_open_fn(const struct uro_port_config *config,
                                          char error[static URO_PORT_ERROR_MAX]);
#define URO_PORT_OPEN_SYMBOL "uro_port_open"
