/* SPDX-License-Identifier: BSD-3-Clause */
/* card.h - like= of a device: the network card that the device presents to programs.
 *
 * A card is data: a text with one `key = value` per line, `#` comments, and `unknown` for a value
 * that is not public. lib/config/cards/ has the built-in cards. docs/CARDS.md describes the keys. A
 * card only narrows what uroce can do: programs see uroce's limit if that of the card is higher.
 */
#pragma once

#include <stdio.h>

#include "base/defs.h"

#define URO_CARD_TEXT_MAX  64u   /* bytes of a text, with its NUL */
#define URO_CARD_ERROR_MAX 320u  /* bytes of a message */
#define URO_CARD_LINES_MAX 1000u /* lines of a file */

/* The numbers of a card. X(enumerator, "key", smallest value, largest value). */
#define URO_CARD_NUMBERS_X(X)                                                                      \
    X(VENDOR_ID, "vendor_id", 0, UINT32_MAX)                                                       \
    X(VENDOR_PART_ID, "vendor_part_id", 0, UINT32_MAX)                                             \
    X(HW_VER, "hw_ver", 0, UINT32_MAX)                                                             \
    X(GUID_PREFIX, "guid_prefix", 0, UINT64_C(0xffffffffff))                                       \
    X(DEVICE_CAP_FLAGS, "device_cap_flags", 0, UINT32_MAX)                                         \
    X(PAGE_SIZE_CAP, "page_size_cap", 1, UINT64_MAX)                                               \
    X(MAX_MR_SIZE, "max_mr_size", 1, UINT64_MAX)                                                   \
    X(MAX_QP, "max_qp", 1, INT32_MAX)                                                              \
    X(MAX_QP_WR, "max_qp_wr", 1, INT32_MAX)                                                        \
    X(MAX_SGE, "max_sge", 1, INT32_MAX)                                                            \
    X(MAX_SEND_SGE, "max_send_sge", 1, INT32_MAX)                                                  \
    X(MAX_RECV_SGE, "max_recv_sge", 1, INT32_MAX)                                                  \
    X(MAX_SGE_RD, "max_sge_rd", 1, INT32_MAX)                                                      \
    X(MAX_INLINE, "max_inline_data", 0, INT32_MAX)                                                 \
    X(MAX_CQ, "max_cq", 1, INT32_MAX)                                                              \
    X(MAX_CQE, "max_cqe", 1, INT32_MAX)                                                            \
    X(MAX_MR, "max_mr", 1, INT32_MAX)                                                              \
    X(MAX_MW, "max_mw", 0, INT32_MAX)                                                              \
    X(MAX_PD, "max_pd", 1, INT32_MAX)                                                              \
    X(MAX_AH, "max_ah", 0, INT32_MAX)                                                              \
    X(MAX_SRQ, "max_srq", 0, INT32_MAX)                                                            \
    X(MAX_SRQ_WR, "max_srq_wr", 0, INT32_MAX)                                                      \
    X(MAX_SRQ_SGE, "max_srq_sge", 0, INT32_MAX)                                                    \
    X(MAX_QP_RD_ATOM, "max_qp_rd_atom", 1, UINT8_MAX)                                              \
    X(MAX_QP_INIT_RD_ATOM, "max_qp_init_rd_atom", 1, UINT8_MAX)                                    \
    X(MAX_RES_RD_ATOM, "max_res_rd_atom", 0, INT32_MAX)                                            \
    X(MAX_MCAST_GRP, "max_mcast_grp", 0, INT32_MAX)                                                \
    X(MAX_MCAST_QP_ATTACH, "max_mcast_qp_attach", 0, INT32_MAX)                                    \
    X(MAX_MSG_SZ, "max_msg_sz", 1, UINT32_MAX)                                                     \
    X(GID_TBL_LEN, "gid_tbl_len", 1, UINT16_MAX)                                                   \
    X(ACK_DELAY, "local_ca_ack_delay", 0, 31)

enum uro_card_number {
#define X(id, key, least, most) URO_CARD_##id,
    URO_CARD_NUMBERS_X(X)
#undef X
        URO_CARD_NUMBERS
};

/* Features that a card may lack. X(enumerator, "word", default errno, "name for people"). */
#define URO_CARD_MISSING_X(X)                                                                      \
    X(SRQ, "srq", EOPNOTSUPP, "shared receive queues")                                             \
    X(XRC, "xrc", EOPNOTSUPP, "XRC")                                                               \
    X(UC, "uc", EOPNOTSUPP, "UC queue pairs")                                                      \
    X(UD, "ud", EOPNOTSUPP, "UD queue pairs")                                                      \
    X(MW, "mw", EOPNOTSUPP, "memory windows")                                                      \
    X(MULTICAST, "multicast", EOPNOTSUPP, "multicast")                                             \
    X(ODP, "odp", EOPNOTSUPP, "on-demand memory")                                                  \
    X(DM, "dm", EOPNOTSUPP, "device memory")                                                       \
    X(WR_API, "wr_api", EOPNOTSUPP, "ibv_wr_*()")                                                  \
    X(CQ_EX, "cq_ex", EOPNOTSUPP, "ibv_create_cq_ex()")                                            \
    X(TIMESTAMPS, "timestamps", EOPNOTSUPP, "completion timestamps")                               \
    X(RESIZE_CQ, "resize_cq", EOPNOTSUPP, "ibv_resize_cq()")                                       \
    X(REREG_MR, "rereg_mr", EOPNOTSUPP, "ibv_rereg_mr()")                                          \
    X(TD, "td", EOPNOTSUPP, "thread domains")                                                      \
    X(NULL_MR, "null_mr", EOPNOTSUPP, "ibv_alloc_null_mr()")                                       \
    X(ATOMICS, "atomics", EINVAL, "atomic operations")                                             \
    X(WRITE_IMM, "write_imm", EINVAL, "RDMA_WRITE_WITH_IMM")                                       \
    X(SEND_INV, "send_inv", EINVAL, "SEND_WITH_INV")                                               \
    X(LOCAL_INV, "local_inv", EINVAL, "LOCAL_INV")                                                 \
    X(FLUSH, "flush", EOPNOTSUPP, "FLUSH")                                                         \
    X(ATOMIC_WRITE, "atomic_write", EOPNOTSUPP, "ATOMIC_WRITE")

enum uro_card_missing {
#define X(id, word, error, name) URO_CARD_NO_##id,
    URO_CARD_MISSING_X(X)
#undef X
        URO_CARD_MISSING
};

/* The sizes that a card grants for a wanted number of work requests. */
enum uro_card_grants {
    URO_CARD_GRANTS_OWN, /* unknown: as uroce, the next power of two */
    URO_CARD_GRANTS_EXACT,
    URO_CARD_GRANTS_POWER,       /* the next power of two */
    URO_CARD_GRANTS_POWER_LESS_1 /* one less than a power of two */
};

/* The errno of a registration of more than max_mr_size bytes. */
enum uro_card_long_mr {
    URO_CARD_LONG_MR_EINVAL, /* also if the card's errno is unknown */
    URO_CARD_LONG_MR_ENOMEM
};

struct uro_card {
    char name[URO_CARD_TEXT_MAX];  /* built-in name, or name of the file; "": no card */
    char title[URO_CARD_TEXT_MAX]; /* name of the card; "": unknown */
    char fw_ver[URO_CARD_TEXT_MAX];
    char hca_type[URO_CARD_TEXT_MAX];
    char board_id[URO_CARD_TEXT_MAX];
    uint64_t numbers[URO_CARD_NUMBERS];
    uint64_t known;                    /* bit i: numbers[i] is known */
    uint8_t missing[URO_CARD_MISSING]; /* errno of a missing feature; 0: the card has it */
    uint32_t speed;                    /* speed of the port, Mb/s; 0: unknown */
    bool roce_v1;                      /* the GID table has each address for v1 and for v2 */
    enum uro_card_grants grants;
    enum uro_card_long_mr long_mr;
};

/* A built-in card. gen_cards.py makes the table from lib/config/cards/, in the order of names. */
struct uro_card_text {
    const char *name, *text;
};
extern const struct uro_card_text uro_card_texts[];
extern const unsigned uro_card_text_count;

/* Returns the built-in card with this name or alternative name, or NULL. */
const struct uro_card_text *uro_card_text_find(const char *name);

/* Reads the value of like=: a built-in name, @FILE, or a path with a slash. Returns NULL, or the
 * error message, for which @error has room. */
const char *uro_card_read(struct uro_card *card, const char *value,
                          char error[static URO_CARD_ERROR_MAX]);

/* Reads a card from a stream. @where is its name in messages. Returns the same as
 * uro_card_read(). */
const char *uro_card_parse(struct uro_card *card, FILE *in, const char *where,
                           char error[static URO_CARD_ERROR_MAX]);

/* Returns whether the device has like=. */
static inline bool uro_card_given(const struct uro_card *card)
{
    return card->name[0] != '\0';
}

static inline bool uro_card_knows(const struct uro_card *card, enum uro_card_number number)
{
    return (card->known >> number & 1) != 0;
}

/* Returns the card's value, or @own if the card has none. */
static inline uint64_t uro_card_value(const struct uro_card *card, enum uro_card_number number,
                                      uint64_t own)
{
    return uro_card_knows(card, number) ? card->numbers[number] : own;
}

/* Returns the lower one of the card's limit and @own. */
static inline uint64_t uro_card_limit(const struct uro_card *card, enum uro_card_number number,
                                      uint64_t own)
{
    const uint64_t value = uro_card_value(card, number, own);

    return value < own ? value : own;
}

/* Returns the number of work requests to grant, at most @most, if the program wants @wanted. A
 * @wanted above @most stays as it is. */
uint32_t uro_card_grant(const struct uro_card *card, uint32_t wanted, uint32_t most);

/* Returns the key of a number, such as "max_qp". */
const char *uro_card_key(enum uro_card_number number);

/* Returns the word of a missing feature, such as "srq", and its name for people. */
const char *uro_card_missing_word(enum uro_card_missing what);
const char *uro_card_missing_name(enum uro_card_missing what);
