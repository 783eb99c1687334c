/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_verbs.c - makes any calls of the verbs API, in a program with two connected devices.
 *
 * The first byte selects whether the contexts are closed before the objects are destroyed. Then
 * comes a sequence of calls. A call has a byte for its kind, then its arguments. An argument
 * selects an object by its index among the existing objects. Invariants: No call blocks or reads
 * beyond its arguments. Only registered memory is changed, and no secret is sent. At the end all
 * objects can be destroyed, before or after their context is closed.
 */
#include "fuzz_objects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS       200u
#define FINAL_PAUSE URO_MS(20000)

static void pass(void)
{
    fuzz_host_pass(URO_US(1) << fuzz_next() % 24);
    fuzz_host_settle();
}

static void lose(void)
{
    fuzz_host_lose(fuzz_next() * 0x01010101u);
}

static void link(void)
{
    fuzz_host_link(fuzz_next() & 1);
}

static void (*const calls[])(void) = {
    fuzz_make,      fuzz_make,      fuzz_make,    fuzz_destroy, fuzz_connect, fuzz_modify,
    fuzz_post_send, fuzz_post_recv, fuzz_post_ex, fuzz_bind,    fuzz_poll,    fuzz_poll_ex,
    fuzz_events,    fuzz_query,     fuzz_group,   fuzz_resize,  pass,         fuzz_host_settle,
    lose,           link,           fuzz_reopen,
};

/* The newest kinds come last, so that older inputs keep their meaning. */
static void (*const more_calls[])(void) = { fuzz_change_mr, fuzz_copy_dm, fuzz_make_domain };

static void call(uint8_t kind)
{
    if (kind > UINT8_MAX - URO_ARRAY_LEN(more_calls))
        more_calls[UINT8_MAX - kind]();
    else
        calls[kind % URO_ARRAY_LEN(calls)]();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    fuzz_feed(data + 1, size - 1);
    fuzz_objects_open();
    for (uint32_t i = 0; i < CALLS && fuzz_more(); i++)
        call(fuzz_next());
    fuzz_host_lose(0);
    fuzz_host_link(true);
    fuzz_host_settle();
    fuzz_objects_close(data[0] & 1);
    fuzz_host_pass(FINAL_PAUSE);
    fuzz_host_settle();
    return 0;
}
