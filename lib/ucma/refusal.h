/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal.h - reports why a command of librdmacm is refused, as verbs/refusal.h does for verbs. */
#pragma once

#include "ucma/id.h"

/* Records why the command failed. @number: of enum RDMA_USER_CM_CMD_*. @command: the whole command.
 * @error: negative errno. Does nothing for errors that are not a mistake of the program. Commands
 * lock held. */
void uro_cm_refuse(const struct uro_channel *channel, uint32_t number, const void *command,
                   int error);
