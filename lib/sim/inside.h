/* SPDX-License-Identifier: BSD-3-Clause */
/* inside.h - gives the simulator access to the inside of an engine, beyond include/uroce.
 *
 * The checks read completions and requests that still wait in their queues, without taking them.
 * uroce_qp_send() refuses wrong requests. To give the engine a wrong request, the simulator posts a
 * correct request and changes it in the queue before the engine runs.
 */
#pragma once

#include <uroce/connection.h>

#include "base/defs.h"

/* Creates an engine with small tables, so that many numbers share a bucket, and with room for
 * @hops next hops. Returns 0 or an error of uroce_engine_create(). */
URO_NODISCARD int sim_inside_create(const struct uroce_engine_config *config, uint32_t hops,
                                    uint8_t table_bits, uint64_t now, struct uroce_engine **engine);

/* ---- queues ---- */

/* Returns the number of completions that wait. */
uint32_t sim_inside_cq_waiting(const struct uroce_cq *cq);
/* Returns the number of completions so far, polled or still waiting. */
uint32_t sim_inside_cq_count(const struct uroce_cq *cq);
/* Writes the wr_id of waiting completion @index, oldest first. Returns its QPN. */
uint32_t sim_inside_cq_look(const struct uroce_cq *cq, uint32_t index, uint64_t *wr_id);

/* Return the number of requests that wait in a queue, or are being executed. */
uint32_t sim_inside_sends(const struct uroce_qp *qp);
uint32_t sim_inside_receives(const struct uroce_qp *qp);
/* Returns the wr_id of waiting receive @index, oldest first. */
uint64_t sim_inside_srq_wr_id(const struct uroce_srq *srq, uint32_t index);

/* ---- wrong requests: these functions change the newest request of a send queue ---- */

void sim_inside_set_opcode(struct uroce_qp *qp, uint8_t opcode);
/* Adds a byte to the first element that has bytes. */
void sim_inside_lengthen(struct uroce_qp *qp);
/* BIND_MW: sets the key of the window, the key of the region, and the length. */
void sim_inside_set_bind(struct uroce_qp *qp, uint32_t rkey, uint32_t lkey, uint64_t length);
/* UD: sets the number of the address handle. */
void sim_inside_set_ah(struct uroce_qp *qp, uint32_t number);
uint32_t sim_inside_ah_number(const struct uroce_ah *ah);

/* ---- the connection manager ---- */

/* Returns the number of connections. Connections that the program has released count, too. */
uint32_t sim_inside_connections(const struct uroce_engine *engine);
/* Returns the number of requests that wait for a program. */
uint32_t sim_inside_requests(const struct uroce_listener *listener);
/* Makes the request count in the backlog until it is answered, as if the program had not taken its
 * event yet. */
void sim_inside_keep_request(struct uroce_listener *listener, struct uroce_conn *conn);
