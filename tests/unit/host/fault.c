/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.c - see fault.h. */
#include "fault.h"
#include "support/patience.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct uro_device *device;
struct uro_key key;
uint8_t *fault_there;
size_t fault_page;

int fault_ending(void (*body)(void))
{
    int status;

    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = { 0 };
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGSEGV, SIG_DFL); /* removes the handlers of cmocka and of a sanitizer */
        (void)signal(SIGBUS, SIG_DFL);
        (void)alarm(patience(60)); /* ends the process if it hangs */
        body();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void fault_start(const char *devices)
{
    fault_page = (size_t)sysconf(_SC_PAGESIZE);
    fault_there =
        mmap(NULL, 2 * fault_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(fault_there != MAP_FAILED);
    memset(fault_there, 0xcc, fault_page);
    MUST(setenv("UROCE_DEVICES", devices, 1) == 0);
    device = uro_host_devices()[0];
    MUST(device != NULL && uro_device_start(device) == 0);
    key =
        (struct uro_key){ .kind = URO_KEY_REGION, .length = 2 * fault_page, .memory = fault_there };
    uro_device_lock(device);
    uro_key_register(uro_device_shard(device), &key);
    uro_device_unlock(device);
    MUST(munmap(fault_there + fault_page, fault_page) == 0);
}

void fault_touch(uint8_t *at)
{
    *(volatile uint8_t *)at = 1;
}

void fault_touch_first(void)
{
    fault_touch(fault_there);
}

void fault_touch_second(void)
{
    fault_touch(fault_there + fault_page);
}

/* Uses an address near NULL: a sanitizer would detect NULL itself before the processor. */
void fault_touch_null(void)
{
    volatile uintptr_t nothing = 16;

    fault_touch((uint8_t *)nothing);
}

static void run_when_looking(void (*body)(void))
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.receiving = body;
    (void)pthread_mutex_unlock(&fake.lock);
}

void fault_in_round(void (*body)(void))
{
    run_when_looking(body);
    uro_device_progress(device, false);
    run_when_looking(NULL);
}

static atomic_int
    by_service; /* 1: the round may access the byte; 2: it is accessing the byte; 3: done */
static size_t where;

static void touch_by_service(void)
{
    int wanted = 1;

    if (gettid() == fake.opener && atomic_compare_exchange_strong(&by_service, &wanted, 2)) {
        fault_touch(fault_there + where);
        atomic_store(&by_service, 3);
    }
}

/* The program makes no call, so the service thread runs the round. */
void fault_in_service(size_t offset)
{
    where = offset;
    run_when_looking(touch_by_service);
    atomic_store(&by_service, 1);
    while (atomic_load(&by_service) != 3) {
        if (atomic_load(&by_service) == 1)
            fake_inject_echo(&fake.port.mac);
        (void)usleep(10000);
    }
}

uint64_t fault_pages(void)
{
    return uro_engine_counters(device->engine)->value[URO_COUNT_UNMAPPED];
}
