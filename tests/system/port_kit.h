/* SPDX-License-Identifier: BSD-3-Clause */
/* port_kit.h - opens ports of the plug-in and moves frames that say themselves if they are whole.
 *
 * A frame of the kit is an Ethernet header of a type nobody else uses, a sequence number, its
 * length, and octets that follow from both.
 */
#pragma once

#include <sys/types.h>

#include "engine/port.h"

#define KIT_FRAME_MIN 60u
#define KIT_FRAME_MAX 9018u

/* Loads the plug-in (UROCE_DPDK_PLUGIN, UROCE_MEMIF_PLUGIN, UROCE_PACKET_PLUGIN) on first use;
 * fails the process when that fails. */
struct uro_port *kit_try_open(const struct uro_port_config *config,
                              char error[static URO_PORT_ERROR_MAX]);
/* Opens @link or ends the process with the port's own words. */
struct uro_port *kit_open(const char *link, uint32_t mtu);

/* Sends frame number @sequence of @length octets, waiting for room. */
void kit_send(struct uro_port *port, uint32_t sequence, uint32_t length);

/* Waits for the next frame of the kit, passing over any other. Returns its length, or 0 after
 * about @seconds; the octets must be right. */
uint32_t kit_receive(struct uro_port *port, uint32_t *sequence, unsigned seconds);

/* Sends until the peer echoes, on links that do not tell when it is there; nothing is on its way
 * afterwards. */
void kit_meet(struct uro_port *port);

/* Whether it has something to sleep on. */
bool kit_can_wait(struct uro_port *port);

/* Sleeps on what an armed port waits for; false after @seconds. */
bool kit_wait(struct uro_port *port, unsigned seconds);

/* Sleeps on the port's descriptors until the next frame of the kit; counts sleeps in @slept.
 * Returns its length, or 0 when nothing wakes us for @seconds. */
uint32_t kit_sleep_receive(struct uro_port *port, uint32_t *sequence, unsigned seconds,
                           uint32_t *slept);

/* True once the link is up; false after about @seconds. */
bool kit_wait_link(struct uro_port *port, bool up, unsigned seconds);

/* Starts a process (port_echo.c) that opens @link and returns every frame of the kit, as an
 * ordinary user when @plain; in the network namespace of the file descriptor @netns unless it is
 * -1. It ends with this process at the latest. */
pid_t kit_echo(const char *link, uint32_t mtu, bool plain, int netns);
/* The same, but it sleeps on the port's descriptor while there is nothing to do. */
pid_t kit_echo_asleep(const char *link, uint32_t mtu, bool plain, int netns);
void kit_kill(pid_t pid);

/* Makes two network namespaces with a pair of interfaces between them: "va" in the one this process
 * is in from now on, "vb" in the other, whose descriptor is returned. Ends the process as skipped,
 * saying why, where that is not possible. */
int kit_veth(uint32_t mtu);
/* Runs a shell command in the namespace @netns, or here when it is -1; fails the process. */
void kit_run(int netns, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same; false when it fails. */
bool kit_try(int netns, const char *command);
/* A namespace of its own for this process, without other interfaces. */
void kit_own_netns(void);
_Noreturn void kit_skip(const char *why);

/* Becomes an ordinary user, when root; the plug-in of @link is loaded before. */
void kit_become_plain(const char *link);
