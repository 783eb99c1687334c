/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - lines on stderr about failures of queue pairs and refused calls: log=none|errors|all.
 *
 * A process prints each text once and at most URO_LOG_LINES lines in a second, whatever happens.
 * `uroce why` shows the rest.
 */
#pragma once

#include "host/host.h"

#define URO_LOG_LINES  8u   /* lines of a process in URO_LOG_PERIOD */
#define URO_LOG_TEXTS  256u /* texts that are remembered; afterwards only the rate is limited */
#define URO_LOG_PERIOD URO_MS(1000)

/* Prints "uroce: DEVICE: TEXT" if the rate allows. Thread: any. */
URO_PRINTF(2) void uro_log_line(const struct uro_device *device, const char *format, ...);

/* Prints how many lines were left out since the last line, if any. */
void uro_log_end(const struct uro_device *device);

/* Records and prints that the call @call was refused with the errno @error. @probe: a call by which
 * correct programs find out what uroce has. Only log=all prints probes; without log=all and like=
 * they are not recorded either. Thread: any. */
void uro_log_refusal(struct uro_device *device, bool probe, int error, const char *call,
                     const char *text);

/* Completes the records of new failures of queue pairs, and prints them. Engine lock held. */
void uro_log_failures(struct uro_device *device);
