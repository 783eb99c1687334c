/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.h - queue pairs that send datagrams to each other and to groups.
 *
 *   ud.c        their lives, and what they send
 *   ud_judge.c  checks frames and receives against the sent datagrams
 *
 * A datagram is kept until the end of the run, since it may arrive after both queue pairs are gone. The last life of all
 * queue pairs begins after faults have stopped. Datagrams that are sent then arrive exactly once.
 */
#pragma once

#include "core/ah.h"
#include "core/mcast.h"
#include "sim/work/endpoint.h"

struct uro_frame;

struct sim_datagram {
    uint32_t from_qpn;
    uint32_t to_qpn;
    uint32_t qkey;
    uint32_t from; /* number of the queue pair */
    uint32_t to;
    bool group; /* to the group of its IP version: each member receives it */
    bool v6;
    bool deliverable;
    bool has_imm;
    uint32_t imm;
    uint32_t length;
    uint64_t seed;
    uint32_t taken[SIM_PLAN_PARTIES_MAX]; /* by each queue pair */
};

struct sim_ud_state {
    uint32_t qkey;
    struct uro_ah handles[SIM_PLAN_PARTIES_MAX][2]; /* to each queue pair, IPv4 and IPv6 */
    struct uro_ah group_handles[2];
    struct uro_mcast memberships[2];
    bool is_member[2];
    uint32_t expected; /* datagrams that must arrive in this life */
};

struct sim_ud {
    uint32_t count;
    struct sim_life lives[SIM_PLAN_PARTIES_MAX];
    struct sim_datagram *datagrams; /* owned */
    uint32_t datagram_count;
    uint32_t datagram_room;
};

struct sim_ud *sim_ud_make(struct sim_workload *load);
void sim_ud_free(struct sim_ud *ud);
/* Returns whether the last life has done all its work. */
bool sim_ud_quiet(const struct sim_ud *ud);
/* ud_judge.c */
/* The address of the workload's group. */
struct uro_address sim_ud_group(const struct sim_workload *load, bool v6);
/* Returns false when no queue pair of the workload sent the frame. */
bool sim_ud_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame);
void sim_ud_confirm(struct sim_endpoint *end, const struct sim_request *request);
bool sim_ud_expected(const struct sim_endpoint *end, const struct sim_request *request,
                     uint8_t status);
void sim_ud_take(struct sim_endpoint *end, const struct sim_place *place,
                 const struct uro_cqe *cqe);
