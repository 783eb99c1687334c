/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines_start.c - tests start, fork and the loss of the broker with several engines. */
#include "api/engines.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/must.h"
#include "support/stderr_text.h"

/* ---- devices that cannot have several engines -------------------- */

static void no_broker__engines_auto__device_works(void **state)
{
    const struct api api = api_open_device("auto");
    struct pair pair;

    (void)state;
    struct ibv_cq *cq = engines_cq_of(&api, api.context->num_comp_vectors - 1);
    api_side_open_with(&api, &pair.a, cq, cq, IBV_QPT_RC, NULL);
    api_side_open_with(&api, &pair.b, cq, cq, IBV_QPT_RC, NULL);
    api_pair_join(&api, &pair);
    engines_write_to(&pair.a, pair.b.mr);
    engines_close_side(&pair.a);
    engines_close_side(&pair.b);
    engines_destroy_cq(cq);
    api_close_device(&api);
}

static void no_broker__two_engines__does_not_start_and_says_what_to_do(void **state)
{
    const struct api api = api_open_device("two");
    const struct stderr_capture capture = capture_stderr_begin();

    (void)state;
    assert_null(ibv_create_cq(api.context, 1, NULL, NULL, 0));
    assert_int_equal(errno, ENODEV);
    assert_non_null(strstr(capture_stderr_text(capture),
                           "uroce: two: engines=2: several engines need the broker of each "
                           "address; start the program with `uroce run`"));
    capture_stderr_end(capture);
    api_close_device(&api);
}

static void second_address_without_broker__engines_auto__has_one_engine(void **state)
{
    const struct api api = api_open_device("half");

    (void)state;
    struct ibv_cq *zero = engines_cq_of(&api, 0);
    struct ibv_cq *last = engines_cq_of(&api, api.context->num_comp_vectors - 1);
    struct ibv_qp *first = api_qp(&api, zero), *second = api_qp(&api, last);
    assert_int_equal(engines_prefix_of(first), engines_prefix_of(second));
    assert_int_equal(ibv_destroy_qp(first), 0);
    assert_int_equal(ibv_destroy_qp(second), 0);
    engines_destroy_cq(zero);
    engines_destroy_cq(last);
    api_close_device(&api);
}

/* ---- a forked child ---------------------------------------------- */

#ifndef __SANITIZE_THREAD__ /* this sanitizer allows no threads in a forked child */

/* Creates two queue pairs that use @cq, and writes from the first to the second. */
static void write_in_child(const struct api *api, struct ibv_cq *cq)
{
    struct pair pair;

    api_side_open_with(api, &pair.a, cq, cq, IBV_QPT_RC, NULL);
    api_side_open_with(api, &pair.b, cq, cq, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    engines_write_to(&pair.a, pair.b.mr);
}

static void child(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct api api = { .device = list[0], .context = ibv_open_device(list[0]) };
    struct ibv_cq *one = NULL, *two = NULL;
    struct pair pair;

    ibv_free_device_list(list);
    MUST(api.context != NULL);
    api.pd = ibv_alloc_pd(api.context);
    MUST(api.pd != NULL);
    one = engines_cq_of(&api, 1);
    two = engines_cq_of(&api, 2);
    api_side_open_with(&api, &pair.a, one, one, IBV_QPT_RC, NULL);
    api_side_open_with(&api, &pair.b, two, two, IBV_QPT_RC, NULL);
    api_pair_join(&api, &pair);
    engines_send_once(&pair.a, one, &pair.b, 5);
    _exit(0);
}

static void use_in_child(const char *name)
{
    const struct api api = api_open_device(name);

    write_in_child(&api, engines_cq_of(&api, 2));
    _exit(0);
}

/* The device was not started before, so that both processes can start it. */
static void forked_child__before_the_first_start__both_use_the_device(void **state)
{
    struct side side;
    int status;

    (void)state;
    const pid_t pid = fork();
    if (pid == 0)
        use_in_child("later");
    assert_true(pid > 0);
    const struct api api = api_open_device("later");
    struct ibv_cq *cq = engines_cq_of(&api, 2);
    api_side_open_with(&api, &side, cq, cq, IBV_QPT_RC, NULL);
    engines_close_side(&side);
    engines_destroy_cq(cq);
    api_close_device(&api);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Waits for a port event. */
static void expect_port(const struct api *api, enum ibv_event_type wanted)
{
    struct ibv_async_event event;

    assert_int_equal(ibv_get_async_event(api->context, &event), 0);
    assert_int_equal(event.event_type, wanted);
    ibv_ack_async_event(&event);
}

static enum ibv_port_state port_state(const struct api *api)
{
    struct ibv_port_attr attr;

    assert_int_equal(ibv_query_port(api->context, API_PORT, &attr), 0);
    return attr.state;
}

/* Starts a broker, which ends with the test, and waits until it listens. Returns its process. */
static pid_t start_broker(const char *address)
{
    int status;
    const pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execl(API_UROCE, "uroce", "hub", "--address", address, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    while (!engines_has_broker(address))
        assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    return pid;
}

/* Each of the three engines loses its broker, and joins the next. An engine may notice the end of
 * the broker when the others have joined the next broker already. The port then goes down again. */
static void broker__ends_and_another_starts__port_goes_down_and_up(void **state)
{
    const struct api api = api_open_device("broken");
    struct side side;
    int status;

    (void)state;
    pid_t broker = start_broker(engines_broken_address);
    struct ibv_cq *cq = engines_cq_of(&api, 2);
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_int_equal(waitpid(broker, &status, 0), broker);
    expect_port(&api, IBV_EVENT_PORT_ERR);
    assert_int_equal(port_state(&api), IBV_PORT_DOWN);
    broker = start_broker(engines_broken_address);
    expect_port(&api, IBV_EVENT_PORT_ACTIVE);
    while (port_state(&api) != IBV_PORT_ACTIVE) {
        expect_port(&api, IBV_EVENT_PORT_ERR);
        expect_port(&api, IBV_EVENT_PORT_ACTIVE);
    }
    api_side_open_with(&api, &side, cq, cq, IBV_QPT_RC, NULL);
    api_connect(&api, side.qp, side.qp->qp_num);
    engines_write_to(&side, side.mr);
    engines_close_side(&side);
    engines_destroy_cq(cq);
    api_close_device(&api);
    assert_int_equal(kill(broker, SIGTERM), 0);
    assert_int_equal(waitpid(broker, &status, 0), broker);
}

static void forked_child__after_the_parent_started_all_engines__starts_new_engines(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *two = engines_cq_of(api, 2);
    struct pair pair;
    int status;

    api_side_open_with(api, &pair.a, two, two, IBV_QPT_RC, NULL);
    api_side_open_with(api, &pair.b, two, two, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    engines_send_once(&pair.a, two, &pair.b, 1);
    const pid_t pid = fork();
    if (pid == 0)
        child();
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    engines_send_once(&pair.b, two, &pair.a, 2);
    engines_close_side(&pair.a);
    engines_close_side(&pair.b);
    engines_destroy_cq(two);
}

/* Starts the device with a limit of @most descriptors. If that fails, starts it with @many. */
static void start_with(rlim_t most, rlim_t many)
{
    const struct api api = api_open_device("uroce0");
    struct rlimit limit = { most, many };

    MUST(api.pd != NULL);
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct ibv_cq *cq = ibv_create_cq(api.context, 1, NULL, NULL, 2);
    const int error = errno;
    limit.rlim_cur = many;
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (cq == NULL) {
        MUST(error == ENODEV || error == ENOMEM);
        cq = ibv_create_cq(api.context, 1, NULL, NULL, 2);
    }
    MUST(cq != NULL);
    write_in_child(&api, cq);
    _exit(0);
}

/* The limit is reached in the first engine, then in the second, and so on. A message names only the
 * engine that has failed. */
static void start__a_later_engine_lacks_descriptors__second_start_works(void **state)
{
    struct rlimit before;
    const int first = dup(0); /* lowest free descriptor */
    bool third_failed = false;

    (void)state;
    assert_int_equal(close(first), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t more = 2; more < 40; more += 2) {
        int status = -1;
        const struct stderr_capture capture = capture_stderr_begin();
        const pid_t pid = fork();
        if (pid == 0)
            start_with((rlim_t)first + more, before.rlim_max);
        const pid_t ended = pid > 0 ? waitpid(pid, &status, 0) : -1;
        const char *text = capture_stderr_text(capture);
        capture_stderr_end(capture);
        assert_true(pid > 0 && ended == pid);
        assert_int_equal(status, 0);
        assert_null(strstr(text, "of 3: engine"));
        third_failed |= strstr(text, "engine 3 of 3: ") != NULL;
    }
    assert_true(third_failed);
}

#endif
int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_broker__engines_auto__device_works),
        cmocka_unit_test(second_address_without_broker__engines_auto__has_one_engine),
        cmocka_unit_test(no_broker__two_engines__does_not_start_and_says_what_to_do),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(forked_child__before_the_first_start__both_use_the_device),
        cmocka_unit_test(broker__ends_and_another_starts__port_goes_down_and_up),
        cmocka_unit_test(start__a_later_engine_lacks_descriptors__second_start_works),
        API_TEST(forked_child__after_the_parent_started_all_engines__starts_new_engines),
#endif
    };

    return ENGINES_RUN(tests);
}
