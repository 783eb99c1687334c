/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.h - the file in which a process shows the state of one device to other processes.
 *
 * Each process has one file for each engine of each device that it runs. The engine writes its
 * record directly into the mapped file. This needs no copy and no system call, and the record
 * remains when the process is killed.
 *
 *     /dev/shm/uroce-stats-UID/         mode 0700; or XDG_RUNTIME_DIR/uroce-stats,
 *                                       or /tmp/uroce-stats-UID;
 *                                       or the directory that UROCE_STATE_DIR names
 *         NAME-GUID.PID                 a process that runs the device NAME, and holds a lock on
 *                                       this file; PID has more digits for further engines
 *         NAME-GUID.PID.ended           a process that has ended; kept for `uroce why` if
 *                                       a queue pair failed or a call was refused
 *         NAME-GUID.VERSION.total       sums of the counters of the processes that have ended
 *
 * Only the user of the process, and root, can read these files. Two devices of one name are the
 * same device if their GUIDs, and therefore their MAC addresses, are equal.
 */
#pragma once

#include <stdatomic.h>

#include "core/record.h"
#include "stats/table.h"
#include "wire/gid.h"

#define URO_STATS_MAGIC    "uroce-st"
#define URO_STATS_LAYOUT   9u /* raise it when a struct of this file changes */
#define URO_STATS_NAME_MAX 32u
#define URO_STATS_LINK_MAX 128u
#define URO_STATS_GIDS     16u
#define URO_STATS_NDEV_MAX 16u /* bytes of the name of an interface, with its NUL */
#define URO_STATS_CARD_MAX 64u /* bytes of a text of a card, with its NUL */

enum uro_stats_state {
    URO_STATS_STARTING, /* the values are not complete */
    URO_STATS_RUNNING,
    URO_STATS_ENDED, /* closed, or a total; a process that was killed leaves another state */
};

/* The beginning of the file. A reader reads nothing after `pid` in a file of another version or
 * layout. */
struct uro_stats_header {
    char magic[8];     /* URO_STATS_MAGIC, without NUL */
    uint32_t layout;   /* URO_STATS_LAYOUT */
    uint32_t size;     /* bytes of struct uro_stats_page */
    char version[24];  /* version of uroce, NUL-terminated */
    int32_t pid;       /* PID in the PID namespace of the process */
    atomic_uint state; /* enum uro_stats_state */
};

#define URO_STATS_REFUSALS    64u
#define URO_STATS_CALL_MAX    32u
#define URO_STATS_REFUSAL_MAX 256u

/* A refused call of the program. Any thread writes entries. In a torn entry, `number` and
 * `number_again` differ. */
struct uro_stats_refusal {
    atomic_uint_least64_t number;     /* from 1; 0: the entry is empty, or is being written */
    uint64_t time;                    /* wall clock, ns since 1970 */
    int32_t error;                    /* errno */
    atomic_uint repeats;              /* further refusals with the same text right after it */
    char call[URO_STATS_CALL_MAX];    /* "ibv_modify_qp", NUL-terminated */
    char text[URO_STATS_REFUSAL_MAX]; /* the reason and the remedy, NUL-terminated */
    atomic_uint_least64_t number_again;
};

#define URO_STATS_IMPAIR_MAX    4096u /* bytes of the text of a plan, with its NUL */
#define URO_STATS_IMPAIR_COUNTS 8u

/* The plan of impair=, which `uroce impair` changes. Functions: impair_page.h. */
struct uro_stats_impair {
    atomic_uint sequence; /* 0: the device has no impair=; odd: a process is writing `text` */
    atomic_uint applied;  /* `sequence` of the plan in use */
    atomic_uint_least64_t counts[URO_STATS_IMPAIR_COUNTS];     /* enum uro_impair_count */
    atomic_uint text[URO_STATS_IMPAIR_MAX / sizeof(unsigned)]; /* characters, NUL-terminated */
};

/* Values in /sys of the network card that the device imitates (like=). A text is NUL-terminated; ""
 * means unknown. */
struct uro_stats_card {
    uint32_t given;        /* 1: the device has like=; else 0, and the other fields are empty */
    uint32_t hw_ver_known; /* 1: hw_ver is known; else 0 */
    uint32_t hw_ver;
    char fw_ver[URO_STATS_CARD_MAX];
    char hca_type[URO_STATS_CARD_MAX];
    char board_id[URO_STATS_CARD_MAX];
};

struct uro_stats_page {
    struct uro_stats_header header;
    uint64_t started;                 /* wall clock, ns since 1970 */
    uint64_t clock_offset;            /* wall clock minus the engine's clock, ns */
    char program[URO_STATS_NAME_MAX]; /* name of the program, NUL-terminated */
    char device[URO_STATS_NAME_MAX];  /* name of the device, NUL-terminated */
    char link[URO_STATS_LINK_MAX];    /* the link, as configured; truncated if it is longer */
    uint64_t guid;                    /* node GUID; its first byte is the top 8 bits */
    uint32_t gid_count;
    uint32_t roce_v1; /* 1: programs see each GID twice, for RoCE v1 and v2; else 0 */
    uint32_t engine;  /* index of the engine in its device; each engine has a file */
    struct uro_gid gids[URO_STATS_GIDS];
    char ndevs[URO_STATS_GIDS][URO_STATS_NDEV_MAX]; /* interface of each GID, or "" */
    struct uro_stats_card card;
    atomic_uint link_up;    /* 0 or 1 */
    atomic_uint mtu;        /* current MTU of the link, bytes of an IP packet */
    atomic_uint speed;      /* speed of the port, Mb/s; 0: not known yet */
    int32_t added_pid;      /* in a total: `pid` of the last file that was added to it */
    uint64_t added_started; /* in a total: `started` of that file */
    struct uro_stats_table table;
    _Alignas(64) struct uro_record record;
    struct uro_stats_impair impair;
    atomic_uint_least64_t refusal_count;
    struct uro_stats_refusal refusals[URO_STATS_REFUSALS]; /* number % URO_STATS_REFUSALS */
};
