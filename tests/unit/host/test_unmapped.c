/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests rounds that access memory that the program unmapped, or that cannot be accessed for another
 * reason. */
#include "host/device.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/shard.h"
#include "fault.h"

static void write_over_the_edge(void)
{
    memset(fault_there + fault_page - 10, 0x77, 20);
}

static void mends(void)
{
    fault_start(CALLER);
    fault_in_round(write_over_the_edge);
    for (size_t i = 0; i < 20; i++)
        MUST(fault_there[fault_page - 10 + i] == 0x77);
    MUST(fault_there[fault_page - 11] == 0xcc && fault_there[fault_page + 10] == 0);
    MUST(fault_pages() == 1);
    fault_in_round(write_over_the_edge);
    MUST(fault_pages() == 1);
    MUST(munmap(fault_there + fault_page, fault_page) == 0); /* unmaps the page that uroce mapped */
    fault_in_round(write_over_the_edge);
    MUST(fault_pages() == 2);
}

static void round__registered_memory_is_unmapped__uses_an_empty_page_and_counts(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(mends), 0);
}

static void mends_by_service(void)
{
    fault_start(HYBRID);
    fault_in_service(fault_page);
    MUST(fault_there[fault_page] == 1 && fault_pages() == 1);
}

static void round__of_the_service_thread__unmapped_memory_completes(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(mends_by_service), 0);
}

static void forbidden(void)
{
    fault_start(CALLER);
    MUST(mprotect(fault_there, fault_page, PROT_NONE) == 0);
    fault_in_round(fault_touch_first);
}

static void deregistered(void)
{
    fault_start(CALLER);
    uro_device_lock(device);
    MUST(uro_key_deregister(uro_device_shard(device), &key) == 0);
    uro_device_unlock(device);
    fault_in_round(fault_touch_second);
}

static bool never(const uint8_t *at, uint64_t length, bool write)
{
    (void)at;
    (void)length;
    (void)write;
    return false;
}

static void on_demand(void)
{
    fault_start(CALLER);
    key.reachable = never;
    fault_in_round(fault_touch_second);
}

static void no_memory(void)
{
    fault_start(CALLER);
    MUST(setrlimit(RLIMIT_AS, &(struct rlimit){ 1, 1 }) == 0);
    fault_in_round(fault_touch_second);
}

static void round__other_faults__kill(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(forbidden), DIED);
    assert_int_equal(fault_ending(deregistered), DIED);
    assert_int_equal(fault_ending(on_demand), DIED);
    assert_int_equal(fault_ending(no_memory), DIED);
}

static size_t touched_bytes;

static void touch_bytes(void *at)
{
    memset(at, 0x55, touched_bytes);
}

static bool attempt(uint8_t *at, size_t length)
{
    touched_bytes = length;
    return uro_unmapped_attempt(touch_bytes, at, at, length);
}

/* Tries memory that is unmapped, protected, or behind the end of its file. */
static void attempts(void)
{
    fault_start(CALLER);
    const size_t octets = 2 * fault_page;
    int file = memfd_create("short", MFD_CLOEXEC);
    uint8_t *cut = mmap(NULL, fault_page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(file >= 0 && cut != MAP_FAILED);
    for (unsigned again = 0; again < 3; again++) {
        MUST(attempt(fault_there, fault_page));
        MUST(!attempt(fault_there, octets));
        MUST(fault_there[fault_page - 1] == 0x55);
        MUST(!attempt(cut, fault_page));
        MUST(mprotect(fault_there, fault_page, PROT_READ) == 0);
        MUST(!attempt(fault_there, fault_page));
        MUST(mprotect(fault_there, fault_page, PROT_READ | PROT_WRITE) == 0);
    }
    MUST(fault_pages() == 0);
}

static void attempt__memory_is_unmapped__ends_and_the_thread_continues(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(attempts), 0);
}

static void touch_null(void *argument)
{
    (void)argument;
    fault_touch_null();
}

static void attempt_elsewhere(void)
{
    fault_start(CALLER);
    (void)uro_unmapped_attempt(touch_null, NULL, fault_there, fault_page);
}

static void attempt_over(void)
{
    fault_start(CALLER);
    MUST(!attempt(fault_there, 2 * fault_page));
    MUST(attempt(fault_there, fault_page));
    fault_touch_second();
}

static void attempt__other_fault_or_after_the_attempt__kills_the_process(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(attempt_elsewhere), DIED);
    assert_int_equal(fault_ending(attempt_over), DIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round__registered_memory_is_unmapped__uses_an_empty_page_and_counts),
        cmocka_unit_test(round__of_the_service_thread__unmapped_memory_completes),
        cmocka_unit_test(round__other_faults__kill),
        cmocka_unit_test(attempt__memory_is_unmapped__ends_and_the_thread_continues),
        cmocka_unit_test(attempt__other_fault_or_after_the_attempt__kills_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
