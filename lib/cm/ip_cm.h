/* SPDX-License-Identifier: BSD-3-Clause */
/* ip_cm.h - IP addresses and ports in connection management, as rdma_cm sends them (IBTA Annex A11,
 * "RDMA IP CM Service").
 */
#pragma once

#include "wire/gid.h"

#define URO_IP_CM_LEN 36u /* bytes at the start of the private data of REQ and SIDR_REQ */

#define URO_IP_CM_TCP   0x0106u
#define URO_IP_CM_UDP   0x0111u
#define URO_IP_CM_IB    0x013fu
#define URO_IP_CM_IPOIB 0x0002u

struct uro_ip_cm {
    struct uro_gid source;
    struct uro_gid dest;
    uint16_t source_port;
};

void uro_ip_cm_encode(uint8_t out[static URO_IP_CM_LEN], const struct uro_ip_cm *header);

/* Parses the header. Returns false when it is malformed. */
URO_NODISCARD bool uro_ip_cm_decode(const uint8_t in[static URO_IP_CM_LEN],
                                    struct uro_ip_cm *header);

/* rule CM.SERVICE */
static inline uint64_t uro_ip_cm_service(uint16_t port_space, uint16_t port)
{
    return (uint64_t)port_space << 16 | port;
}
