/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - a cable between two devices of one process: the link "cable,name=TEXT". A cable joins
 * two devices with the same name. The link is up while both devices run and neither end is
 * unplugged.
 *
 * Each frame is copied once, into a queue of the receiver. The options of the sender choose the
 * faults of the frame (faults.h). Each function may be called from any thread.
 */
#pragma once

#include "engine/port.h"

#define URO_CABLE_SLOTS 1024u /* maximum number of frames in flight in one direction */

/* Counters of the frames that one end sent. X(enumerator, "name", "text") */
#define URO_CABLE_COUNTS(X)                                                                        \
    X(SENT, "cable_sent", "frames sent into the cable")                                            \
    X(LOST, "cable_lost", "frames that the cable lost on purpose")                                 \
    X(DUPLICATED, "cable_duplicated", "frames that the cable delivered twice on purpose")          \
    X(REORDERED, "cable_reordered",                                                                \
      "frames that the cable delivered after the next frame on purpose")                           \
    X(NOWHERE, "cable_nowhere", "frames sent while the cable was unplugged or had no other end")

enum uro_cable_count {
#define X(id, name, text) URO_CABLE_##id,
    URO_CABLE_COUNTS(X)
#undef X
        URO_CABLE_COUNT
};

/* Opens an end of a cable. */
uro_port_open_fn uro_cable_port_open;

extern const struct uro_port_driver uro_cable_driver; /* faults.c */

/* Changes the faults of the frames that the device @device sends. @options has options as in
 * faults.h, without "cable," and name=. Options that @options does not have keep their values. With
 * seed= the count of frames restarts at 0. Returns 0 or
 *   -ENODEV  no cable is open for the device
 *   -EINVAL  an option is wrong: @error has a message */
URO_NODISCARD int uro_cable_port_set(const char *device, const char *options,
                                     char error[static URO_PORT_ERROR_MAX]);

/* Reads a counter. Returns 0, or -ENODEV when no cable is open for the device. */
URO_NODISCARD int uro_cable_port_count(const char *device, enum uro_cable_count which,
                                       uint64_t *value);
