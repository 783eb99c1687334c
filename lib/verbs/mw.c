/* SPDX-License-Identifier: BSD-3-Clause */
/* mw.c - memory windows: keys that work requests bind to a part of a region, and unbind.
 *
 * Windows of type 1 are bound here, windows of type 2 by ibv_post_send() or ibv_wr_bind_mw().
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs/card.h"
#include "verbs/inject.h"
#include "verbs/post.h"
#include "verbs/refusal.h"

struct mw {
    struct ibv_mw ibv;
    struct uro_object object;
    struct uro_key key;
};

/* Removes the window from the engine, and unbinds it. */
static void detach(struct uro_object *object)
{
    struct mw *mw = URO_CONTAINER_OF(object, struct mw, object);
    struct uro_device *device = object->device;

    uro_device_lock_all(device);
    int error = uro_key_deregister(uro_device_shard(device), &mw->key);
    uro_device_unlock_all(device);
    URO_ASSERT(error == 0); /* cannot fail: no window is bound to a window */
}

struct ibv_mw *uro_ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct uro_device *device = uro_ibv_host(pd->context);
    struct mw *mw;

    if (uro_inject(pd->context, URO_INJECT_CALL_ALLOC_MW) != 0)
        return NULL;
    if (uro_card_lacks(device, URO_CARD_NO_MW, "ibv_alloc_mw"))
        return NULL;
    if (uro_device_next_engine(device) != NULL) {
        errno = uro_refuse_probe(device, EOPNOTSUPP, "ibv_alloc_mw",
                                 "a device with several engines has no memory windows; use "
                                 "engines=1, or register a region for each range");
        return NULL;
    }
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
        errno = uro_refuse(device, EINVAL, "ibv_alloc_mw",
                           "type is %d: use IBV_MW_TYPE_1 or IBV_MW_TYPE_2", (int)type);
        return NULL;
    }
    if (!uro_ibv_start_for(pd) || (mw = uro_ibv_new(pd->context, sizeof *mw)) == NULL)
        return NULL;
    if (!uro_object_charge(&mw->object, pd->context, URO_QUOTA_MW)) {
        free(mw);
        return NULL;
    }
    mw->key.kind = type == IBV_MW_TYPE_1 ? (uint8_t)URO_KEY_WINDOW_1 : (uint8_t)URO_KEY_WINDOW_2;
    mw->key.pd = pd->handle;
    uro_device_lock_all(device);
    uro_key_register(uro_device_shard(device), &mw->key);
    uro_device_unlock_all(device);
    mw->ibv.context = pd->context;
    mw->ibv.pd = pd;
    mw->ibv.rkey = mw->ibv.handle = uro_key_number(&mw->key);
    mw->ibv.type = type;
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_object_add(&mw->object, pd->context, detach);
    return &mw->ibv;
}

int uro_ibv_dealloc_mw(struct ibv_mw *ibv)
{
    struct mw *mw = URO_CONTAINER_OF(ibv, struct mw, ibv);

    uro_object_remove(&mw->object);
    atomic_fetch_sub(&uro_ibv_pd(ibv->pd)->users, 1);
    free(mw);
    return 0;
}

/* Posts the binding. The program may send the new key to the peer in a later request. If the
 * binding fails, the program restores the old key, as man ibv_bind_mw says. */
int uro_ibv_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    struct uro_wqe *wqe;

    if (uro_object_dead(&qp->object))
        return EIO;
    pthread_spin_lock(&qp->send_lock);
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    int error = uro_post_sends(qp) ? 0 : EINVAL;
    if (error == 0)
        error = uro_post_begin(qp, 0, URO_WR_BIND_MW, bind->send_flags, &wqe);
    if (error == 0)
        error = uro_post_bind(qp, wqe, IBV_MW_TYPE_1, mw, rkey, &bind->bind_info);
    if (error == 0) {
        wqe->wr_id = bind->wr_id;
        mw->rkey = rkey;
        uro_post_publish(qp, 1);
    }
    pthread_spin_unlock(&qp->send_lock);

    if (error == 0)
        uro_device_progress(qp->object.device, true);
    return error == 0 ? 0 : uro_refuse_bind(qp, mw, bind, error);
}
