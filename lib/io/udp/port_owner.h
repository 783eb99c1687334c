/* SPDX-License-Identifier: BSD-3-Clause */
/* port_owner.h - finds the process that has a UDP port, after bind() failed. */
#pragma once

#include "wire/gid.h"

#define URO_PORT_OWNER_TEXT_MAX 96u

/* Writes the owner of the port as text, in as much detail as /proc shows: "process 1234
 * (ib_send_bw)", "a hub of user nobody (one user can share an address)", "a process of user
 * nobody", "the kernel (an rxe device? see `rdma link`)", or "another process". */
void uro_port_owner_find(const struct uro_gid *address, uint16_t port,
                         char text[static URO_PORT_OWNER_TEXT_MAX]);
