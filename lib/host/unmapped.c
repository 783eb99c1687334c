/* SPDX-License-Identifier: BSD-3-Clause */
/* unmapped.c - see device.h for the contract.
 *
 * The handler handles a fault itself in two cases. In the first case, the thread is in a round of a
 * device, nothing is mapped at the address, and the page has bytes of a region that is not
 * on-demand. In the second case, the thread copies on-demand memory in uro_unmapped_attempt(), and
 * the address is inside that memory. The handler passes all other faults to the handler that was
 * installed before.
 *
 * A fault in such an attempt returns to the start of the attempt by siglongjmp(). That is safe
 * because an attempt only copies.
 *
 * The signal handler may run at any point of a round. It takes no lock and allocates nothing. It
 * makes system calls directly, because a program may replace functions of the C library. UCX, for
 * example, replaces mmap().
 */
#define _GNU_SOURCE /* syscall, SEGV_MAPERR */
#include "host/device.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "core/key.h"
#include "core/shard.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Device whose memory this thread accesses; NULL: none. */
static URO_THREAD_LOCAL_FOR_HANDLERS struct uro_device *_Atomic touched;

struct attempt {
    sigjmp_buf start;
    uintptr_t first; /* address of the first byte that the attempt touches */
    uintptr_t last;  /* address of the last byte */
};

/* Current attempt of this thread; NULL: none. */
static URO_THREAD_LOCAL_FOR_HANDLERS struct attempt *_Atomic attempted;

static uintptr_t page_size; /* bytes */

/* The handler that was installed before. */
struct previous {
    int number; /* signal number */
    struct sigaction action;
};

static struct previous segv = { .number = SIGSEGV }, bus = { .number = SIGBUS };

void uro_unmapped_touch(struct uro_device *device)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&touched, device, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

static void set_attempted(struct attempt *attempt)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&attempted, attempt, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

bool uro_unmapped_attempt(void (*touch)(void *argument), void *argument, const uint8_t *memory,
                          size_t length)
{
    struct attempt attempt = { .first = (uintptr_t)memory,
                               .last = (uintptr_t)memory + (length - 1) };

    if (sigsetjmp(attempt.start, 0) != 0) {
        set_attempted(NULL);
        return false;
    }
    set_attempted(&attempt);
    touch(argument);
    set_attempted(NULL);
    return true;
}

/* ---- other faults ----------------------------------------------------------------------- */

static bool has_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void restore_default(int number)
{
    const struct sigaction action = { .sa_handler = SIG_DFL };

    (void)sigaction(number, &action, NULL);
}

/* Ends the process. After the handler has returned, the processor repeats the instruction, so that
 * the process ends at the fault. A signal that a process sent would not occur again, so it is sent
 * again. */
static void die(int number, siginfo_t *info, bool sent)
{
    restore_default(number);
    if (sent)
        (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = number == SIGSEGV ? &segv.action : &bus.action;
    /* Whether a process sent the signal. A signal of the processor cannot be ignored. */
    const bool sent = info->si_code <= 0;

    if (!has_handler(before)) {
        if (!sent || before->sa_handler != SIG_IGN)
            die(number, info, sent);
        return;
    }
    if (before->sa_flags & (int)SA_RESETHAND)
        restore_default(number);
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(number, info, context);
    else
        before->sa_handler(number);
}

/* ---- faults on registered memory -------------------------------------------------------- */

/* Maps an empty page. Returns whether there is a page now. Linux before 4.17 may map it at another
 * address. */
static bool map_page(uintptr_t address)
{
    long mapped = syscall(SYS_mmap, address, page_size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (mapped == -1)
        return errno == EEXIST; /* another thread was faster */
    if ((uintptr_t)mapped == address)
        return true;
    (void)syscall(SYS_munmap, mapped, page_size);
    return false;
}

/* Maps an empty page in place of unmapped registered memory. Returns false for other
 * faults. */
static bool repair(struct uro_device *device, const siginfo_t *info)
{
    uintptr_t address = (uintptr_t)info->si_addr & ~(page_size - 1);
    struct uro_shard *shard;

    if (device == NULL || info->si_code != SEGV_MAPERR)
        return false;
    shard = uro_engine_shard(device->engine);
    if (!uro_key_never_faults(shard, address, page_size) || !map_page(address))
        return false;
    uro_count(shard->counters, URO_COUNT_UNMAPPED);
    return true;
}

/* Ends the attempt of this thread if the fault is on its memory, and then does not return. */
static void end_attempt(const siginfo_t *info, const void *context)
{
    struct attempt *attempt = atomic_load_explicit(&attempted, memory_order_relaxed);
    const ucontext_t *interrupted = context;
    const uintptr_t address = (uintptr_t)info->si_addr;

    if (attempt == NULL || info->si_code <= 0 || address < (attempt->first & ~(page_size - 1)) ||
        address > attempt->last)
        return;
    (void)pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
    siglongjmp(attempt->start, 1);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const int error = errno;

    end_attempt(info, context);
    bool repaired =
        number == SIGSEGV && repair(atomic_load_explicit(&touched, memory_order_relaxed), info);
    errno = error;
    if (!repaired)
        pass_on(number, info, context);
}

/* ---- installation ----------------------------------------------------------------------- */

/* Installs the handler. It calls a previous handler with the blocked signals and on the stack that
 * the previous handler requested. Without a previous handler, it uses the thread's signal stack if
 * there is one, because Go requires this of all handlers. */
static void install(struct previous *previous)
{
    struct sigaction ours = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    const struct sigaction *before = &previous->action;

    if (sigaction(previous->number, NULL, &previous->action) != 0)
        return;
    if (has_handler(before)) {
        ours.sa_mask = before->sa_mask;
        ours.sa_flags |= before->sa_flags & (SA_ONSTACK | SA_RESTART | (int)SA_NODEFER);
    } else {
        ours.sa_flags |= SA_ONSTACK | SA_RESTART;
    }
    (void)sigaction(previous->number, &ours, NULL);
}

static void install_handlers(void)
{
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    install(&segv);
    install(&bus);
}

void uro_unmapped_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, install_handlers);
}
