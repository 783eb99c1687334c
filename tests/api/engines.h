/* SPDX-License-Identifier: BSD-3-Clause */
/* engines.h - shared parts of the tests of devices with several engines. */
#pragma once

#include "api/api.h"

#define ENGINES 3

/* Starts the broker of an address, and runs the tests. Devices: "uroce0" with three engines at this
 * address, or with the link of the environment variable ENGINES_LINK, and
 *   auto    engines=auto, no broker
 *   two     engines=2, no broker
 *   half    engines=auto, and only the first of its two addresses has a broker
 *   later   engines=3, at the address of uroce0
 *   broken  engines=3, at engines_broken_address, no broker at first */
int engines_run(const char *name, const struct CMUnitTest *tests, size_t count);
#define ENGINES_RUN(tests) engines_run(__FILE__, tests, sizeof(tests) / sizeof((tests)[0]))

/* The address of "broken". engines_run() starts no broker at this address. */
extern char engines_broken_address[API_ADDRESS];
/* Returns whether a broker listens for processes that want to share the address. */
bool engines_has_broker(const char *address);

/* Closes a side of api_side_open_with(), but not its CQs. */
void engines_close_side(struct side *side);

struct ibv_cq *engines_cq_of(const struct api *api, int vector);
void engines_destroy_cq(struct ibv_cq *cq);

/* Sends 3000 bytes with the value @octet from @from to @to. The sends of @from complete in
 * @send_cq. */
void engines_send_once(struct side *from, struct ibv_cq *send_cq, struct side *to, uint8_t octet);

/* Writes the first 10 bytes of the side to the region, or reads them from it. */
void engines_move(struct side *from, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
                  enum ibv_wc_status status);
void engines_write_to(struct side *from, const struct ibv_mr *mr);

/* Returns the prefix of a QPN, which shows the engine of the queue pair. */
uint32_t engines_prefix_of(const struct ibv_qp *qp);
