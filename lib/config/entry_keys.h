/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_keys.h - one entry of the configuration while it is read, key by key. An entry is a device,
 * or "*" for all devices together.
 *
 * An entry keeps its first error in config.problem and ignores later keys, so that a wrong entry
 * has only one message.
 *
 *     link=DRIVER[,key=value]...   required: udp, or net_af_packet0,iface=veth0, ...
 *     ip=ADDRESS/LEN[,...]         IPv4 or IPv6; may be repeated; GID 1, 2, ... in this order
 *                                  udp also: ip=auto, and ip= among the link options
 *     gateway=IPV4 gateway6=IPV6   next hop of other subnets
 *     mac=xx:xx:xx:xx:xx:xx        default: the interface's, or derived from name, link and ip
 *     mtu=576..9600                largest IP packet
 *     rate=GBPS                    speed of the port in Gb/s; default: speed of the interface
 *     vlan=1..4094                 802.1Q tag of every frame; not udp
 *     vendor_part_id=NUMBER        vendor_part_id in the reply of ibv_query_device
 *     window=1..65536              packets in flight per queue pair
 *     engines=auto|1..16           engines of the device
 *     retry_7=forever|seven        meaning of retry_cnt 7; Linux rxe: forever
 *     progress=hybrid|thread|caller
 *     cpu=NUMBER                   processor of the service thread
 *     pcap=FILE                    capture file for every frame sent and received
 *     impair=PLAN|@FILE|replay:FILE  faults of the link; see impair/plan.h
 *     trace=FILE                   file of the fates of the packets
 *     fail=RULES                   calls that fail on purpose; see fail_rules.h
 *     like=CARD|@FILE              the card that the device presents to programs; see card.h
 *     seed=NUMBER                  repeatable QPNs, keys and PSNs; for tests only
 *     memory=MEBIBYTES             packet buffers
 *     verbose=yes|no               whether the driver's own log is printed
 *     eal= hugepages= telemetry=   only with DPDK
 *     log=none|errors|all          which failures and refused calls are printed on stderr
 *     max_qp= max_mr= ...          number of objects that a process may have; see device_config.h
 *     max_registered=MEBIBYTES     memory that a process may register
 *
 * %{VAR} in a value stands for the environment variable VAR.
 */
#pragma once

#include "config/device_config.h"

#define URO_ENTRY_WHERE_MAX 160u

struct uro_entry {
    struct uro_device_config config;
    char where[URO_ENTRY_WHERE_MAX]; /* source of the entry: "UROCE_DEVICES, device 2" */
    uint64_t given;                  /* bit i: key i of the table was given */
    bool process;                    /* the entry is "*", whose keys are those of URO_QUOTAS */
};

/* Initializes the entry of the device @name with the defaults that depend on no other key. Checks
 * @name. */
void uro_entry_begin(struct uro_entry *entry, const char *where, const char *name);

/* Initializes the entry "*", without any limit. */
void uro_entry_begin_process(struct uro_entry *entry);

/* Reads one key. @where is the source of this key, for the message. */
void uro_entry_set(struct uro_entry *entry, const char *where, const char *key, const char *value);

/* Checks the values that depend on other keys. Addresses, MAC and MTU may still be missing: see
 * defaults.h. */
void uro_entry_finish(struct uro_entry *entry);

/* Stores "WHERE (NAME): ..." as the problem of the entry unless the entry has a problem already. */
URO_PRINTF(3)
void uro_entry_refuse(struct uro_entry *entry, const char *where, const char *format, ...);

/* Removes white space at both ends of @text, in place. Returns the first character that is left. */
char *uro_entry_trim(char *text);

/* Copies @text to @out and replaces each %{VAR} by the environment variable VAR. Returns NULL, or
 * the problem. */
const char *uro_entry_expand(const char *text, char *out, size_t size);
