/* SPDX-License-Identifier: BSD-3-Clause */
/* msg.h - builds messages of Linux netlink, and reads the attributes of a received message.
 *
 * A message is a header of 16 bytes and attributes. An attribute has a length, a type and a value,
 * which may be a list of attributes. Everything is in host byte order and aligned to 4 bytes.
 */
#pragma once

#include "base/defs.h"

/* Messages, one after the other. All zero is the empty list. When an allocation fails, `failed` is
 * set, and all functions do nothing from then on. The owner frees `bytes`. */
struct uro_netlink_list {
    uint8_t *bytes;
    size_t used, size;
    size_t open; /* offset of the open message; valid between begin and end */
    bool failed;
};

/* Begin and end a message. Add its attributes in between. */
void uro_netlink_begin(struct uro_netlink_list *list, uint16_t type, uint16_t flags, uint32_t seq,
                       uint32_t port_id);
void uro_netlink_end(struct uro_netlink_list *list);

/* Returns the length of the open message in bytes. */
size_t uro_netlink_length(const struct uro_netlink_list *list);

/* Adds bytes that are not an attribute to the open message, such as a family header. */
void uro_netlink_put_raw(struct uro_netlink_list *list, const void *bytes, size_t length);

/* Add an attribute to the open message. A string is sent with its NUL. */
void uro_netlink_put(struct uro_netlink_list *list, uint16_t type, const void *value,
                     size_t length);
void uro_netlink_put_u8(struct uro_netlink_list *list, uint16_t type, uint8_t value);
void uro_netlink_put_u32(struct uro_netlink_list *list, uint16_t type, uint32_t value);
void uro_netlink_put_u64(struct uro_netlink_list *list, uint16_t type, uint64_t value);
void uro_netlink_put_string(struct uro_netlink_list *list, uint16_t type, const char *value);

/* Begins an attribute whose value is a list of attributes. Returns its offset, for
 * uro_netlink_nest_end(). */
URO_NODISCARD size_t uro_netlink_nest(struct uro_netlink_list *list, uint16_t type);
void uro_netlink_nest_end(struct uro_netlink_list *list, size_t place);

struct uro_netlink_attr {
    uint16_t type; /* without the flags of nested attributes and of byte order */
    size_t length;
    const uint8_t *value; /* not aligned */
};

/* Reads the attribute at *@pos, where *@left bytes are left, and moves both behind the attribute.
 * Returns 1, 0 at the end, or -EINVAL if the attribute is cut off. */
URO_NODISCARD int uro_netlink_next(const uint8_t **pos, size_t *left,
                                   struct uro_netlink_attr *attr);

/* Returns whether @attr is a number of that size, and reads it to @value. */
URO_NODISCARD bool uro_netlink_get_u32(const struct uro_netlink_attr *attr, uint32_t *value);

/* Copies a string, which may lack its NUL, to @text of @size bytes. Returns false if it is longer,
 * or has a NUL inside. */
URO_NODISCARD bool uro_netlink_get_string(const struct uro_netlink_attr *attr, char *text,
                                          size_t size);
