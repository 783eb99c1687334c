/* SPDX-License-Identifier: BSD-3-Clause */
/* connect_failure.h - reports connections that were rejected or not answered, on stderr and in
 * `uroce why`. Rejections are on stderr only with log=all. */
#pragma once

#include "ucma/id.h"

/* Reports the event if it is a failure of @id. Engine lock held. */
void uro_connect_failure(struct uro_device *device, const struct uro_id *id,
                         const struct uro_conn_event *event);

/* Reports that the address of the peer was not resolved. Engine lock held. */
void uro_resolve_failure(struct uro_device *device, const struct uro_id *id);
