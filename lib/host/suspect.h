/* SPDX-License-Identifier: BSD-3-Clause */
/* suspect.h - notices when somebody guesses: counts of what an honest peer hardly ever sends.
 *
 * What is guessed wrongly changes nothing but a counter; a person should hear of it all the same,
 * because who guesses long enough guesses right. docs/SECURITY.md says what can be done.
 */
#pragma once

#include "base/counters.h"
#include "base/time.h"

#define URO_SUSPECT_KINDS    10u
#define URO_SUSPECT_INTERVAL URO_MS(10000)  /* in which so many of a kind are too many: */
#define URO_SUSPECT_MOST     1000u          /* honest peers that fail leave a few hundred behind */
#define URO_SUSPECT_QUIET    URO_MS(600000) /* how long nothing more is said of a kind */
#define URO_SUSPECT_TEXT_MAX 256u

struct uro_suspect {
    uro_time since; /* begin of the interval; 0: none has begun */
    uint64_t before[URO_SUSPECT_KINDS];
    uro_time told[URO_SUSPECT_KINDS]; /* 0: never */
};

/* Looks at the counters, as often as its caller likes. True when there is something to say, one
 * line in @text; then it is to be called again, for there may be more. */
bool uro_suspect_look(struct uro_suspect *suspect, const struct uro_counters *counters,
                      uro_time now, char text[static URO_SUSPECT_TEXT_MAX]);
