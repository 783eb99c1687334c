/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c - see model.h for the contract. */
#include "sim/oracle/model.h"

#include <string.h>

#include "sim/oracle/memory.h"

enum uro_wc_opcode sim_model_wc_opcode(uint8_t opcode)
{
    static const enum uro_wc_opcode table[] = {
        [URO_WR_RDMA_WRITE] = URO_WC_RDMA_WRITE,
        [URO_WR_RDMA_WRITE_WITH_IMM] = URO_WC_RDMA_WRITE,
        [URO_WR_SEND] = URO_WC_SEND,
        [URO_WR_SEND_WITH_IMM] = URO_WC_SEND,
        [URO_WR_RDMA_READ] = URO_WC_RDMA_READ,
        [URO_WR_ATOMIC_CMP_AND_SWP] = URO_WC_COMP_SWAP,
        [URO_WR_ATOMIC_FETCH_AND_ADD] = URO_WC_FETCH_ADD,
        [URO_WR_LOCAL_INV] = URO_WC_LOCAL_INV,
        [URO_WR_BIND_MW] = URO_WC_BIND_MW,
        [URO_WR_SEND_WITH_INV] = URO_WC_SEND,
        [URO_WR_FLUSH] = URO_WC_FLUSH,
        [URO_WR_ATOMIC_WRITE] = URO_WC_ATOMIC_WRITE,
    };
    return table[opcode];
}

bool sim_model_takes_receive(uint8_t opcode)
{
    return opcode == URO_WR_SEND || opcode == URO_WR_SEND_WITH_IMM ||
           opcode == URO_WR_SEND_WITH_INV;
}

bool sim_model_is_message(uint8_t opcode)
{
    return sim_model_takes_receive(opcode) || opcode == URO_WR_RDMA_WRITE_WITH_IMM;
}

bool sim_model_has_imm(uint8_t opcode)
{
    return opcode == URO_WR_SEND_WITH_IMM || opcode == URO_WR_RDMA_WRITE_WITH_IMM;
}

bool sim_model_is_write(uint8_t opcode)
{
    return opcode == URO_WR_RDMA_WRITE || opcode == URO_WR_RDMA_WRITE_WITH_IMM;
}

bool sim_model_is_atomic(uint8_t opcode)
{
    return opcode == URO_WR_ATOMIC_CMP_AND_SWP || opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
}

bool sim_model_has_response(uint8_t opcode)
{
    return sim_model_is_atomic(opcode) || opcode == URO_WR_RDMA_READ || opcode == URO_WR_FLUSH ||
           opcode == URO_WR_ATOMIC_WRITE;
}

bool sim_model_is_local(uint8_t opcode)
{
    return opcode == URO_WR_BIND_MW || opcode == URO_WR_LOCAL_INV;
}

enum uro_verb sim_model_operation(uint8_t opcode)
{
    if (sim_model_takes_receive(opcode))
        return URO_SEND;
    switch (opcode) {
    case URO_WR_FLUSH:
        return URO_FLUSH;
    case URO_WR_ATOMIC_WRITE:
        return URO_ATOMIC_WRITE;
    case URO_WR_RDMA_READ:
        return URO_READ;
    case URO_WR_ATOMIC_CMP_AND_SWP:
        return URO_CMP_SWAP;
    case URO_WR_ATOMIC_FETCH_AND_ADD:
        return URO_FETCH_ADD;
    default:
        return URO_WRITE;
    }
}

uint32_t sim_model_packets(uint32_t length, uint32_t mtu)
{
    return length == 0 ? 1 : (length + mtu - 1) / mtu;
}

enum uro_place sim_model_place(uint32_t index, uint32_t count)
{
    if (count == 1)
        return URO_ONLY;
    return index == 0 ? URO_FIRST : index + 1 == count ? URO_LAST : URO_MIDDLE;
}

bool sim_model_carries(const struct uro_frame *frame, uint32_t from, uint32_t length, uint64_t seed)
{
    uint8_t bytes[URO_PATH_MTU_MAX];

    if (frame->payload_length != length)
        return false;
    sim_memory_message(bytes, from, length, seed);
    return memcmp(bytes, frame->payload, length) == 0;
}

bool sim_model_holds(const uint8_t *bytes, uint32_t length, uint64_t seed)
{
    uint8_t message[URO_PATH_MTU_MAX];

    sim_memory_message(message, 0, length, seed);
    return memcmp(bytes, message, length) == 0;
}
