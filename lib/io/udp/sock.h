/* SPDX-License-Identifier: BSD-3-Clause */
/* sock.h - a UDP socket bound to port 4791 of one address. If the bind fails, finds the process
 * that has the port. */
#pragma once

#include <sys/socket.h>

#include <netinet/in.h>

#include "engine/port.h"
#include "io/udp/ip_id.h"
#include "wire/bth.h"
#include "wire/cm_msg.h"
#include "wire/ext.h"
#include "wire/gid.h"

#define URO_SOCK_HOP_LIMIT 64 /* hop limit of packets that set none */

union uro_sock_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct uro_recent_peers;
struct uro_share;
struct uro_undelivered;
struct uro_raw_tap;

struct uro_sock {
    int fd;                              /* -1: the broker of the address has ended */
    struct uro_share *share;             /* connection to the broker of a shared address, or NULL */
    struct uro_raw_tap *raw_tap;         /* raw tap that receives the IP headers, or NULL */
    struct uro_undelivered *undelivered; /* collects reports for the engine, or NULL */
    const struct uro_recent_peers *recent_peers; /* recent destinations; NULL: unknown */
    bool verbose;                                /* print all errors */
    bool group;                                  /* the address is a multicast group */
    int printed_error;                           /* last error of a send */
    bool printed_narrow;                         /* the small MTU of a path was printed */
    bool reported_down;                          /* link_up() has reported the end of the broker */
    bool absent;                                 /* the address is absent: addresses.c */
    bool had_carrier;                            /* the interface has had a carrier since opening */
    uint32_t interface;                          /* index of the interface; 0: unknown */
    struct uro_gid address;
    bool v6;
    bool segments;           /* the kernel segments a long send into packets */
    bool coalesces;          /* the kernel coalesces received packets of one size */
    uint8_t traffic_class;   /* traffic class of packets that set none */
    uint32_t receive_buffer; /* size of the receive buffer, as the kernel counts it */
};

struct uro_sock_options {
    bool segments;
    bool coalesces;
    uint32_t busy_poll; /* us; 0: the default of the system */
    enum uro_ip_id_rule idents;
};

union uro_sock_address uro_sock_address_of(const struct uro_gid *gid, uint16_t port);
socklen_t uro_sock_address_length(const union uro_sock_address *address);
struct uro_gid uro_sock_gid_of(const union uro_sock_address *address);
uint16_t uro_sock_port_of(const union uro_sock_address *address);

/* Returns the index of the interface that has the IPv6 address; 0: none. */
uint32_t uro_sock_interface(const struct uro_gid *address);

/* Selects the interface that has @address now for sending to groups. */
void uro_sock_set_multicast(int fd, const struct uro_gid *address);

/* Makes a socket that is not bound yet. Returns it, or -1. */
int uro_sock_make(bool v6);

/* Makes a socket on port 4791 of @address. If @shared, other sockets of the same user may also have
 * the port. Returns the socket, or -errno. */
URO_NODISCARD int uro_sock_try_bind(const struct uro_gid *address, bool shared);

/* Calls uro_sock_try_bind(), and prepares the socket for multicast. Returns the socket, or -1 with
 * a sentence in @error. */
URO_NODISCARD int uro_sock_bind(const struct uro_gid *address, bool shared,
                                char error[static URO_PORT_ERROR_MAX]);

/* Sets the options of the bound socket @fd. @fd belongs to @sock from now on. */
void uro_sock_start(struct uro_sock *sock, int fd, const struct uro_gid *address,
                    const struct uro_sock_options *options);

/* Makes the kernel poll the NIC for @us microseconds before it returns that there is no message
 * (SO_BUSY_POLL). 0 changes nothing. On failure returns false with a sentence in @error. */
bool uro_sock_busy_poll(struct uro_sock *sock, uint32_t us, char error[static URO_PORT_ERROR_MAX]);

/* Closes the socket and its raw tap. */
void uro_sock_close(struct uro_sock *sock);

/* Bytes of a quoted packet that are kept: the length of a datagram of the connection manager. */
#define URO_SOCK_QUOTED_MAX (URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN)

/* A report about a packet that was sent. */
struct uro_sock_report {
    uint32_t error; /* errno */
    uint32_t info;  /* with EMSGSIZE: MTU of the path */
    /* True: from the network, about any packet. False: from the kernel, about a packet of the
     * socket. */
    bool network;
    uint32_t quoted_length; /* bytes of the quoted packet, from the BTH on */
    uint8_t quoted[URO_SOCK_QUOTED_MAX];
    union uro_sock_address to; /* destination of the packet; AF_UNSPEC: unknown */
};

/* Takes the next error report (port or host unreachable, packet too long). Otherwise the error
 * would make a later call fail. Returns false when there is no report. */
bool uro_sock_take_report(int fd, struct uro_sock_report *report);

/* ---- the process that has a port --------------------------------------- */

#define URO_PORT_OWNER_TEXT_MAX 96u

/* Writes the owner of the port as text, in as much detail as /proc shows: "process 1234
 * (ib_send_bw)", "a hub of user nobody (one user can share an address)", "a process of user
 * nobody", "the kernel (an rxe device? see `rdma link`)", or "another process". */
void uro_port_owner_find(const struct uro_gid *address, uint16_t port,
                         char text[static URO_PORT_OWNER_TEXT_MAX]);
