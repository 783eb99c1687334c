/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests SIGSEGV for reasons outside of uroce. Faults of the program itself, and signals that a
 * process sends, must act as without a device. */
#include <errno.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "fault.h"

/* ---- without a handler --------------------------------------------------- */

static void null_pointer(void)
{
    fault_start(HYBRID);
    fault_touch_null();
}

static void two_devices(void)
{
    fault_start(HYBRID " two:fake1;ip=10.0.0.2/24");
    MUST(uro_device_start(uro_host_devices()[1]) == 0);
    fault_touch_null();
}

static void after_a_round(void)
{
    fault_start(CALLER);
    fault_in_round(NULL);
    fault_touch_second();
}

static void while_commanding(void)
{
    fault_start(CALLER);
    uro_device_lock(device);
    fault_touch_second();
}

static void program__own_fault__is_not_handled_by_uroce(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(null_pointer), DIED);
    assert_int_equal(fault_ending(two_devices), DIED);
    assert_int_equal(fault_ending(after_a_round), DIED);
    assert_int_equal(fault_ending(while_commanding), DIED);
}

/* Accesses a mapping after the end of its file. */
static void beyond_a_file(void)
{
    fault_start(HYBRID);
    int file = memfd_create("short", MFD_CLOEXEC);
    uint8_t *cut = mmap(NULL, fault_page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(file >= 0 && cut != MAP_FAILED);
    fault_touch(cut);
}

static void on_bus_error(int number)
{
    _exit(number == SIGBUS ? CAUGHT : 1);
}

static void beyond_a_file_with_a_handler(void)
{
    (void)signal(SIGBUS, on_bus_error);
    beyond_a_file();
}

static void program__bus_error_in_its_own_memory__is_not_handled(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(beyond_a_file), 128 + SIGBUS);
    assert_int_equal(fault_ending(beyond_a_file_with_a_handler), CAUGHT);
}

/* ---- with a handler ------------------------------------------------------ */

static void *expected;
static sigset_t blocked; /* signals blocked in the handler */

static void with_info(int number, siginfo_t *info, void *context)
{
    MUST(number == SIGSEGV && info->si_addr == expected && context != NULL);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    MUST(sigismember(&blocked, SIGSEGV) == 1 && sigismember(&blocked, SIGUSR1) == 1);
    MUST(sigismember(&blocked, SIGUSR2) == 0);
    _exit(CAUGHT);
}

static void handle(void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

    (void)sigaddset(&action.sa_mask, SIGUSR1);
    MUST(sigaction(SIGSEGV, &action, NULL) == 0);
}

static void handler_with_info(void)
{
    handle(with_info, 0);
    fault_start(HYBRID);
    expected = fault_there + fault_page;
    fault_touch_second();
}

static void with_errno(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    _exit(errno == ERANGE ? CAUGHT : 1);
}

static void handler_after_an_attempt(void)
{
    handle(with_errno, 0);
    fault_start(CALLER);
    MUST(setrlimit(RLIMIT_AS, &(struct rlimit){ 1, 1 }) == 0);
    errno = ERANGE;
    fault_in_round(fault_touch_second);
}

static jmp_buf back;
static volatile int times;

static void plain(int number)
{
    MUST(number == SIGSEGV);
    times++;
    siglongjmp(back, 1);
}

static void handler_that_jumps(void)
{
    MUST(signal(SIGSEGV, plain) != SIG_ERR);
    fault_start(HYBRID);
    for (int i = 0; i < 2; i++)
        if (sigsetjmp(back, 1) == 0)
            fault_touch_null();
    MUST(times == 2);
    _exit(CAUGHT);
}

static void nested(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    if (times++ == 1)
        _exit(CAUGHT);
    fault_touch_null();
}

static void handler_that_faults(void)
{
    handle(nested, (int)SA_NODEFER);
    fault_start(HYBRID);
    fault_touch_null();
}

static void has_mended(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    MUST(fault_pages() == 1 && times++ == 0); /* the second access ends the process */
}

static void handler_for_once(void)
{
    handle(has_mended, (int)SA_RESETHAND);
    fault_start(CALLER);
    fault_in_round(fault_touch_second);
    fault_touch_null();
}

static uint8_t stack[65536];

static void on_the_stack(int number, siginfo_t *info, void *context)
{
    uint8_t *here = __builtin_frame_address(0); /* with a sanitizer, the variables are elsewhere */

    (void)number;
    (void)info;
    (void)context;
    _exit(here >= stack && here < stack + sizeof stack ? CAUGHT : 1);
}

static void stack_of_handlers(void)
{
    const stack_t own = { .ss_sp = stack, .ss_size = sizeof stack };

    MUST(sigaltstack(&own, NULL) == 0);
    handle(on_the_stack, SA_ONSTACK);
    fault_start(HYBRID);
    fault_touch_null();
}

static void earlier_handler__fault_of_the_program__is_called_as_installed(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(handler_with_info), CAUGHT);
    assert_int_equal(fault_ending(handler_after_an_attempt), CAUGHT);
    assert_int_equal(fault_ending(handler_that_jumps), CAUGHT);
    assert_int_equal(fault_ending(handler_that_faults), CAUGHT);
    assert_int_equal(fault_ending(handler_for_once), DIED);
    assert_int_equal(fault_ending(stack_of_handlers), CAUGHT);
}

static void leaves(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    _exit(gettid() == fake.opener ? CAUGHT : 1);
}

static void handler_in_our_thread(void)
{
    handle(leaves, 0);
    fault_start(HYBRID);
    MUST(mprotect(fault_there, fault_page, PROT_NONE) == 0);
    fault_in_service(0);
}

static void earlier_handler__crash_of_the_service_thread__is_called(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(handler_in_our_thread), CAUGHT);
}

static void handler_from_after(void)
{
    fault_start(HYBRID);
    handle(with_info, 0);
    expected = fault_there + fault_page;
    fault_touch_second();
}

static void later_handler__fault_of_the_program__is_called_alone(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(handler_from_after), CAUGHT);
}

/* ---- signals that a process sends ---------------------------------------- */

static void sent(void)
{
    fault_start(HYBRID);
    (void)raise(SIGSEGV);
}

static void sent_while_ignored(void)
{
    MUST(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
    fault_start(HYBRID);
    (void)raise(SIGSEGV);
    (void)raise(SIGSEGV);
    _exit(CAUGHT);
}

static void own_while_ignored(void)
{
    MUST(signal(SIGSEGV, SIG_IGN) != SIG_ERR);
    fault_start(HYBRID);
    fault_touch_null();
}

static void who_sent(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    _exit(info->si_code == SI_TKILL && info->si_pid == getpid() ? CAUGHT : 1);
}

static void sent_to_a_handler(void)
{
    handle(who_sent, 0);
    fault_start(HYBRID);
    (void)raise(SIGSEGV);
}

/* Sends SIGSEGV to this thread with the address of unmapped registered memory, as in a fault. */
static void send_to_itself(void)
{
    siginfo_t info = { .si_signo = SIGSEGV, .si_code = SI_QUEUE };

    info.si_addr = fault_there + fault_page;
    MUST(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info) == 0);
}

static void sent_in_a_round(void)
{
    fault_start(CALLER);
    fault_in_round(send_to_itself);
}

static void signal__sent_by_kill__has_its_usual_effect(void **state)
{
    (void)state;
    assert_int_equal(fault_ending(sent), DIED);
    assert_int_equal(fault_ending(sent_while_ignored), CAUGHT);
    assert_int_equal(fault_ending(own_while_ignored), DIED);
    assert_int_equal(fault_ending(sent_to_a_handler), CAUGHT);
    assert_int_equal(fault_ending(sent_in_a_round), DIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program__own_fault__is_not_handled_by_uroce),
        cmocka_unit_test(program__bus_error_in_its_own_memory__is_not_handled),
        cmocka_unit_test(earlier_handler__fault_of_the_program__is_called_as_installed),
        cmocka_unit_test(earlier_handler__crash_of_the_service_thread__is_called),
        cmocka_unit_test(later_handler__fault_of_the_program__is_called_alone),
        cmocka_unit_test(signal__sent_by_kill__has_its_usual_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
