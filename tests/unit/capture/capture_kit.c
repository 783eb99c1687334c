/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include "capture_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/make_frame.h"

#define START UINT64_C(1700000000000000000)

static FILE *file;
static char path[64];
static uint64_t now;
static uint16_t identification;
static uint8_t data[URO_PATH_MTU_MAX];

static void put_le32(uint32_t value)
{
    uint8_t octets[4];

    uro_put_le32(octets, value);
    assert_int_equal(fwrite(octets, 4, 1, file), 1);
}

void kit_begin(void)
{
    snprintf(path, sizeof path, "/tmp/uroce-kit-%ld.pcap", (long)getpid());
    file = fopen(path, "wb");
    assert_non_null(file);
    now = START;
    identification = 0;
    put_le32(0xa1b23c4d); /* nanoseconds */
    put_le32(4u << 16 | 2);
    put_le32(0);
    put_le32(0);
    put_le32(65535);
    put_le32(1);
}

void kit_wait(uint64_t ns)
{
    now += ns;
}

void kit_put_bytes(const uint8_t *octets, uint32_t stored, uint32_t length)
{
    put_le32((uint32_t)(now / 1000000000u));
    put_le32((uint32_t)(now % 1000000000u));
    put_le32(stored);
    put_le32(length);
    if (stored > 0)
        assert_int_equal(fwrite(octets, stored, 1, file), 1);
    now += KIT_STEP_NS;
}

struct uro_frame kit_frame(int side, uint8_t opcode, uint32_t psn, uint32_t payload)
{
    struct uro_frame frame = plain_frame(false, opcode, data, payload);

    if (side == KIT_B) {
        const struct uro_gid source = frame.ip.source;
        frame.ip.source = frame.ip.dest;
        frame.ip.dest = source;
    }
    frame.ip.identification = ++identification;
    frame.bth.dest_qpn = side == KIT_A ? KIT_QPN_B : KIT_QPN_A;
    frame.bth.psn = psn;
    frame.bth.migrated = true;
    frame.bth.becn = opcode == OP_CNP;
    return frame;
}

void kit_put(const struct uro_frame *frame)
{
    uint8_t octets[MADE_FRAME_MAX];
    const uint32_t length = make_frame(frame, octets);

    kit_put_bytes(octets, length, length);
}

void kit_send(int side, uint8_t opcode, uint32_t psn, uint32_t payload)
{
    const struct uro_frame frame = kit_frame(side, opcode, psn, payload);

    kit_put(&frame);
}

void kit_rdma(int side, uint8_t opcode, uint32_t psn, uint64_t va, uint32_t length,
              uint32_t payload)
{
    struct uro_frame frame = kit_frame(side, opcode, psn, payload);

    frame.reth = (struct uro_reth){ .va = va, .rkey = 7, .length = length };
    kit_put(&frame);
}

void kit_respond(int side, uint8_t opcode, uint32_t psn, uint32_t msn, enum uro_aeth_kind kind,
                 uint8_t value, uint32_t payload)
{
    struct uro_frame frame = kit_frame(side, opcode, psn, payload);

    frame.aeth = (struct uro_aeth){ kind, value, msn };
    kit_put(&frame);
}

void kit_exchange(uint32_t psn, uint32_t msn)
{
    kit_send(KIT_A, OP_SEND_ONLY, psn, 64);
    kit_respond(KIT_B, OP_ACK, psn, msn, SYNDROME_ACK, 0);
}

struct uro_capture *kit_end(void)
{
    char error[URO_PCAP_ERROR_MAX];

    assert_int_equal(fclose(file), 0);
    struct uro_capture *capture = uro_capture_load(path, NULL, NULL, error);
    unlink(path);
    if (capture == NULL)
        fail_msg("%s", error);
    return capture;
}
