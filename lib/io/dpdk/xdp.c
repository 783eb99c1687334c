/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp.c - see xdp.h. The program is assembled at run time, because it depends on the addresses, and
 * because a machine that runs uroce may have no compiler for BPF. */
#define _GNU_SOURCE /* syscall */
#include "io/dpdk/xdp.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <sys/syscall.h>

#include "engine/engine.h"
#include "wire/ip.h"

#define QUEUES      64u /* maximum number of queues of an interface */
#define CODE_MAX    256u
#define FIXED_CODE  56u /* instructions that do not depend on the addresses */
#define PER_ADDRESS 8u

static_assert(FIXED_CODE + URO_ENGINE_ADDRESSES_MAX * PER_ADDRESS <= CODE_MAX,
              "the code has space for all addresses");

/* Offsets in a frame without VLAN tag. */
enum { TYPE = 12, IPV4 = 14, IPV4_FRAGMENT = 20, IPV4_PROTOCOL = 23, IPV4_TO = 30, IPV4_PORT = 36 };
enum { IPV6_NEXT = 20, IPV6_TO = 38, IPV6_PORT = 56 };
enum { TAG_INFO = 14, TAG = 4, IPV4_LEAST = 42, IPV6_LEAST = 62 };

/* The offset of a jump to a label is filled in when the label is set. */
enum label { NO_LABEL, PASS, TAKE, PLAIN, FOUR, NEXT, LABELS };

struct code {
    struct bpf_insn list[CODE_MAX];
    uint8_t target[CODE_MAX]; /* enum label of a jump whose offset is not filled in */
    uint32_t count;
};

static void put(struct code *code, uint8_t op, uint8_t to, uint8_t from, int16_t offset,
                int32_t value)
{
    URO_ASSERT(code->count < CODE_MAX);
    code->list[code->count++] = (struct bpf_insn){
        .code = op, .dst_reg = to & 0xfu, .src_reg = from & 0xfu, .off = offset, .imm = value
    };
}

static void put_jump(struct code *code, uint8_t op, uint8_t to, uint8_t from, int32_t value,
                     enum label label)
{
    code->target[code->count] = (uint8_t)label;
    put(code, op, to, from, 0, value);
}

static void set_label(struct code *code, enum label label)
{
    for (uint32_t i = 0; i < code->count; i++)
        if (code->target[i] == (uint8_t)label) {
            code->list[i].off = (int16_t)(code->count - i - 1);
            code->target[i] = NO_LABEL;
        }
}

/* Returns the word in the byte order of memory, because the program loads words in that order. */
static int32_t word_of(const uint8_t octets[static 4])
{
    int32_t word;

    memcpy(&word, octets, sizeof word);
    return word;
}

static int32_t half_of(unsigned value)
{
    const uint8_t octets[2] = { (uint8_t)(value >> 8), (uint8_t)value };
    uint16_t half;

    memcpy(&half, octets, sizeof half);
    return half;
}

/* Loads a field into r5. r2: start of the frame, or 4 bytes later if it has a tag; r3: its end;
 * r4, r5: scratch; r6: the context. */

static void load(struct code *code, uint8_t size, int16_t offset)
{
    put(code, BPF_LDX | BPF_MEM | size, BPF_REG_5, BPF_REG_2, offset, 0);
}

/* Some fields of an instruction are 0 and named for clarity.
 * NOLINTBEGIN(misc-redundant-expression) */

static void pass_unless(struct code *code, int32_t value)
{
    put_jump(code, BPF_JMP32 | BPF_JNE | BPF_K, BPF_REG_5, 0, value, PASS);
}

static void pass_if_shorter(struct code *code, int32_t octets)
{
    put(code, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_4, BPF_REG_2, 0, 0);
    put(code, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_4, 0, 0, octets);
    put_jump(code, BPF_JMP | BPF_JGT | BPF_X, BPF_REG_4, BPF_REG_3, 0, PASS);
}

/* Accepts the frames that the engine accepts: uro_ether_in_vlan(). */
static void vlan(struct code *code, uint16_t id)
{
    load(code, BPF_H, TYPE);
    put_jump(code, BPF_JMP32 | BPF_JNE | BPF_K, BPF_REG_5, 0, half_of(ETH_P_8021Q),
             id == 0 ? PLAIN : PASS);
    pass_if_shorter(code, ETH_HLEN + TAG);
    load(code, BPF_H, TAG_INFO);
    put(code, BPF_ALU | BPF_AND | BPF_K, BPF_REG_5, 0, 0, half_of(0xfff));
    pass_unless(code, half_of(id));
    put(code, BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, TAG);
    set_label(code, PLAIN);
}

static void begin(struct code *code, uint16_t vlan_id)
{
    put(code, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_1, 0, 0);
    put(code, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_6, offsetof(struct xdp_md, data), 0);
    put(code, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_3, BPF_REG_6, offsetof(struct xdp_md, data_end),
        0);
    pass_if_shorter(code, ETH_HLEN);
    vlan(code, vlan_id);
    pass_if_shorter(code, IPV4_LEAST);
    load(code, BPF_H, TYPE);
    put_jump(code, BPF_JMP32 | BPF_JEQ | BPF_K, BPF_REG_5, 0, half_of(ETH_P_IP), FOUR);
    pass_unless(code, half_of(ETH_P_IPV6));
}

static void ipv6(struct code *code, const struct uro_port_config *config)
{
    pass_if_shorter(code, IPV6_LEAST);
    load(code, BPF_B, IPV6_NEXT);
    pass_unless(code, IPPROTO_UDP);
    load(code, BPF_H, IPV6_PORT);
    pass_unless(code, half_of(URO_ROCE_PORT));
    load(code, BPF_B, IPV6_TO);
    put_jump(code, BPF_JMP32 | BPF_JEQ | BPF_K, BPF_REG_5, 0, 0xff, TAKE); /* a group */
    for (uint32_t i = 0; i < config->address_count; i++) {
        const struct uro_gid *gid = &config->addresses[i];
        if (uro_gid_is_ipv4(gid))
            continue;
        for (unsigned k = 0; k < 16; k += 4) {
            load(code, BPF_W, (int16_t)(IPV6_TO + k));
            put_jump(code, BPF_JMP32 | (k < 12 ? BPF_JNE : BPF_JEQ) | BPF_K, BPF_REG_5, 0,
                     word_of(&gid->octets[k]), k < 12 ? NEXT : TAKE);
        }
        set_label(code, NEXT);
    }
    put_jump(code, BPF_JMP | BPF_JA, 0, 0, 0, PASS);
}

static void ipv4(struct code *code, const struct uro_port_config *config)
{
    set_label(code, FOUR);
    load(code, BPF_B, IPV4);
    pass_unless(code, 0x45); /* RoCE packets have no IP options */
    load(code, BPF_B, IPV4_PROTOCOL);
    pass_unless(code, IPPROTO_UDP);
    load(code, BPF_H, IPV4_FRAGMENT);
    put_jump(code, BPF_JMP32 | BPF_JSET | BPF_K, BPF_REG_5, 0, half_of(0x1fff), PASS);
    load(code, BPF_H, IPV4_PORT);
    pass_unless(code, half_of(URO_ROCE_PORT));
    load(code, BPF_W, IPV4_TO);
    for (uint32_t i = 0; i < config->address_count; i++)
        if (uro_gid_is_ipv4(&config->addresses[i]))
            put_jump(code, BPF_JMP32 | BPF_JEQ | BPF_K, BPF_REG_5, 0,
                     word_of(&config->addresses[i].octets[12]), TAKE);
    load(code, BPF_B, IPV4_TO);
    put(code, BPF_ALU | BPF_AND | BPF_K, BPF_REG_5, 0, 0, 0xf0);
    pass_unless(code, 0xe0); /* a group */
}

static void end(struct code *code, int map)
{
    set_label(code, TAKE);
    put(code, BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map);
    put(code, 0, 0, 0, 0, 0); /* second half of the instruction */
    put(code, BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_6,
        offsetof(struct xdp_md, rx_queue_index), 0);
    put(code, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, XDP_PASS); /* no socket at this queue */
    put(code, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
    put(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    set_label(code, PASS);
    put(code, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, XDP_PASS);
    put(code, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* NOLINTEND(misc-redundant-expression) */

static int call(enum bpf_cmd command, union bpf_attr *attr)
{
    const long result = syscall(SYS_bpf, command, attr, sizeof *attr);

    return result < 0 ? -errno : (int)result;
}

static int make_map(void)
{
    union bpf_attr attr = { .map_type = BPF_MAP_TYPE_XSKMAP,
                            .key_size = sizeof(uint32_t),
                            .value_size = sizeof(uint32_t),
                            .max_entries = QUEUES,
                            .map_name = "uroce_sockets" };

    return call(BPF_MAP_CREATE, &attr);
}

static int load_program(const struct uro_port_config *config, int map)
{
    static const char license[] = "Dual BSD/GPL";
    struct code code = { .count = 0 };
    union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_XDP,
                            .license = (uintptr_t)license,
                            .prog_name = "uroce_roce" };

    begin(&code, config->vlan);
    ipv6(&code, config);
    ipv4(&code, config);
    end(&code, map);
    attr.insns = (uintptr_t)code.list;
    attr.insn_cnt = code.count;
    return call(BPF_PROG_LOAD, &attr);
}

/* Attaches the program to the driver of the interface, or to the kernel in front of it if the
 * driver has no support. */
static int attach(int program, uint32_t interface)
{
    union bpf_attr attr = { .link_create = { .prog_fd = (uint32_t)program,
                                             .target_ifindex = interface,
                                             .attach_type = BPF_XDP } };
    int link = call(BPF_LINK_CREATE, &attr);

    if (link < 0 && link != -EBUSY && link != -EPERM) {
        attr.link_create.flags = XDP_FLAGS_SKB_MODE;
        link = call(BPF_LINK_CREATE, &attr);
    }
    return link;
}

int uro_xdp_open(struct uro_xdp *xdp, const struct uro_port_config *config, uint32_t interface)
{
    *xdp = URO_XDP_INIT;
    xdp->map = make_map();
    int result = xdp->map;
    int program = result < 0 ? -1 : load_program(config, xdp->map);
    if (result >= 0)
        result = program;
    if (result >= 0)
        result = xdp->link = attach(program, interface);
    if (program >= 0)
        (void)close(program); /* the link keeps the program */
    if (result >= 0)
        return 0;
    uro_xdp_close(xdp);
    return result;
}

int uro_xdp_add(const struct uro_xdp *xdp, uint32_t queue, int fd)
{
    union bpf_attr attr = { .map_fd = (uint32_t)xdp->map,
                            .key = (uintptr_t)&queue,
                            .value = (uintptr_t)&fd };

    return call(BPF_MAP_UPDATE_ELEM, &attr);
}

void uro_xdp_close(struct uro_xdp *xdp)
{
    if (xdp->link >= 0)
        (void)close(xdp->link);
    if (xdp->map >= 0)
        (void)close(xdp->map);
    *xdp = URO_XDP_INIT;
}
