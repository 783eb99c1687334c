/* SPDX-License-Identifier: BSD-3-Clause */
/* inject.c - see inject.h. */
#include "verbs/inject.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/cq.h"
#include "core/qp_private.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

static_assert((int)URO_INJECT_EVENT_CQ_ERR == (int)IBV_EVENT_CQ_ERR &&
                  (int)URO_INJECT_EVENT_QP_FATAL == (int)IBV_EVENT_QP_FATAL &&
                  (int)URO_INJECT_EVENT_GID_CHANGE == (int)IBV_EVENT_GID_CHANGE,
              "the events have libibverbs' numbers");

static int fail_call(struct uro_device *device, const struct uro_inject_rule *rule, uint32_t count)
{
    (void)uro_refuse(device, rule->number, uro_inject_name(rule->call),
                     "call %u fails with %s because of fail= in the device description", count,
                     strerrorname_np(rule->number));
    errno = rule->number;
    return rule->number;
}

static void raise_signal(struct uro_device *device, const struct uro_inject_rule *rule,
                         uint32_t count)
{
    (void)uro_refuse(device, 0, uro_inject_name(rule->call),
                     "call %u raises SIG%s because of fail= in the device description", count,
                     sigabbrev_np(rule->number));
    (void)raise(rule->number);
}

static void log_event(struct uro_device *device, const struct uro_inject_rule *rule, uint32_t count)
{
    (void)uro_refuse(device, 0, uro_inject_name(rule->call),
                     "call %u raises an event (%s) because of fail= in the device description",
                     count, ibv_event_type_str((enum ibv_event_type)rule->number));
}

/* Handles a call. If its rule raises an event of an object, returns the rule, and the caller raises
 * this event. */
static const struct uro_inject_rule *handle(struct uro_device *device, enum uro_inject_call call,
                                            int *error)
{
    uint32_t count;
    const struct uro_inject_rule *rule = uro_device_count_call(device, call, &count);

    *error = 0;
    if (rule == NULL)
        return NULL;
    if (rule->kind == URO_INJECT_KIND_ERROR) {
        *error = fail_call(device, rule, count);
    } else if (rule->kind == URO_INJECT_KIND_SIGNAL) {
        raise_signal(device, rule, count);
    } else if (rule->kind == URO_INJECT_KIND_EVENT) {
        log_event(device, rule, count);
        if (rule->number != (int)URO_INJECT_EVENT_GID_CHANGE)
            return rule;
        uro_ibv_event_handlers.port_event(device, URO_PORT_GIDS);
    }
    return NULL;
}

int uro_inject_device(struct uro_device *device, enum uro_inject_call call)
{
    int error = 0;

    if (uro_device_injects(device))
        (void)handle(device, call, &error);
    return error;
}

int uro_inject(struct ibv_context *context, enum uro_inject_call call)
{
    return uro_inject_device(uro_ibv_host(context), call);
}

int uro_inject_cq(struct ibv_cq *ibv, enum uro_inject_call call)
{
    struct uro_ibv_cq *cq = URO_CONTAINER_OF(ibv, struct uro_ibv_cq, ibv);
    struct uro_device *device = cq->object.device;
    int error = 0;

    if (!uro_device_injects(device) || handle(uro_ibv_host(ibv->context), call, &error) == NULL)
        return error;
    uro_device_lock(device);
    uro_cq_overflow(uro_device_shard(device), cq->core);
    uro_device_unlock(device);
    uro_device_progress(device, true);
    return 0;
}

int uro_inject_qp(struct ibv_qp *ibv, enum uro_inject_call call)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    struct uro_device *device = qp->object.device;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    int error = 0;

    if (!uro_device_injects(device) || handle(uro_ibv_host(ibv->context), call, &error) == NULL)
        return error;
    if (uro_ibv_modify_qp(ibv, &attr, IBV_QP_STATE) == 0) {
        uro_device_lock(device);
        uro_qp_raise_event(qp->core, URO_EVENT_QP_FATAL);
        uro_device_unlock(device);
        uro_device_progress(device, true);
    }
    return 0;
}
