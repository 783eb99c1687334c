/* SPDX-License-Identifier: BSD-3-Clause */
/* port_owner.h - who has a UDP port that could not be bound. */
#pragma once

#include "wire/gid.h"

#define URO_PORT_OWNER_TEXT_MAX 96u

/* "process 1234 (ib_send_bw)", "a hub of user nobody; one user can share an address", "a process of
 * user nobody", "the kernel (an rxe device?)", or "another process", as much as /proc tells. */
void uro_port_owner_find(const struct uro_gid *address, uint16_t port,
                         char text[static URO_PORT_OWNER_TEXT_MAX]);
