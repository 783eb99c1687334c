/* SPDX-License-Identifier: BSD-3-Clause */
/* unmapped.c - see device.h for the contract.
 *
 * A fault is ours when the thread is in a round of a device, nothing is mapped at the address, and the page has
 * octets of a region that the device trusts; or when an attempt of that thread touches on-demand memory and the address is
 * inside of it. All else is passed on as if we were not here: the program's own faults, and ours that are mistakes.
 *
 * An attempt that faults goes back to where it began. That is sound because all it does is copy.
 *
 * Everything below pass_on() runs in a signal handler, at any point of a round: no lock, no allocation, and no
 * function of the C library that somebody may have put another in place of (UCX does, to hear of mmap).
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

/* By the present thread; NULL: none. */
static URO_THREAD_LOCAL_FOR_HANDLERS struct uro_device *_Atomic touched;

struct attempt {
    sigjmp_buf start;
    uintptr_t first; /* of the octets it touches */
    uintptr_t last;
};

/* Of the present thread; NULL: none. */
static URO_THREAD_LOCAL_FOR_HANDLERS struct attempt *_Atomic attempted;

static uintptr_t page; /* octets */

/* Who had the signal before. */
struct owner {
    int number;
    struct sigaction before;
};

static struct owner segv = { .number = SIGSEGV }, bus = { .number = SIGBUS };

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

bool uro_unmapped_attempt(void (*touch)(void *argument), void *argument, const uint8_t *at,
                          size_t length)
{
    struct attempt attempt = { .first = (uintptr_t)at, .last = (uintptr_t)at + (length - 1) };

    if (sigsetjmp(attempt.start, 0) != 0) {
        set_attempted(NULL);
        return false;
    }
    set_attempted(&attempt);
    touch(argument);
    set_attempted(NULL);
    return true;
}

/* ---- what is not ours ------------------------------------------------------------------------------- */

static bool has_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void default_action(int number)
{
    const struct sigaction action = { .sa_handler = SIG_DFL };

    (void)sigaction(number, &action, NULL);
}

/* The instruction is tried again when the handler returns, and ends the process where the fault is. What somebody
 * sent would not come again. */
static void die(int number, siginfo_t *info, bool sent)
{
    default_action(number);
    if (sent)
        (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info);
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = number == SIGSEGV ? &segv.before : &bus.before;
    const bool sent =
        info->si_code <= 0; /* not by the processor, whose signals cannot be ignored */

    if (!has_handler(before)) {
        if (!sent || before->sa_handler != SIG_IGN)
            die(number, info, sent);
        return;
    }
    if (before->sa_flags & (int)SA_RESETHAND)
        default_action(number);
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(number, info, context);
    else
        before->sa_handler(number);
}

/* ---- what is ours ----------------------------------------------------------------------------------- */

/* True when there is a page now. A kernel before 4.17 takes the address for a wish. */
static bool put_page(uintptr_t at)
{
    long got = syscall(SYS_mmap, at, page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (got == -1)
        return errno == EEXIST; /* another thread was faster */
    if ((uintptr_t)got == at)
        return true;
    (void)syscall(SYS_munmap, got, page);
    return false;
}

static bool mend(struct uro_device *device, const siginfo_t *info)
{
    uintptr_t at = (uintptr_t)info->si_addr & ~(page - 1);
    struct uro_shard *shard;

    if (device == NULL || info->si_code != SEGV_MAPERR)
        return false;
    shard = uro_engine_shard(device->engine);
    if (!uro_key_trusts(shard, at, page) || !put_page(at))
        return false;
    uro_count(&shard->counters, URO_COUNT_UNMAPPED);
    return true;
}

/* Ends the attempt of this thread that met the fault, and does not return then. */
static void give_up(const siginfo_t *info, const void *context)
{
    struct attempt *attempt = atomic_load_explicit(&attempted, memory_order_relaxed);
    const ucontext_t *interrupted = context;
    const uintptr_t at = (uintptr_t)info->si_addr;

    if (attempt == NULL || info->si_code <= 0 || at < (attempt->first & ~(page - 1)) ||
        at > attempt->last)
        return;
    (void)pthread_sigmask(SIG_SETMASK, &interrupted->uc_sigmask, NULL);
    siglongjmp(attempt->start, 1);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const int error = errno;

    give_up(info, context);
    bool mended =
        number == SIGSEGV && mend(atomic_load_explicit(&touched, memory_order_relaxed), info);
    errno = error;
    if (!mended)
        pass_on(number, info, context);
}

/* ---- beginning -------------------------------------------------------------------------------------- */

/* A handler that was there is called with the signals blocked and on the stack that it asked for. Where there is none,
 * whatever stack the thread has for handlers: Go's threads must not be interrupted on another. */
static void take_over(struct owner *owner)
{
    struct sigaction ours = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    const struct sigaction *before = &owner->before;

    if (sigaction(owner->number, NULL, &owner->before) != 0)
        return;
    if (has_handler(before)) {
        ours.sa_mask = before->sa_mask;
        ours.sa_flags |= before->sa_flags & (SA_ONSTACK | SA_RESTART | (int)SA_NODEFER);
    } else {
        ours.sa_flags |= SA_ONSTACK | SA_RESTART;
    }
    (void)sigaction(owner->number, &ours, NULL);
}

static void begin(void)
{
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    take_over(&segv);
    take_over(&bus);
}

void uro_unmapped_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, begin);
}
