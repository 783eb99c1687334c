/* SPDX-License-Identifier: BSD-3-Clause */
/* msg.c - see msg.h. */
#include "netlink/msg.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

#define ATTR_HEADER  sizeof(struct nlattr)
#define FIRST_SIZE   ((size_t)4096)
#define ALIGNED(n)   (((n) + 3) & ~(size_t)3)
#define LENGTH_PLACE offsetof(struct nlmsghdr, nlmsg_len)

/* Appends @length bytes, and zeros up to the alignment. Returns the offset of the bytes. */
static size_t append(struct uro_netlink_list *list, const void *bytes, size_t length)
{
    const size_t place = list->used, needed = place + ALIGNED(length);

    if (list->failed)
        return 0;
    if (needed > list->size) {
        const size_t size = 2 * needed > FIRST_SIZE ? 2 * needed : FIRST_SIZE;
        uint8_t *more = realloc(list->bytes, size);
        if (more == NULL) {
            list->failed = true;
            return 0;
        }
        list->bytes = more;
        list->size = size;
    }
    memset(list->bytes + place, 0, needed - place);
    if (length > 0)
        memcpy(list->bytes + place, bytes, length);
    list->used = needed;
    return place;
}

void uro_netlink_begin(struct uro_netlink_list *list, uint16_t type, uint16_t flags, uint32_t seq,
                       uint32_t port_id)
{
    const struct nlmsghdr header = {
        .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = seq, .nlmsg_pid = port_id
    };

    list->open = append(list, &header, sizeof header);
}

size_t uro_netlink_length(const struct uro_netlink_list *list)
{
    return list->failed ? 0 : list->used - list->open;
}

void uro_netlink_end(struct uro_netlink_list *list)
{
    const uint32_t length = (uint32_t)uro_netlink_length(list);

    if (!list->failed)
        memcpy(list->bytes + list->open + LENGTH_PLACE, &length, sizeof length);
}

void uro_netlink_put_raw(struct uro_netlink_list *list, const void *bytes, size_t length)
{
    (void)append(list, bytes, length);
}

void uro_netlink_put(struct uro_netlink_list *list, uint16_t type, const void *value, size_t length)
{
    const struct nlattr header = { .nla_len = (uint16_t)(ATTR_HEADER + length), .nla_type = type };

    URO_ASSERT(ATTR_HEADER + length <= UINT16_MAX);
    (void)append(list, &header, sizeof header);
    (void)append(list, value, length);
}

void uro_netlink_put_u8(struct uro_netlink_list *list, uint16_t type, uint8_t value)
{
    uro_netlink_put(list, type, &value, sizeof value);
}

void uro_netlink_put_u32(struct uro_netlink_list *list, uint16_t type, uint32_t value)
{
    uro_netlink_put(list, type, &value, sizeof value);
}

void uro_netlink_put_u64(struct uro_netlink_list *list, uint16_t type, uint64_t value)
{
    uro_netlink_put(list, type, &value, sizeof value);
}

void uro_netlink_put_string(struct uro_netlink_list *list, uint16_t type, const char *value)
{
    uro_netlink_put(list, type, value, strlen(value) + 1);
}

size_t uro_netlink_nest(struct uro_netlink_list *list, uint16_t type)
{
    const struct nlattr header = { .nla_len = ATTR_HEADER,
                                   .nla_type = (uint16_t)(type | NLA_F_NESTED) };

    return append(list, &header, sizeof header);
}

void uro_netlink_nest_end(struct uro_netlink_list *list, size_t place)
{
    struct nlattr header;

    if (list->failed)
        return;
    URO_ASSERT(list->used - place <= UINT16_MAX);
    memcpy(&header, list->bytes + place, sizeof header);
    header.nla_len = (uint16_t)(list->used - place);
    memcpy(list->bytes + place, &header, sizeof header);
}

int uro_netlink_next(const uint8_t **pos, size_t *left, struct uro_netlink_attr *attr)
{
    struct nlattr header;

    if (*left == 0)
        return 0;
    if (*left < sizeof header)
        return -EINVAL;
    memcpy(&header, *pos, sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > *left)
        return -EINVAL;
    attr->type = (uint16_t)(header.nla_type & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER));
    attr->length = header.nla_len - sizeof header;
    attr->value = *pos + sizeof header;
    const size_t step = ALIGNED((size_t)header.nla_len);
    *pos += step < *left ? step : *left;
    *left -= step < *left ? step : *left;
    return 1;
}

bool uro_netlink_get_u32(const struct uro_netlink_attr *attr, uint32_t *value)
{
    if (attr->length != sizeof *value)
        return false;
    memcpy(value, attr->value, sizeof *value);
    return true;
}

bool uro_netlink_get_string(const struct uro_netlink_attr *attr, char *text, size_t size)
{
    const size_t length = strnlen((const char *)attr->value, attr->length);

    if (length >= size || length + 1 < attr->length)
        return false;
    memcpy(text, attr->value, length);
    text[length] = '\0';
    return true;
}
