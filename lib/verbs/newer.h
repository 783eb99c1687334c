/* SPDX-License-Identifier: BSD-3-Clause */
/* newer.h - verbs that only newer releases of rdma-core declare in <infiniband/verbs.h>. Here, they
 * have names and types of our own. lib/abi generates the exported functions, which call these
 * verbs, from symbols.txt. Pointers to objects of the interface are void pointers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* IBV_EVENT_DEVICE_SPEED_CHANGE (rdma-core 62): the value after IBV_EVENT_WQ_FATAL. */
#define URO_NEWER_EVENT_SPEED_CHANGE 20

/* Bits of uro_newer_mr_attr.comp_mask, one for each field that is valid. */
#define URO_NEWER_MR_IOVA      0x01u
#define URO_NEWER_MR_ADDR      0x02u
#define URO_NEWER_MR_FD        0x04u
#define URO_NEWER_MR_FD_OFFSET 0x08u
#define URO_NEWER_MR_DMAH      0x10u
#define URO_NEWER_MR_BUF       0x20u

/* struct ibv_mr_init_attr. In programs built with rdma-core 59 to 63 it ends before `buf`. */
struct uro_newer_mr_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah;
    void *buf;
};

/* ibv_alloc_buf (rdma-core 64): allocates zeroed pages that a program will register. Returns their
 * address, and the handle in @buf. Returns NULL with errno EINVAL, ENOMEM or EIO on failure. */
void *uro_newer_alloc_buf(void *pd, size_t size, void **buf);
void uro_newer_free_buf(void *buf);

/* ibv_reg_buf_mr: registers a part of such a buffer in the PD that it was allocated for. Returns
 * NULL with errno on failure. */
void *uro_newer_reg_buf_mr(void *pd, void *buf, void *addr, size_t length, int access);

/* ibv_export_buf_dmabuf_fd (rdma-core 65): returns -1 with errno ENODATA, since no buffer is a
 * DMA-buf. */
int uro_newer_export_buf(void *buf);

/* ibv_reg_mr_ex (rdma-core 59): registers memory. Returns NULL with errno on failure: EOPNOTSUPP
 * for a DMA-buf, a DMA handle or an unknown field, EINVAL, or an error of ibv_reg_mr. */
void *uro_newer_reg_mr_ex(void *pd, const struct uro_newer_mr_attr *attr);

/* ibv_query_port_speed (rdma-core 62): reads the speed in units of 100 Mb/s. Returns 0 or an error
 * number, also in errno. */
int uro_newer_query_port_speed(void *context, uint32_t port, uint64_t *speed);
