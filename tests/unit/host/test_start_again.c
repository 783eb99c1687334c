/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that a device whose first start failed can be started again.
 *
 * A process reads its list of devices once, so each case runs in its own child.
 */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_port.h"
#include "host/host.h"
#include "support/must.h"
#include "support/patience.h"

#define BROKEN "one:broken0;ip=10.0.0.1/24"

static struct uro_device *first(const char *devices)
{
    MUST(setenv("UROCE_DEVICES", devices, 1) == 0);
    MUST(uro_host_devices()[0] != NULL);
    return uro_host_devices()[0];
}

/* Makes stderr a file, for count_lines(). */
static FILE *catch_stderr(void)
{
    FILE *file = tmpfile();

    MUST(file != NULL && dup2(fileno(file), 2) == 2);
    return file;
}

static int count_lines(FILE *file)
{
    int lines = 0, octet;

    rewind(file);
    while ((octet = getc(file)) != EOF)
        lines += octet == '\n';
    return lines;
}

static void works_when_mended(void)
{
    struct uro_device *device = first(BROKEN);

    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(device) == -ENODEV);
    fake.mended = true;
    MUST(uro_device_start(device) == 0);
    MUST(uro_device_started(device));
    MUST(strcmp(uro_device_problem(device), "") == 0);
    MUST(fake.opens == 1);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
}

static void start__after_a_failed_start__tries_again(void **state)
{
    (void)state;
    assert_int_equal(must_status(works_when_mended), 0);
}

static void works_when_the_directory_is_there(void)
{
    char directory[] = "/tmp/uroce-again-XXXXXX", devices[256], file[64];

    MUST(mkdtemp(directory) != NULL && rmdir(directory) == 0);
    (void)snprintf(file, sizeof file, "%s/x.pcap", directory);
    (void)snprintf(devices, sizeof devices, "one:fake0;ip=10.0.0.1/24;pcap=%s", file);
    struct uro_device *device = first(devices);
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(device) == -ENODEV);
    MUST(mkdir(directory, 0700) == 0);
    MUST(uro_device_start(device) == 0);
    MUST(unlink(file) == 0 && rmdir(directory) == 0);
}

static void start__capture_directory_created_later__second_start_succeeds(void **state)
{
    (void)state;
    assert_int_equal(must_status(works_when_the_directory_is_there), 0);
}

static void complains_once_for_each_reason(void)
{
    struct uro_device *device = first(BROKEN);
    FILE *said = catch_stderr();

    for (int i = 0; i < 3; i++)
        MUST(uro_device_start(device) == -ENODEV);
    MUST(count_lines(said) == 1);
    fake.breaks_otherwise = true;
    for (int i = 0; i < 3; i++)
        MUST(uro_device_start(device) == -ENODEV);
    MUST(count_lines(said) == 2);
}

static void start__fails_repeatedly__each_reason_is_printed_once(void **state)
{
    (void)state;
    assert_int_equal(must_status(complains_once_for_each_reason), 0);
}

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void leaves_nothing_open(void)
{
    struct uro_device *device = first(BROKEN);

    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(device) == -ENODEV);
    const int before = open_descriptors();
    for (int i = 0; i < 20; i++)
        MUST(uro_device_start(device) == -ENODEV);
    MUST(open_descriptors() == before);
}

static void start__failed_many_times__leaks_no_descriptor(void **state)
{
    (void)state;
    assert_int_equal(must_status(leaves_nothing_open), 0);
}

static void *start_for_a_while(void *device)
{
    for (int i = 0; i < 50; i++)
        (void)!uro_device_start(device);
    return NULL;
}

static void starts_from_many_threads(void)
{
    struct uro_device *device = first(BROKEN);
    pthread_t threads[4];

    MUST(freopen("/dev/null", "w", stderr) != NULL);
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, start_for_a_while, device) == 0);
    MUST(uro_device_start(device) == -ENODEV);
    fake.mended = true;
    /* This call fails if it waits for a start that another thread began before the link worked. */
    if (uro_device_start(device) != 0)
        MUST(uro_device_start(device) == 0);
    for (int i = 0; i < 4; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(uro_device_started(device));
    MUST(fake.opens == 1);
}

static void start__many_threads_retry__starts_once(void **state)
{
    (void)state;
    assert_int_equal(must_status(starts_from_many_threads), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start__after_a_failed_start__tries_again),
        cmocka_unit_test(start__capture_directory_created_later__second_start_succeeds),
        cmocka_unit_test(start__fails_repeatedly__each_reason_is_printed_once),
        cmocka_unit_test(start__failed_many_times__leaks_no_descriptor),
        cmocka_unit_test(start__many_threads_retry__starts_once),
    };
    (void)alarm(patience(60)); /* ends the process if it hangs */
    return cmocka_run_group_tests_name("host/start_again", tests, NULL, NULL);
}
