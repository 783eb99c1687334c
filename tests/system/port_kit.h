/* SPDX-License-Identifier: BSD-3-Clause */
/* port_kit.h - opens ports of the plug-ins and sends frames whose contents can be verified.
 *
 * A frame of the kit has an Ethernet header with an otherwise unused type, a sequence number, its
 * length, and bytes that both numbers determine.
 */
#pragma once

#include <sys/types.h>

#include "engine/port.h"

#define KIT_FRAME_MIN 60u
#define KIT_FRAME_MAX 9018u

/* Opens a port. The first call for a plug-in (UROCE_DPDK_PLUGIN, UROCE_MEMIF_PLUGIN,
 * UROCE_PACKET_PLUGIN) loads it, and ends the process if that fails. */
struct uro_port *kit_try_open(const struct uro_port_config *config,
                              char error[static URO_PORT_ERROR_MAX]);
/* Opens @link, or ends the process with the port's error message. */
struct uro_port *kit_open(const char *link, uint32_t mtu);

/* Sends frame number @sequence of @length bytes. Waits while the port cannot send. */
void kit_send(struct uro_port *port, uint32_t sequence, uint32_t length);

/* Waits for the next frame of the kit and skips other frames. Returns its length, or 0 after about
 * @seconds. Ends the process if a byte is wrong. */
uint32_t kit_receive(struct uro_port *port, uint32_t *sequence, unsigned seconds);

/* Sends frames until the peer returns a frame, for links that do not report whether they have a
 * peer. No frame is in flight afterwards. */
void kit_meet(struct uro_port *port);

/* Returns whether the port has a descriptor to sleep on. */
bool kit_can_wait(struct uro_port *port);

/* Sleeps on the descriptors of an armed port. Returns false after @seconds. */
bool kit_wait(struct uro_port *port, unsigned seconds);

/* Sleeps on the port's descriptors until the next frame of the kit. Counts the sleeps in @slept.
 * Returns the length of the frame, or 0 if nothing wakes the process for @seconds. */
uint32_t kit_sleep_receive(struct uro_port *port, uint32_t *sequence, unsigned seconds,
                           uint32_t *slept);

/* Waits until the link state is @up. Returns false after about @seconds. */
bool kit_wait_link(struct uro_port *port, bool up, unsigned seconds);

/* Starts a process (port_echo.c) that opens @link and returns every frame of the kit. If @plain,
 * the process runs as an ordinary user. If @netns is not -1, the process runs in the network
 * namespace of this descriptor. The process is killed when its parent ends. */
pid_t kit_echo(const char *link, uint32_t mtu, bool plain, int netns);
/* Does the same, but the process sleeps on the port's descriptor while no frame arrives. */
pid_t kit_echo_asleep(const char *link, uint32_t mtu, bool plain, int netns);
void kit_kill(pid_t pid);

/* Makes two network namespaces that a pair of interfaces connects. "va" is in the new namespace of
 * this process, "vb" in the other namespace. Returns the descriptor of the other namespace. If that
 * is not possible, prints the reason and ends the process as skipped. */
int kit_veth(uint32_t mtu);
/* Runs a shell command in the namespace @netns, or in this namespace when @netns is -1. Ends the
 * process if the command fails. */
void kit_run(int netns, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Does the same, but returns false if the command fails. */
bool kit_try(int netns, const char *command);
/* Moves this process to a new network namespace without other interfaces. */
void kit_own_netns(void);
_Noreturn void kit_skip(const char *why);

/* Loads the plug-in of @link, then becomes an ordinary user if the user is root. */
void kit_become_plain(const char *link);
