/* SPDX-License-Identifier: BSD-3-Clause */
/* list.h - intrusive doubly linked list with a head. A zero-initialised link is in no list. */
#pragma once

#include "base/defs.h"

struct uro_link {
    struct uro_link *next;
    struct uro_link *prev;
};

struct uro_list {
    struct uro_link head;
};

static inline void uro_list_init(struct uro_list *list)
{
    list->head.next = list->head.prev = &list->head;
}

static inline bool uro_list_empty(const struct uro_list *list)
{
    return list->head.next == &list->head;
}

static inline bool uro_link_used(const struct uro_link *link)
{
    return link->next != NULL;
}

static inline void uro_list_append(struct uro_list *list, struct uro_link *link)
{
    URO_HOT_ASSERT(!uro_link_used(link) && list->head.prev != NULL);
    link->next = &list->head;
    link->prev = list->head.prev;
    link->prev->next = link;
    list->head.prev = link;
}

/* Inserts @link before @next. @next must be in a list, or be the head of a list. */
static inline void uro_list_insert(struct uro_link *next, struct uro_link *link)
{
    URO_HOT_ASSERT(!uro_link_used(link) && uro_link_used(next));
    link->next = next;
    link->prev = next->prev;
    link->prev->next = link;
    next->prev = link;
}

/* Removes a link from its list. Has no effect on a link that is in no list. */
static inline void uro_list_remove(struct uro_link *link)
{
    if (!uro_link_used(link))
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

/* Takes the first link, or returns NULL. */
static inline struct uro_link *uro_list_pop(struct uro_list *list)
{
    if (uro_list_empty(list))
        return NULL;
    struct uro_link *link = list->head.next;
    list->head.next = link->next;
    link->next->prev = &list->head;
    link->next = link->prev = NULL;
    return link;
}
