/* SPDX-License-Identifier: BSD-3-Clause */
/* entry.h - one device of the configuration, or what holds for all of them together, while it is
 * being read, key by key.
 *
 * The first mistake of an entry is kept in config.problem; what follows it is ignored, so that a
 * wrong entry gives one message.
 *
 *     link=DRIVER[,key=value]...   required: DPDK devargs such as net_af_packet0,iface=veth0, or udp
 *     ip=ADDRESS/LEN[,...]         IPv4 or IPv6; may be given several times; GID 1, 2, ... in order
 *                                  udp also: ip=auto, and ip= among the words of the link
 *     gateway=IPV4 gateway6=IPV6   next hop of other subnets
 *     mac=xx:xx:xx:xx:xx:xx        default: the interface's, or derived from name, link and ip
 *     mtu=576..9600                largest IP packet
 *     vlan=1..4094                 802.1Q tag of every frame; not udp
 *     vendor_part_id=NUMBER        what ibv_query_device answers
 *     window=1..65536              packets in flight per queue pair
 *     retry_7=forever|seven        how retry_cnt 7 is read; rxe: forever
 *     progress=hybrid|thread|caller
 *     cpu=NUMBER                   pins the service thread
 *     pcap=FILE                    records every frame sent and received
 *     seed=NUMBER                  repeatable QPNs, keys and PSNs; for tests only
 *     memory=MEBIBYTES             packet buffers
 *     verbose=yes|no               lets the driver's own log through
 *     max_qp= max_mr= ...          how many objects a process may have; see quota.h
 *     max_registered=MEBIBYTES     how much memory it may register
 *
 * %{VAR} in a value is replaced by the environment variable VAR.
 */
#pragma once

#include "host/host.h"

#define URO_ENTRY_WHERE_MAX 160u

struct uro_entry {
    struct uro_device_config config;
    char where[URO_ENTRY_WHERE_MAX]; /* "UROCE_DEVICES, device 2": where the entry began */
    uint32_t given;                  /* bit i: key i of the table was given */
    bool process; /* not of a device: of all together. Its keys are those of quota.h */
};

/* An entry with every default that needs no other key. @name is checked. */
void uro_entry_begin(struct uro_entry *entry, const char *where, const char *name);

/* The entry "*", with nothing bounded. */
void uro_entry_begin_process(struct uro_entry *entry);

/* Reads one key. @where is the place of this key, for the message. */
void uro_entry_set(struct uro_entry *entry, const char *where, const char *key, const char *value);

/* What can be said only when all keys are known. Mac, mtu and the link-local GID are still open:
 * see defaults.h. */
void uro_entry_finish(struct uro_entry *entry);

/* Records "WHERE (NAME): ..." as the entry's problem unless it has one already. */
URO_PRINTF(3)
void uro_entry_refuse(struct uro_entry *entry, const char *where, const char *format, ...);
