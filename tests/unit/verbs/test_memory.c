/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/objects.h"

static size_t page;

static uint8_t *map(size_t pages, int rights, int flags, int fd)
{
    void *at = mmap(NULL, pages * page, rights, flags, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

/* Checks that the result is @usable, and that errno is EFAULT if the memory is not usable. */
static void expect_usable(const void *at, size_t length, bool write, bool usable)
{
    errno = 0;
    assert_int_equal(uro_memory_usable(at, length, write), usable);
    if (!usable)
        assert_int_equal(errno, EFAULT);
}

static int open_file(size_t pages)
{
    char name[] = "/tmp/uroce-memory-XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(ftruncate(fd, (off_t)(pages * page)), 0);
    return fd;
}

static void memory__anonymous__is_usable(void **state)
{
    (void)state;
    uint8_t *at = map(4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    expect_usable(at, 4 * page, true, true);
    expect_usable(at + 100, page, true, true);
    expect_usable(at + 4 * page - 1, 1, true, true);
    munmap(at, 4 * page);
}

static void memory__stack_heap_and_code__is_usable_as_mapped(void **state)
{
    uint8_t local[3000] = { 0 };
    static uint8_t data[3000];
    uint8_t *heap = malloc(100000);

    (void)state;
    expect_usable(local, sizeof local, true, true);
    expect_usable(data, sizeof data, true, true);
    expect_usable(heap, 100000, true, true);
    expect_usable((const void *)(uintptr_t)expect_usable, 16, false, true);
    expect_usable((const void *)(uintptr_t)expect_usable, 16, true, false);
    free(heap);
}

static void memory__shared_and_file__is_usable(void **state)
{
    (void)state;
    int fd = open_file(2);
    uint8_t *shared = map(2, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    uint8_t *private = map(2, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
    uint8_t *anonymous = map(2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    expect_usable(shared, 2 * page, true, true);
    expect_usable(private, 2 * page, true, true);
    expect_usable(anonymous, 2 * page, true, true);
    munmap(shared, 2 * page);
    munmap(private, 2 * page);
    munmap(anonymous, 2 * page);
    close(fd);
}

static void memory__read_only__may_be_read_and_not_written(void **state)
{
    (void)state;
    uint8_t *at = map(2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    expect_usable(at, 2 * page, false, true);
    expect_usable(at, 2 * page, true, false);
    munmap(at, 2 * page);
}

static void memory__without_rights__is_refused(void **state)
{
    (void)state;
    uint8_t *at = map(3, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(mprotect(at + page, page, PROT_NONE), 0);
    expect_usable(at, page, true, true);
    expect_usable(at, page + 1, false, false);
    expect_usable(at + page, page, false, false);
    expect_usable(at + 2 * page, page, true, true);
    munmap(at, 3 * page);
}

static void memory__range_with_a_hole__is_refused(void **state)
{
    (void)state;
    uint8_t *at = map(3, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_int_equal(munmap(at + page, page), 0);
    expect_usable(at, 3 * page, false, false);
    expect_usable(at, 3 * page, true, false);
    munmap(at, page);
    munmap(at + 2 * page, page);
}

static void memory__unmapped__is_refused(void **state)
{
    (void)state;
    expect_usable(NULL, 1, false, false);
    expect_usable((const void *)(uintptr_t)64, 4096, true, false);
    expect_usable((const void *)(UINTPTR_MAX - 10), 10, false, false);
    expect_usable((const void *)(UINTPTR_MAX / 2 + 1), 4096, false, false);
}

/* A mapping may be longer than its file. An access past the end of the file raises SIGBUS. */
static void memory__past_the_end_of_a_file__is_refused(void **state)
{
    (void)state;
    int fd = open_file(1);
    uint8_t *at = map(2, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    assert_true(uro_memory_usable(at, page, true));
    assert_false(uro_memory_usable(at, 2 * page, true));
    assert_int_equal(errno, EFAULT);
    munmap(at, 2 * page);
    close(fd);
}

/* The test uses [vvar], a mapping of each process with the kernel's clocks. A kernel driver cannot
 * pin it either. */
static void memory__of_a_device__is_refused(void **state)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned long from = 0, to = 0;

    (void)state;
    assert_non_null(maps);
    while (to == 0 && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[vvar") == NULL || sscanf(line, "%lx-%lx", &from, &to) != 2)
            to = 0;
    (void)fclose(maps);
    if (to == 0)
        skip();
    expect_usable((const void *)from, page, false, false);
    expect_usable((const void *)from, to - from, true, false);
}

static void memory__zero_length__is_usable_at_any_address(void **state)
{
    (void)state;
    assert_true(uro_memory_usable(NULL, 0, true));
    assert_true(uro_memory_usable((const uint8_t *)(uintptr_t)1, 0, true));
}

static void memory__checked__no_byte_changes(void **state)
{
    (void)state;
    uint8_t *at = map(8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (size_t i = 0; i < 8 * page; i++)
        at[i] = (uint8_t)(i * 7);
    expect_usable(at, 8 * page, true, true);
    for (size_t i = 0; i < 8 * page; i++)
        assert_int_equal(at[i], (uint8_t)(i * 7));
    munmap(at, 8 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory__anonymous__is_usable),
        cmocka_unit_test(memory__stack_heap_and_code__is_usable_as_mapped),
        cmocka_unit_test(memory__shared_and_file__is_usable),
        cmocka_unit_test(memory__read_only__may_be_read_and_not_written),
        cmocka_unit_test(memory__without_rights__is_refused),
        cmocka_unit_test(memory__range_with_a_hole__is_refused),
        cmocka_unit_test(memory__unmapped__is_refused),
        cmocka_unit_test(memory__past_the_end_of_a_file__is_refused),
        cmocka_unit_test(memory__zero_length__is_usable_at_any_address),
        cmocka_unit_test(memory__checked__no_byte_changes),
        cmocka_unit_test(memory__of_a_device__is_refused),
    };
    page = (size_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
