/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.h - turns the rows of a process into the objects that nldev.h lists. */
#pragma once

#include "netlink/nldev.h"
#include "stats/table_reader.h"

/* Appends an object of @kind to the device. Returns NULL when out of memory: the number of such
 * objects is then unknown. */
URO_NODISCARD struct uro_nldev_object *uro_nldev_add_object(struct uro_nldev_device *device,
                                                            enum uro_nldev_kind kind);

/* Sets `known` for each kind of object that is made from the rows of processes. */
void uro_nldev_set_rows_known(struct uro_nldev_device *device, bool known);

/* Adds the objects of the process @pid. The numbers of objects become unknown when out of memory,
 * or if the process has more objects than rows. There are no rows of protection domains: a domain
 * is listed if a queue pair or a memory region belongs to it. */
void uro_nldev_add_rows(struct uro_nldev_device *device, uint32_t pid,
                        const struct uro_stats_rows *rows);

/* Sorts the objects of each kind by their numbers. The number is the first field of an object. */
void uro_nldev_sort_objects(struct uro_nldev_device *device);
