/* SPDX-License-Identifier: BSD-3-Clause */
/* fate.c - see fate.h. */
#include "impair/fate.h"

#include "impair/hash.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/ip.h"

#define PS_PER_NS        1000u
#define PS_BITS_PER_BYTE UINT64_C(8000000000000) /* ps of a byte at 1 bit a second */
#define CORRUPT_BITS_MAX 3u /* a CRC detects 3 wrong bits for certain, but not more */
#define ICRC_LEN         4u
#define AT_IPV4_TOS      1u
#define AT_IPV4_CHECKSUM 10u
#define CE_IPV4          0x03u
#define CE_IPV6          0x30u /* in the second byte of the header */
#define FRACTION_BITS    16u
#define LN2              45426u /* ln(2) with FRACTION_BITS, as all fractions here */
#define PARETO_MAX       100u   /* largest delay, in units of the jitter */

/* The draws for a packet. The numbers of LOSS, DUPLICATE and REORDER are part of the interface of a
 * cable: its faults for a seed stay the same. */
enum draw {
    LOSS = 1,
    DUPLICATE,
    REORDER,
    CORRUPT,
    DAMAGE,
    MARK,
    BURST,
    BURST_LOSS,
    DELAY,      /* DELAY uses two more draws */
    DRAWS = 16, /* draws of each rule */
};

static uint64_t draw(const struct uro_impair_flow *flow, uint32_t rule, unsigned which)
{
    return uro_impair_draw(flow->key, (uint64_t)rule * DRAWS + which, flow->count);
}

static bool happens(const struct uro_impair_flow *flow, uint32_t rule, unsigned which,
                    uint32_t probability)
{
    return probability != 0 && draw(flow, rule, which) % URO_IMPAIR_CERTAIN < probability;
}

/* ---- losses --------------------------------------------------------------- */

/* Advances the burst of the rule by one packet. Returns whether the packet is lost. */
static bool lost_in_burst(const struct uro_impair_rule *rule, uint32_t i,
                          struct uro_impair_flow *flow)
{
    const uint32_t bit = UINT32_C(1) << i;
    const bool was_in = (flow->in_burst & bit) != 0;
    const bool changes = happens(flow, i, BURST, was_in ? rule->leave : rule->enter);

    if (rule->enter == 0)
        return false;
    if (changes)
        flow->in_burst ^= bit;
    return happens(flow, i, BURST_LOSS, was_in != changes ? rule->loss_in : rule->loss_out);
}

static bool is_listed(const struct uro_impair_plan *plan, const struct uro_impair_rule *rule,
                      uint64_t number)
{
    for (uint32_t i = 0; i < rule->range_count; i++) {
        const struct uro_impair_range *range = &plan->ranges[rule->first_range + i];
        if (number >= range->first && number <= range->last)
            return true;
    }
    return false;
}

static bool is_lost(const struct uro_impair_plan *plan, uint32_t i, struct uro_impair_flow *flow)
{
    const struct uro_impair_rule *rule = &plan->rules[i];
    const uint64_t number = flow->count + 1;
    /* The state of the burst changes with each packet. */
    const bool in_burst = lost_in_burst(rule, i, flow);

    return in_burst || happens(flow, i, LOSS, rule->loss) ||
           (rule->every != 0 && number % rule->every == 0) || is_listed(plan, rule, number);
}

/* ---- delays --------------------------------------------------------------- */

/* Returns -ln(u) for u = (@random + 1) / 2^64, in 16.16. */
static uint64_t minus_ln(uint64_t random)
{
    const uint64_t u = random == UINT64_MAX ? random : random + 1;
    const unsigned zeros = (unsigned)__builtin_clzll(u);
    uint64_t mantissa = u << zeros >> 32, fraction = 0; /* 2^31 to 2^32 */

    for (unsigned bit = 0; bit < FRACTION_BITS; bit++) { /* log2(mantissa), a bit at a time */
        mantissa = mantissa * mantissa >> 31;
        fraction <<= 1;
        if (mantissa >> 32 != 0) {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    const uint64_t log2 = ((uint64_t)(zeros + 1) << FRACTION_BITS) - fraction;
    return log2 * LN2 >> FRACTION_BITS;
}

static uint64_t square_root(uint64_t value)
{
    uint64_t root = 0;

    for (uint64_t bit = UINT64_C(1) << 31; bit != 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= value)
            root |= bit;
    return root;
}

/* Returns 1 / sqrt(u) - 1 for u = (@random + 1) / 2^32, in 16.16, at most PARETO_MAX. */
static uint64_t pareto(uint32_t random)
{
    const uint64_t root = square_root(((uint64_t)random + 1) << 31);         /* sqrt(u) * 2^31.5 */
    const uint64_t inverse = (UINT64_C(3037000500) << FRACTION_BITS) / root; /* 2^31.5 */
    const uint64_t most = (uint64_t)PARETO_MAX << FRACTION_BITS;

    return inverse - (UINT64_C(1) << FRACTION_BITS) < most
               ? inverse - (UINT64_C(1) << FRACTION_BITS)
               : most;
}

/* Returns the sum of twelve numbers from 0 to 65535: almost normal, standard deviation 65536. */
static uint64_t sum_of_twelve(const struct uro_impair_flow *flow, uint32_t i)
{
    uint64_t sum = 0;

    for (unsigned k = 0; k < 3; k++) {
        const uint64_t random = draw(flow, i, DELAY + k);
        sum +=
            (random & 0xffff) + (random >> 16 & 0xffff) + (random >> 32 & 0xffff) + (random >> 48);
    }
    return sum;
}

static uro_time delay_of(const struct uro_impair_rule *rule, uint32_t i,
                         const struct uro_impair_flow *flow)
{
    const uro_time jitter = rule->jitter;
    uro_time found = rule->delay;

    if (jitter == 0)
        return found;
    switch (rule->distribution) {
    case URO_IMPAIR_UNIFORM:
        found = found - jitter + draw(flow, i, DELAY) % (2 * jitter + 1);
        break;
    case URO_IMPAIR_NORMAL: {
        const uro_time shifted = found + (jitter * sum_of_twelve(flow, i) >> FRACTION_BITS);
        found = shifted > 6 * jitter ? shifted - 6 * jitter : 0;
        break;
    }
    case URO_IMPAIR_EXPONENTIAL:
        found += jitter * minus_ln(draw(flow, i, DELAY)) >> FRACTION_BITS;
        break;
    case URO_IMPAIR_PARETO:
        found += jitter * pareto((uint32_t)draw(flow, i, DELAY)) >> FRACTION_BITS;
        break;
    }
    return found < URO_IMPAIR_DELAY_MAX ? found : URO_IMPAIR_DELAY_MAX;
}

/* ---- the fate ------------------------------------------------------------- */

static void apply(const struct uro_impair_plan *plan, uint32_t i, struct uro_impair_flow *flow,
                  struct uro_impair_fate *fate)
{
    const struct uro_impair_rule *rule = &plan->rules[i];

    fate->lost |= is_lost(plan, i, flow);
    fate->duplicated |= happens(flow, i, DUPLICATE, rule->duplicate);
    fate->overtaken |= happens(flow, i, REORDER, rule->reorder);
    fate->marked |= happens(flow, i, MARK, rule->mark);
    if (happens(flow, i, CORRUPT, rule->corrupt)) {
        fate->corrupted = true;
        fate->resummed = rule->resum;
        fate->damage = draw(flow, i, DAMAGE);
    }
    fate->delay += delay_of(rule, i, flow);
}

/* Other protocols than RoCE have no random fate: how many such packets there are depends on time.
 */
static void apply_to_other(const struct uro_impair_rule *rule, struct uro_impair_fate *fate)
{
    fate->delay += rule->delay;
}

void uro_impair_fate_draw(const struct uro_impair_plan *plan, struct uro_impair_flow *flow,
                          struct uro_impair_fate *fate)
{
    *fate = (struct uro_impair_fate){ 0 };
    for (uint32_t left = flow->rules; left != 0; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        if (flow->kind == URO_IMPAIR_OTHER)
            apply_to_other(&plan->rules[i], fate);
        else
            apply(plan, i, flow, fate);
    }
    flow->count++;
    if (fate->lost)
        *fate = (struct uro_impair_fate){ .lost = true };
}

/* Passes the packet through the link of @rule. */
static void limit_rate(const struct uro_impair_rule *rule, uint64_t *busy_until, uint32_t length,
                       uro_time elapsed, struct uro_impair_fate *fate)
{
    const uint64_t now = elapsed * PS_PER_NS, ps_per_byte = PS_BITS_PER_BYTE / rule->rate;
    const uint64_t from = *busy_until > now ? *busy_until : now;
    const uint64_t waiting = (from - now) / (ps_per_byte != 0 ? ps_per_byte : 1);

    if (rule->queue_bytes != 0 && waiting + length > rule->queue_bytes) {
        *fate = (struct uro_impair_fate){ .lost = true };
        return;
    }
    fate->marked |= rule->mark_bytes != 0 && waiting > rule->mark_bytes;
    *busy_until = from + length * ps_per_byte;
    fate->delay += (*busy_until - now) / PS_PER_NS;
}

void uro_impair_fate_pass(const struct uro_impair_plan *plan, struct uro_impair_links *links,
                          const struct uro_impair_flow *flow, uint32_t length, uro_time elapsed,
                          struct uro_impair_fate *fate)
{
    for (uint32_t left = flow->rules; left != 0 && !fate->lost; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        const struct uro_impair_rule *rule = &plan->rules[i];
        if (uro_impair_window_has(&rule->down, elapsed) ||
            uro_impair_window_has(&rule->flap, elapsed))
            *fate = (struct uro_impair_fate){ .lost = true };
        else if (rule->rate != 0)
            limit_rate(rule, &links->busy_until[i][flow->direction], length, elapsed, fate);
    }
}

bool uro_impair_fate_flaps(const struct uro_impair_plan *plan, uro_time elapsed)
{
    for (uint32_t i = 0; i < plan->rule_count; i++)
        if (uro_impair_window_has(&plan->rules[i].flap, elapsed))
            return true;
    return false;
}

/* ---- frames --------------------------------------------------------------- */

void uro_impair_fate_corrupt(const struct uro_impair_fate *fate,
                             const struct uro_impair_packet *packet, uint8_t *frame,
                             uint32_t length)
{
    const uint32_t from = fate->resummed ? packet->payload_at : packet->bth_at;
    const uint32_t end = fate->resummed ? length - ICRC_LEN : length;
    const unsigned bits = 1 + (unsigned)(fate->damage % CORRUPT_BITS_MAX);

    if (packet->kind == URO_IMPAIR_OTHER || length < packet->payload_at + ICRC_LEN || from >= end)
        return;
    for (unsigned i = 0; i < bits; i++) { /* the same bit twice would change nothing */
        const uint64_t bit = (uro_impair_mix(fate->damage) + i) % ((end - from) * UINT64_C(8));
        frame[from + bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (fate->resummed)
        uro_put_le32(frame + end,
                     uro_icrc(frame + packet->network_at, packet->v6, end - packet->network_at));
}

void uro_impair_fate_mark(const struct uro_impair_packet *packet, uint8_t *head)
{
    uint8_t *ip = head + packet->network_at;

    if (packet->kind == URO_IMPAIR_OTHER)
        return;
    if (packet->v6) {
        ip[1] |= CE_IPV6;
        return;
    }
    ip[AT_IPV4_TOS] |= CE_IPV4;
    uro_put_be16(ip + AT_IPV4_CHECKSUM, 0);
    uro_put_be16(ip + AT_IPV4_CHECKSUM, uro_ip_sum_finish(uro_ip_sum(0, ip, URO_IPV4_LEN)));
}
