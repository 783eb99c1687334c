/* SPDX-License-Identifier: BSD-3-Clause */
/* fields.c - see fields.h for the contract. */
#include "sim/plan/fields.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "sim/sim.h"

enum shape {
    EVEN,   /* each number of the range is equally likely */
    SKEWED, /* small numbers are more likely */
    STEEP,  /* as SKEWED, but large numbers are even less likely */
    POWER,  /* 2^n with n from the range */
};

/* How sim_fields_divide() makes a field smaller. */
enum scale {
    FIXED, /* never divided */
    COUNT, /* a number of objects: divided by @count of sim_fields_divide() */
    WORK,  /* work of an object: divided by @work of sim_fields_divide() */
};

struct field {
    const char *name;
    uint16_t offset;
    uint16_t size; /* 1, 4 or 8 bytes */
    enum scale scale;
    uint32_t one_in; /* the field is on in one of this many plans; 1: in every plan */
    enum shape shape;
    uint32_t low; /* range of its value when it is on */
    uint32_t high;
    uint32_t off;   /* its value when it is off */
    uint32_t parts; /* parts of the plan; leaving out any of these parts turns the field off */
};

#define PART(part) SIM_PLAN_PART(part)
#define SCALED(member, scale)                                                                      \
#member, offsetof(OBJECT, member), sizeof(((OBJECT *)0)->member), scale
#define FIELD(member)  SCALED(member, FIXED)
#define RARE_MAX       6000u /* largest probability of a fault, of 65536: a frame in eleven */
#define ALWAYS         65536u
#define CLEAN_CAPACITY 1024u /* more than all pairs ever send: no RNR */
#define FULL           UINT32_MAX

/*    field                           one in, shape, low, high, off, parts */

#define OBJECT struct sim_plan
static const struct field link_fields[] = {
    { FIELD(forever), 2, EVEN, 0, 0, 1, PART(UNNAMED) },
    { SCALED(pair_count, COUNT), 1, SKEWED, 1, SIM_PLAN_PAIRS_MAX, 0, PART(PAIRS) },
    { SCALED(uc_count, COUNT), 2, EVEN, 1, SIM_PLAN_UCS_MAX, 0, PART(UC) },
    { FIELD(party_count), 2, EVEN, 1, SIM_PLAN_PARTIES_MAX, 0, PART(UD) },
    { FIELD(groups), 2, EVEN, 1, 1, 0, PART(GROUPS) | PART(UNNAMED) },
    { FIELD(shared), 2, EVEN, 1, 1, 0, PART(SRQ) },
    { FIELD(xrc), 2, EVEN, 1, 1, 0, PART(SRQ) },
    { FIELD(revokes), 2, EVEN, 1, 1, 0, PART(REVOKE) },
    { FIELD(pauses), 3, EVEN, 1, 1, 0, PART(PAUSE) },
    { FIELD(cq_count), 1, EVEN, 1, 4, 0, 0 },
    { FIELD(cq_events), 2, EVEN, 1, 1, 0, 0 },
    { FIELD(cq_tight), 8, EVEN, 1, 12, 0, PART(TIGHT) },
    { FIELD(cq_tight_all), 8, EVEN, 1, 1, 0, PART(TIGHT) },
    { FIELD(resize_probability), 4, EVEN, 1, 6000, 0, PART(RESIZE) },
    { FIELD(poll_wait_max), 2, SKEWED, 0, 20000, 0, 0 },
    { FIELD(doze_probability), 4, EVEN, 1, 10000, 0, PART(DOZE) },
    { FIELD(doze_max), 1, EVEN, 10, 5000, 0, 0 },
    { FIELD(attacker.wait_max), 4, EVEN, 20, 500, 0, PART(ATTACKER) },
    { FIELD(attacker.repeats), 2, EVEN, 1, 1, 0, PART(ATTACKER) },
    { FIELD(attacked.wait_max), 6, EVEN, 5, 400, 0, PART(ATTACKED) },
};
#undef OBJECT

#define OBJECT struct sim_cable_config
static const struct field cable_fields[] = {
    { FIELD(quirks), 3, EVEN, 0, (1u << SIM_QUIRKS_COUNT) - 1, 0, PART(QUIRKS) },
    { FIELD(faults_from), 4, EVEN, 0, 0, SIM_PLAN_START + URO_MS(1), 0 },
    { FIELD(loss_probability), 4, EVEN, 1, RARE_MAX, 0, PART(LOSE) },
    { FIELD(lose_run), 1, SKEWED, 1, 20, 0, 0 },
    { FIELD(duplicate_probability), 4, EVEN, 1, RARE_MAX, 0, PART(DUPLICATE) },
    { FIELD(corrupt_probability), 4, EVEN, 1, RARE_MAX, 0, PART(CORRUPT) },
    { FIELD(truncate_probability), 4, EVEN, 1, RARE_MAX, 0, PART(TRUNCATE) },
    { FIELD(ce_probability), 4, EVEN, 1, RARE_MAX, 0, PART(CE) },
    { FIELD(late_probability), 4, EVEN, 1, RARE_MAX, 0, PART(LATE) },
    { FIELD(late_max), 1, SKEWED, URO_US(1), URO_US(300), 0, PART(UNNAMED) },
    { FIELD(keep_order), 2, EVEN, 0, 0, 1, PART(LATE) },
    { FIELD(one_way_delay), 1, SKEWED, URO_US(1), URO_US(50), 0, 0 },
    { FIELD(jitter), 2, SKEWED, URO_US(1), URO_US(100), 0, PART(JITTER) },
    { FIELD(ps_per_byte), 2, EVEN, 40, 800, 0, 0 }, /* 200 .. 10 Gbit/s */
    { FIELD(queue_bytes), 2, EVEN, 5000, 65536, 0, PART(QUEUE) },
    { FIELD(partition_from), 1, EVEN, 0, URO_US(5000), 0, 0 },
    { FIELD(partition_every), 4, EVEN, URO_US(1000), URO_US(20000), 0, PART(PARTITION) },
    { FIELD(partition_for), 1, EVEN, URO_US(10), URO_US(800), 0, 0 },
};
#undef OBJECT

#define OBJECT struct sim_host_config
static const struct field host_fields[] = {
    { FIELD(rx_burst), 1, SKEWED, 1, SIM_HOST_BURST_MAX, 0, 0 },
    { FIELD(rx_ring), 4, EVEN, 8, 256, FULL, PART(RING) },
    { FIELD(tx_burst), 1, SKEWED, 1, SIM_HOST_BURST_MAX, 0, 0 },
    { FIELD(tx_gap_max), 2, EVEN, 0, 3000, 0, PART(GAP) },
    { FIELD(tx_stall_probability), 4, EVEN, 1, 8000, 0, PART(STALL) },
    { FIELD(tx_stall_max), 1, EVEN, URO_US(10), URO_US(2000), 0, PART(STALL) },
    { FIELD(threads), 6, EVEN, 1, 1, 0, PART(THREADS) },
    { FIELD(threads_wait), 1, EVEN, 1, 1, 0, PART(UNNAMED) },
    { FIELD(call_per_send), 2, EVEN, 1, 1, 0, 0 },
    { FIELD(engine.mtu), 1, EVEN, UROCE_PATH_MTU_MAX + SIM_PLAN_OVERHEAD, 9000, 0, 0 },
    { FIELD(engine.window), 2, SKEWED, 1, 300, 0, 0 },
    /* A buffer of 64 packets is enough for most windows. */
    { FIELD(engine.reorder_buffer), 2, SKEWED, 0, 16, 64, 0 },
    { FIELD(table_bits), 1, EVEN, 4, 8, 0, 0 },
};
#undef OBJECT

#define OBJECT struct sim_plan_faults
static const struct field faults_fields[] = {
    { FIELD(down_wait_max), 4, EVEN, 500, 30000, 0, PART(DOWN) },
    { FIELD(down_max), 1, EVEN, 1, 3000, 0, 0 },
    { FIELD(jump_wait_max), 4, EVEN, 500, 20000, 0, PART(JUMP) },
    { FIELD(jump_max), 1, EVEN, 10, 40000, 0, PART(JUMP) },
};
#undef OBJECT

#define OBJECT struct sim_plan_pair
static const struct field pair_fields[] = {
    { FIELD(path_mtu), 1, POWER, 8, 12, 0, 0 },
    { SCALED(lives, WORK), 1, SKEWED, 1, 5, 1, PART(UNNAMED) },
    { FIELD(life_max), 1, EVEN, 100, 20000, 0, 0 },
    { FIELD(inject_probability), 2, EVEN, 0, 4000, 0, PART(INJECT) | PART(UNNAMED) },
    { FIELD(v6), 2, EVEN, 1, 1, 0, 0 },
    { FIELD(xrc), 2, EVEN, 1, 1, 0, PART(SRQ) },
    { FIELD(xrc_target), 1, EVEN, 0, 1, 0, 0 },
};
#undef OBJECT

#define OBJECT struct sim_plan_end
static const struct field end_fields[] = {
    { FIELD(send_capacity), 1, SKEWED, 1, 48, 0, 0 },
    { FIELD(recv_capacity), 1, SKEWED, 1, 32, 64, PART(UNNAMED) },
    { FIELD(send_sges), 1, STEEP, 1, UROCE_SGE_MAX, 0, 0 },
    { FIELD(recv_sges), 1, STEEP, 1, UROCE_SGE_MAX, 0, 0 },
    { FIELD(inline_max), 2, SKEWED, 1, UROCE_INLINE_MAX, 0, 0 },
    { FIELD(signal_all), 4, EVEN, 1, 1, 0, 0 },
    { FIELD(signal_probability), 1, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(inline_probability), 1, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(fence_probability), 4, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(solicit_probability), 2, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(batch_max), 1, SKEWED, 1, 16, 0, 0 },
    { FIELD(recv_batch_max), 1, SKEWED, 1, 16, 64, PART(UNNAMED) },
    { FIELD(post_wait_max), 2, SKEWED, 0, 50000, 0, 0 },
    { FIELD(recv_wait_max), 2, SKEWED, 0, 200000, 0, PART(UNNAMED) },
    { FIELD(srq), 3, EVEN, 0, 1, SIM_PLAN_NO_SRQ, PART(SRQ) },
    { SCALED(sends, WORK), 1, EVEN, 8, 60, 0, 0 },
    { FIELD(rd_atomic), 1, SKEWED, 1, 16, 0, 0 },
    { FIELD(min_rnr_timer), 1, EVEN, 1, 10, 0, 0 },
    { FIELD(timeout), 1, EVEN, 0, 2, 0, 0 },
    { FIELD(retry_count), 1, EVEN, 3, 7, 0, 0 },
    { FIELD(rnr_retry), 2, EVEN, 0, 6, 7, 0 },
};

static const struct field unreliable_fields[] = {
    { FIELD(send_capacity), 1, EVEN, 1, 16, 0, 0 },
    { FIELD(recv_capacity), 1, EVEN, 1, 16, 64, PART(UNNAMED) },
    { FIELD(send_sges), 1, EVEN, 1, 5, 0, 0 },
    { FIELD(recv_sges), 1, EVEN, 1, 5, 0, 0 },
    { FIELD(inline_max), 2, EVEN, 1, UROCE_INLINE_MAX, 0, 0 },
    { FIELD(signal_all), 4, EVEN, 1, 1, 0, 0 },
    { FIELD(signal_probability), 1, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(inline_probability), 1, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(solicit_probability), 1, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(batch_max), 1, EVEN, 1, 8, 0, 0 },
    { FIELD(recv_batch_max), 1, EVEN, 1, 8, 0, 0 },
    { FIELD(post_wait_max), 2, EVEN, 0, 50000, 0, 0 },
    { FIELD(recv_wait_max), 2, EVEN, 0, 50000, 0, 0 },
    { FIELD(resume_wait_max), 1, EVEN, 0, 50000, 0, 0 },
    /* UC and UD have no RNR NAK: a message is lost if the shared queue is empty. So these queue
     * pairs use no shared queue on links without faults. */
    { FIELD(srq), 2, EVEN, 0, 0, SIM_PLAN_NO_SRQ, PART(SRQ) | PART(UNNAMED) },
    { SCALED(sends, WORK), 1, EVEN, 4, 40, 0, 0 },
};
#undef OBJECT

#define OBJECT struct sim_plan_srq
static const struct field srq_fields[] = {
    { FIELD(wild), 4, EVEN, 1, 1, 0, PART(UNNAMED) },
    { FIELD(capacity_max), 1, SKEWED, 1, 64, CLEAN_CAPACITY, PART(UNNAMED) },
    { FIELD(spare), 1, EVEN, 64, 96, 0, 0 }, /* each life that ends may lose one receive */
    { FIELD(sges), 1, EVEN, 1, 6, 0, 0 },
    { FIELD(batch_max), 1, EVEN, 1, 16, CLEAN_CAPACITY, PART(UNNAMED) },
    { FIELD(wait_max), 2, EVEN, 0, 100000, 0, PART(UNNAMED) },
    { FIELD(limit_probability), 2, EVEN, 0, ALWAYS, 0, 0 },
    { FIELD(resize_probability), 2, EVEN, 0, 20000, 0, PART(UNNAMED) },
    { FIELD(wrong_probability), 1, EVEN, 1, 2000, 0, 0 },
    { FIELD(replace_probability), 2, EVEN, 0, 20000, 0, PART(UNNAMED) },
};
#undef OBJECT

#define OBJECT struct sim_plan_cm
static const struct field cm_fields[] = {
    { FIELD(callers[0]), 2, EVEN, 1, 3, 0, PART(CM) },
    { FIELD(callers[1]), 1, EVEN, 0, 3, 0, PART(CM) },
    { SCALED(attempts, WORK), 1, EVEN, 1, 12, 0, PART(UNNAMED) },
    { FIELD(connections), 2, EVEN, 4, 12, 64, 0 },
    { FIELD(backlog), 2, EVEN, 1, 3, 16, 0 },
    { FIELD(notices), 2, EVEN, 1, 1, 0, 0 },
    { FIELD(v6), 2, EVEN, 1, 1, 0, 0 },
    { FIELD(path_mtu), 1, POWER, 8, 12, 0, 0 },
    { FIELD(message_count), 1, EVEN, 0, 8, 0, 0 },
    { FIELD(call_wait_max), 1, EVEN, URO_US(1), URO_US(3000), 0, 0 },
    { FIELD(turn_wait_max), 1, EVEN, URO_US(1), URO_US(2000), 0, 0 },
    { FIELD(stay_max), 1, EVEN, 100, 30000, 0, 0 },
    { FIELD(shut_wait_max), 2, EVEN, 1, 20000, 0, PART(UNNAMED) },
    { FIELD(leave_probability), 2, EVEN, 1, 40000, 0, PART(UNNAMED) },
    { FIELD(reject_probability), 2, EVEN, 1, 20000, 0, PART(UNNAMED) },
    { FIELD(query_probability), 2, EVEN, 1, 40000, 0, 0 },
    { FIELD(nobody_probability), 2, EVEN, 1, 10000, 0, PART(UNNAMED) },
    { FIELD(self_probability), 2, EVEN, 1, 20000, 0, 0 },
    { FIELD(patient_probability), 2, EVEN, 0, ALWAYS, 0, PART(UNNAMED) },
    { FIELD(absent_probability), 4, EVEN, 1, 10000, 0, PART(UNNAMED) },
    { FIELD(slow_probability), 2, EVEN, 1, 30000, 0, PART(UNNAMED) },
    { FIELD(retries), 1, EVEN, 3, 15, 0, 0 },
    { FIELD(response_timeout), 1, EVEN, 8, 11, 0, 0 }, /* 8 is 1 ms, as in Linux */
    { FIELD(ack_timeout), 1, EVEN, 0, 2, 0, 0 },
};
#undef OBJECT

#define OBJECT struct sim_plan_attacked
static const struct field attacked_fields[] = {
    { FIELD(pair.path_mtu), 1, POWER, 8, 11, 0, 0 },
    { FIELD(pair.message_max), 1, EVEN, 8, 2048, 0, 0 },
    { FIELD(pair.v6), 2, EVEN, 1, 1, 0, 0 },
    { FIELD(pair.ends[0].send_capacity), 1, EVEN, 1, 8, 0, 0 },
    { FIELD(pair.ends[0].recv_capacity), 1, EVEN, 1, 8, 0, 0 },
    { FIELD(pair.ends[0].send_sges), 1, EVEN, 1, 4, 0, 0 },
    { FIELD(pair.ends[0].recv_sges), 1, EVEN, 1, 4, 0, 0 },
};
#undef OBJECT

#define TABLE(name)                                                                                \
    {                                                                                              \
        name##_fields, URO_ARRAY_LEN(name##_fields)                                                \
    }

static const struct {
    const struct field *fields;
    size_t count;
} tables[SIM_FIELDS_KINDS] = {
    [SIM_FIELDS_LINK] = TABLE(link),
    [SIM_FIELDS_CABLE] = TABLE(cable),
    [SIM_FIELDS_HOST] = TABLE(host),
    [SIM_FIELDS_FAULTS] = TABLE(faults),
    [SIM_FIELDS_PAIR] = TABLE(pair),
    [SIM_FIELDS_END] = TABLE(end),
    [SIM_FIELDS_UNRELIABLE] = TABLE(unreliable),
    [SIM_FIELDS_SRQ] = TABLE(srq),
    [SIM_FIELDS_CM] = TABLE(cm),
    [SIM_FIELDS_ATTACKED] = TABLE(attacked),
};

static uint64_t get(const struct field *field, const void *object)
{
    const void *member = (const uint8_t *)object + field->offset;

    switch (field->size) {
    case 1:
        return *(const uint8_t *)member;
    case 4:
        return *(const uint32_t *)member;
    default:
        return *(const uint64_t *)member;
    }
}

static void put(const struct field *field, void *object, uint64_t value)
{
    void *member = (uint8_t *)object + field->offset;

    if (field->size == 1)
        *(uint8_t *)member = (uint8_t)value;
    else if (field->size == 4)
        *(uint32_t *)member = (uint32_t)value;
    else
        *(uint64_t *)member = value;
}

static uint32_t draw(const struct field *field, struct uro_rng *rng)
{
    switch (field->shape) {
    case EVEN:
        return sim_world_between(rng, field->low, field->high);
    case SKEWED:
        return sim_fields_skewed(rng, field->low, field->high);
    case STEEP:
        return sim_fields_skewed(rng, field->low, sim_world_between(rng, field->low, field->high));
    case POWER:
        return 1u << sim_world_between(rng, field->low, field->high);
    }
    return 0;
}

void sim_fields_draw(enum sim_fields_kind kind, void *object, struct uro_rng *rng, uint32_t without)
{
    for (size_t i = 0; i < tables[kind].count; i++) {
        const struct field *field = &tables[kind].fields[i];
        bool on = field->one_in == 1 || uro_rng_below(rng, field->one_in) == 0;
        uint32_t value = draw(field, rng);
        put(field, object, on && !(field->parts & without) ? value : field->off);
    }
}

void sim_fields_clear(enum sim_fields_kind kind, void *object, uint32_t without)
{
    for (size_t i = 0; i < tables[kind].count; i++)
        if (tables[kind].fields[i].parts & without)
            put(&tables[kind].fields[i], object, tables[kind].fields[i].off);
}

void sim_fields_divide(enum sim_fields_kind kind, void *object, uint32_t count, uint32_t work)
{
    for (size_t i = 0; i < tables[kind].count; i++) {
        const struct field *field = &tables[kind].fields[i];
        uint32_t by = field->scale == COUNT ? count : field->scale == WORK ? work : 1;
        put(field, object, (get(field, object) + by - 1) / by);
    }
}

void sim_fields_text(enum sim_fields_kind kind, const void *object, char *text, size_t size)
{
    for (size_t i = 0; i < tables[kind].count; i++) {
        const struct field *field = &tables[kind].fields[i];
        if (field->parts != 0 && get(field, object) != field->off)
            sim_world_append(text, size, " %s %" PRIu64, field->name, get(field, object));
    }
}

static const char *const names[] = {
#define NAME(part, name) name,
    SIM_PLAN_PARTS(NAME)
#undef NAME
};

bool sim_part(const char *name, size_t length, uint32_t *parts)
{
    for (size_t i = 0; sim_part_name(i) != NULL; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            *parts |= 1u << i;
            return true;
        }
    }
    return false;
}

const char *sim_part_name(size_t number)
{
    return number < URO_ARRAY_LEN(names) ? names[number] : NULL;
}
