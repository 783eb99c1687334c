/* SPDX-License-Identifier: BSD-3-Clause */
/* newer.c - see newer.h for the contract. */
#include "verbs/newer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/errors.h"
#include "verbs/objects.h"

static_assert(offsetof(struct uro_newer_mr_attr, comp_mask) == 16 &&
                  offsetof(struct uro_newer_mr_attr, addr) == 32 &&
                  offsetof(struct uro_newer_mr_attr, buf) == 64,
              "the layout that programs were compiled with");

/* The handle that ibv_alloc_buf() returns, opaque for programs. */
struct buf {
    struct ibv_pd *pd; /* used only to compare: the PD may be freed before the buffer */
    uint8_t *octets;
    size_t size;
};

static void *refuse(int error)
{
    errno = error;
    return NULL;
}

/* ---- buffers -------------------------------------------------------------------------------- */

void *uro_newer_alloc_buf(void *pd, size_t size, void **out)
{
    struct ibv_pd *domain = pd;

    if (uro_object_dead(&uro_ibv_pd(domain)->object))
        return refuse(EIO);
    if (size == 0)
        return refuse(EINVAL);
    struct buf *buf = uro_ibv_new(domain->context, sizeof *buf);
    if (buf == NULL)
        return NULL;
    void *octets = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (octets == MAP_FAILED) {
        free(buf);
        return refuse(ENOMEM);
    }
    *buf = (struct buf){ .pd = pd, .octets = octets, .size = size };
    *out = buf;
    return octets;
}

void uro_newer_free_buf(void *handle)
{
    struct buf *buf = handle;

    (void)munmap(buf->octets, buf->size);
    free(buf);
}

int uro_newer_export_buf(void *buf)
{
    (void)buf;
    errno = ENODATA;
    return -1;
}

/* ---- regions -------------------------------------------------------------------------------- */

static bool inside(const struct buf *buf, const void *addr, size_t length)
{
    const uintptr_t from = (uintptr_t)addr, base = (uintptr_t)buf->octets;

    return from >= base && from - base <= buf->size && length <= buf->size - (from - base);
}

/* Returns 0, or the error number if the region cannot be registered. */
static int refusal(const void *pd, const struct uro_newer_mr_attr *attr)
{
    const uint64_t given = attr->comp_mask;
    const uint64_t foreign = URO_NEWER_MR_FD | URO_NEWER_MR_FD_OFFSET;
    const uint64_t known = URO_NEWER_MR_IOVA | URO_NEWER_MR_ADDR | URO_NEWER_MR_BUF;

    if ((given & ~(known | foreign | URO_NEWER_MR_DMAH)) != 0)
        return EOPNOTSUPP;
    if ((given & URO_NEWER_MR_BUF) != 0) {
        const struct buf *buf = attr->buf;
        if ((given & foreign) != 0 || (given & URO_NEWER_MR_ADDR) == 0 || buf == NULL ||
            buf->pd != pd || !inside(buf, attr->addr, attr->length))
            return EINVAL;
    }
    if (((given & URO_NEWER_MR_ADDR) != 0) == ((given & URO_NEWER_MR_FD) != 0))
        return EINVAL; /* the memory is either at an address or in a DMA-buf */
    return (given & ~known) != 0 ? EOPNOTSUPP : 0;
}

void *uro_newer_reg_mr_ex(void *pd, const struct uro_newer_mr_attr *attr)
{
    const int error = refusal(pd, attr);

    if (error != 0)
        return refuse(error);
    const uint64_t iova =
        (attr->comp_mask & URO_NEWER_MR_IOVA) != 0 ? attr->iova : (uintptr_t)attr->addr;
    return ibv_reg_mr_iova2(pd, attr->addr, attr->length, iova, (unsigned)attr->access);
}

void *uro_newer_reg_buf_mr(void *pd, void *buf, void *addr, size_t length, int access)
{
    const struct uro_newer_mr_attr attr = { .length = length,
                                            .access = access,
                                            .comp_mask = URO_NEWER_MR_BUF | URO_NEWER_MR_ADDR,
                                            .addr = addr,
                                            .buf = buf };

    return uro_newer_reg_mr_ex(pd, &attr);
}

/* ---- speed ---------------------------------------------------------------------------------- */

/* Returns the speed of a lane in 100 Mb/s for a value of ibv_port_attr.active_speed; 0 if it is
 * unknown. */
static unsigned lane_speed(unsigned code)
{
    static const struct {
        unsigned code, speed;
    } table[] = { { 1, 25 },   { 2, 50 },   { 4, 100 },  { 8, 100 },
                  { 16, 140 }, { 32, 250 }, { 64, 500 }, { 128, 1000 } };

    for (size_t i = 0; i < URO_ARRAY_LEN(table); i++)
        if (table[i].code == code)
            return table[i].speed;
    return 0;
}

/* Returns the number of lanes for a value of ibv_port_attr.active_width; 0 if it is unknown. */
static unsigned lanes(unsigned code)
{
    static const struct {
        unsigned code, lanes;
    } table[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };

    for (size_t i = 0; i < URO_ARRAY_LEN(table); i++)
        if (table[i].code == code)
            return table[i].lanes;
    return 0;
}

int uro_newer_query_port_speed(void *context, uint32_t port, uint64_t *speed)
{
    struct ibv_port_attr attr;

    if (port > UINT8_MAX)
        return uro_errors_keep(EINVAL);
    const int error = uro_ibv_query_port(context, (uint8_t)port, &attr, sizeof attr);
    if (error == 0)
        *speed = (uint64_t)lane_speed(attr.active_speed) * lanes(attr.active_width);
    return uro_errors_keep(error);
}
