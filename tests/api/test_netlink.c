/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the sockets of NETLINK_RDMA that liburoce-paths.so gives to a program. The tree of
 * UROCE_TREE (meson.build) has the device `net0`. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define GET ((uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET))
#define ONE (NLM_F_REQUEST | NLM_F_ACK)

ssize_t __recv_chk(int fd, void *out, size_t size, size_t limit, int flags);
ssize_t __read_chk(int fd, void *out, size_t size, size_t limit);
ssize_t __recvfrom_chk(int fd, void *out, size_t size, size_t limit, int flags,
                       struct sockaddr *from, socklen_t *length);

static void put(const char *name, const char *text)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/class/%s", getenv("UROCE_TREE"), name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_tree(void **state)
{
    (void)state;
    put("infiniband_verbs/uverbs0/ibdev", "net0\n");
    put("infiniband/net0/fw_ver", "7.8.9\n");
    return 0;
}

/* ---- requests and answers ------------------------------------------------------------ */

struct request {
    struct nlmsghdr header;
    struct nlattr attr;
    uint32_t device;
};

static struct request request_of(uint32_t seq, uint32_t device)
{
    return (struct request){
        .header = { .nlmsg_len = sizeof(struct request),
                    .nlmsg_type = GET,
                    .nlmsg_flags = ONE,
                    .nlmsg_seq = seq },
        .attr = { .nla_len = sizeof(struct nlattr) + 4, .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX },
        .device = device,
    };
}

static int open_socket(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

    assert_true(fd >= 0);
    return fd;
}

static void ask(int fd, uint32_t seq, uint32_t device)
{
    const struct request request = request_of(seq, device);

    assert_int_equal(send(fd, &request, sizeof request, 0), sizeof request);
}

/* Receives a message without waiting. Returns its type. */
static uint16_t receive(int fd, uint32_t seq)
{
    union {
        struct nlmsghdr header;
        uint8_t bytes[4096];
    } message;
    const ssize_t length = recv(fd, &message, sizeof message, MSG_DONTWAIT);

    assert_true(length >= (ssize_t)sizeof message.header);
    assert_int_equal(message.header.nlmsg_len, length);
    assert_int_equal(message.header.nlmsg_seq, seq);
    return message.header.nlmsg_type;
}

static void expect_nothing(int fd)
{
    uint8_t byte;

    errno = 0;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void expect_answer(int fd, uint32_t seq)
{
    assert_int_equal(receive(fd, seq), GET);
    assert_int_equal(receive(fd, seq), NLMSG_ERROR);
    expect_nothing(fd);
}

/* ---- sockets ------------------------------------------------------------------------- */

static void send__every_form__gets_an_answer(void **state)
{
    struct request request = request_of(3, 0);
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    struct iovec parts[2] = { { &request, 10 }, { (uint8_t *)&request + 10, sizeof request - 10 } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    int fd = open_socket();

    (void)state;
    assert_int_equal(send(fd, &request, sizeof request, 0), sizeof request);
    expect_answer(fd, 3);
    assert_int_equal(
        sendto(fd, &request, sizeof request, 0, (const struct sockaddr *)&kernel, sizeof kernel),
        sizeof request);
    expect_answer(fd, 3);
    assert_int_equal(write(fd, &request, sizeof request), sizeof request);
    expect_answer(fd, 3);
    assert_int_equal(sendmsg(fd, &message, 0), sizeof request);
    expect_answer(fd, 3);
    assert_int_equal(connect(fd, (const struct sockaddr *)&kernel, sizeof kernel), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&kernel, 2), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(close(fd), 0);
}

static void expect_kernel(const struct sockaddr_nl *from, socklen_t length)
{
    assert_int_equal(length, sizeof *from);
    assert_int_equal(from->nl_family, AF_NETLINK);
    assert_int_equal(from->nl_pid, 0);
}

static void recv__every_form__has_the_kernel_as_sender(void **state)
{
    uint8_t bytes[4096];
    struct iovec part = { bytes, sizeof bytes };
    struct sockaddr_nl from = { .nl_pid = 99 };
    struct msghdr message = {
        .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1
    };
    socklen_t length = sizeof from;
    int fd = open_socket();

    (void)state;
    ask(fd, 1, 0);
    assert_true(recvmsg(fd, &message, 0) > 0);
    expect_kernel(&from, message.msg_namelen);
    assert_true(read(fd, bytes, sizeof bytes) > 0);
    memset(&from, 0xff, sizeof from);
    ask(fd, 1, 0);
    assert_true(recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length) > 0);
    expect_kernel(&from, length);
    assert_true(__read_chk(fd, bytes, sizeof bytes, sizeof bytes) > 0);
    memset(&from, 0xff, sizeof from);
    ask(fd, 1, 0);
    assert_true(__recvfrom_chk(fd, bytes, sizeof bytes, sizeof bytes, 0, (struct sockaddr *)&from,
                               &length) > 0);
    expect_kernel(&from, length);
    assert_true(__recv_chk(fd, bytes, sizeof bytes, sizeof bytes, 0) > 0);
    ask(fd, 1, 0);
    assert_true(recvfrom(fd, bytes, sizeof bytes, 0, NULL, NULL) > 0);
    assert_true(recv(fd, bytes, sizeof bytes, 0) > 0);
    expect_nothing(fd);
    assert_int_equal(close(fd), 0);
}

static uint32_t port_id(int fd)
{
    struct sockaddr_nl name;
    socklen_t length = sizeof name;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
    assert_int_equal(length, sizeof name);
    assert_int_equal(name.nl_family, AF_NETLINK);
    return name.nl_pid;
}

static void socket__two_sockets__have_separate_addresses_and_answers(void **state)
{
    const struct sockaddr_nl any = { .nl_family = AF_NETLINK };
    const struct sockaddr_nl fixed = { .nl_family = AF_NETLINK, .nl_pid = 77 };
    int first = open_socket(), second = open_socket(), third = open_socket();

    (void)state;
    assert_int_equal(port_id(first), 0);
    assert_int_equal(bind(first, (const struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(bind(second, (const struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(bind(third, (const struct sockaddr *)&fixed, sizeof fixed), 0);
    assert_int_equal(port_id(first), getpid());
    assert_int_not_equal(port_id(second), 0);
    assert_int_not_equal(port_id(second), port_id(first));
    assert_int_equal(port_id(third), 77);
    ask(first, 1, 0);
    ask(second, 2, 0);
    expect_answer(second, 2);
    expect_answer(first, 1);
    expect_nothing(third);
    assert_int_equal(close(second), 0);
    ask(first, 4, 0);
    expect_answer(first, 4);
    assert_int_equal(close(first), 0);
    assert_int_equal(close(third), 0);
}

static void bind__to_a_group_or_a_wrong_address__is_refused(void **state)
{
    const struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = 1 };
    const struct sockaddr_nl other = { .nl_family = AF_INET };
    int fd = open_socket();

    (void)state;
    assert_int_equal(bind(fd, (const struct sockaddr *)&group, sizeof group), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(bind(fd, (const struct sockaddr *)&other, sizeof other), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(bind(fd, (const struct sockaddr *)&group, 4), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(getsockname(fd, NULL, NULL), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(close(fd), 0);
}

static void socket__options_and_poll__return_what_the_kernel_returns(void **state)
{
    const int on = 1;
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK, NETLINK_RDMA), size = 100000;
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    uint8_t byte;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    assert_int_equal(poll(&wait, 1, 0), 0);
    assert_int_equal(read(fd, &byte, 1), -1); /* SOCK_NONBLOCK was kept */
    assert_int_equal(errno, EAGAIN);
    ask(fd, 1, 0);
    assert_int_equal(poll(&wait, 1, 0), 1);
    expect_answer(fd, 1);
    assert_int_equal(poll(&wait, 1, 0), 0);
    assert_int_equal(close(fd), 0);
}

static void answers__more_than_the_socket_buffer__all_arrive(void **state)
{
    enum { ASKED = 3000 };
    int fd = open_socket();

    (void)state;
    for (uint32_t i = 0; i < ASKED; i++) /* more answers than the socket buffer holds */
        ask(fd, i, 0);
    for (uint32_t i = 0; i < ASKED; i++) {
        assert_int_equal(receive(fd, i), GET);
        assert_int_equal(receive(fd, i), NLMSG_ERROR);
    }
    expect_nothing(fd);
    assert_int_equal(close(fd), 0);
}

/* ---- life of a descriptor ------------------------------------------------------------- */

static unsigned count_open(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void close__socket__frees_all_descriptors(void **state)
{
    const unsigned before = count_open();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int fd = open_socket();
        ask(fd, 1, 0);
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(count_open(), before);
}

static void close__number_reused_by_a_pipe__is_the_pipe(void **state)
{
    char text[8] = "";
    int fd = open_socket();

    (void)state;
    assert_int_equal(close(fd), 0);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_true(pipes[0] == fd || pipes[1] == fd); /* the lowest number */
    assert_int_equal(write(pipes[1], "abc", 3), 3);
    assert_int_equal(read(pipes[0], text, sizeof text), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(close(pipes[0]), 0);
    assert_int_equal(close(pipes[1]), 0);
}

/* dup2() of a pipe, or a raw system call, closes a socket without a call of close(). The library
 * notices this when the descriptor is used again. */
static void close__by_a_call_that_is_not_intercepted__is_noticed(void **state)
{
    const unsigned before = count_open();
    char text[8] = "";
    int pipes[2], fd = open_socket(), second = open_socket();

    (void)state;
    ask(fd, 1, 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(dup2(pipes[1], fd), fd);
    assert_int_equal(dup2(pipes[0], second), second);
    assert_int_equal(write(fd, "abc", 3), 3);
    assert_int_equal(read(second, text, sizeof text), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(second), 0);
    assert_int_equal(close(pipes[0]), 0);
    assert_int_equal(close(pipes[1]), 0);
    assert_int_equal(count_open(), before);

    fd = open_socket();
    assert_int_equal(syscall(SYS_close, fd), 0);
    assert_int_equal(open_socket(), fd); /* takes the place of the closed socket */
    ask(fd, 9, 0);
    expect_answer(fd, 9);
    assert_int_equal(close(fd), 0);
    assert_int_equal(count_open(), before);
}

static void dup__socket__is_the_same_socket(void **state)
{
    const unsigned before = count_open();
    const int fd = open_socket();
    const int copies[] = { dup(fd), dup2(fd, 200), dup3(fd, 201, O_CLOEXEC),
                           fcntl(fd, F_DUPFD, 202), fcntl(fd, F_DUPFD_CLOEXEC, 203) };
    const size_t most = sizeof copies / sizeof copies[0];

    (void)state;
    for (uint32_t i = 0; i < most; i++) {
        assert_true(copies[i] >= 0);
        ask(copies[i], i, 0);
        expect_answer(fd, i);
        ask(fd, i, 0);
        expect_answer(copies[i], i);
    }
    assert_int_equal(dup2(fd, fd), fd);
    assert_int_equal(dup2(fd, copies[0]), copies[0]);
    assert_int_equal(close(fd), 0); /* the copies remain */
    for (uint32_t i = 0; i < most; i++) {
        ask(copies[i], 100 + i, 0);
        expect_answer(copies[most - 1], 100 + i);
        if (i + 1 < most)
            assert_int_equal(close(copies[i]), 0);
    }
    assert_int_equal(close(copies[most - 1]), 0);
    assert_int_equal(count_open(), before);
}

/* The library does not change other commands of fcntl(), nor copies of other descriptors. */
static void fcntl__other_commands_and_descriptors__are_those_of_the_kernel(void **state)
{
    const int fd = open_socket(), other = dup(STDERR_FILENO);
    struct flock lock = { .l_type = F_WRLCK };

    (void)state;
    assert_true(other >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
    assert_int_equal(fcntl(other, F_SETFL, fcntl(other, F_GETFL)), 0);
    assert_int_equal(dup(-1), -1);
    assert_int_equal(errno, EBADF);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fcntl(fileno(file), F_SETLK, &lock), 0); /* an argument that is a pointer */
    assert_int_equal(fclose(file), 0);
    assert_int_equal(close(other), 0);
    assert_int_equal(close(fd), 0);
}

static void dup__too_many_copies__is_emfile(void **state)
{
    const unsigned before = count_open();
    int fds[64];

    (void)state;
    fds[0] = open_socket();
    for (size_t i = 1; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = dup(fds[0]);
    assert_int_equal(dup(fds[0]), -1);
    assert_int_equal(errno, EMFILE);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        assert_int_equal(close(fds[i]), 0);
    assert_int_equal(count_open(), before);
}

static void socket__too_many__is_emfile(void **state)
{
    int fds[64];

    (void)state;
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = open_socket();
    assert_int_equal(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), -1);
    assert_int_equal(errno, EMFILE);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        assert_int_equal(close(fds[i]), 0);
    assert_int_equal(close(open_socket()), 0);
}

static void fork__child_uses_and_closes_sockets__parent_keeps_its_socket(void **state)
{
    int fd = open_socket(), status;

    (void)state;
    ask(fd, 1, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int own = open_socket();
        ask(own, 5, 0);
        bool good = receive(own, 5) == GET && receive(fd, 1) == GET && close(own) == 0;
        ask(fd, 2, 0);
        _exit(good && close(fd) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(receive(fd, 1), NLMSG_ERROR); /* the child has already received the message
                                                      before this message */
    expect_answer(fd, 2);
    ask(fd, 3, 0);
    expect_answer(fd, 3);
    assert_int_equal(close(fd), 0);
}

/* A child of vfork() has the memory of its parent. */
static void vfork__child_closes_the_socket__parent_keeps_the_socket(void **state)
{
    int fd = open_socket(), status;

    (void)state;
    /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
    pid_t child = vfork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fd);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ask(fd, 3, 0);
    expect_answer(fd, 3);
    assert_int_equal(close(fd), 0);
}

/* ---- hostile requests ----------------------------------------------------------------- */

static void request__too_short__is_ignored(void **state)
{
    const struct request request = request_of(1, 0);
    int fd = open_socket();

    (void)state;
    for (size_t length = 0; length < sizeof request; length++)
        assert_int_equal(send(fd, &request, length, 0), length);
    expect_nothing(fd);
    ask(fd, 2, 0);
    expect_answer(fd, 2);
    assert_int_equal(close(fd), 0);
}

static void request__too_long__is_emsgsize(void **state)
{
    static uint8_t bytes[40000];
    struct iovec parts[2] = { { bytes, sizeof bytes }, { bytes, sizeof bytes } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    int fd = open_socket();

    (void)state;
    assert_int_equal(sendmsg(fd, &message, 0), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(close(fd), 0);
}

/* Sends requests in which one byte has been changed to several values. */
static void request__any_byte_changed__next_request_gets_an_answer(void **state)
{
    static const uint8_t values[] = { 0, 1, 3, 4, 7, 8, 0x7f, 0x80, 0xff };
    int fd = open_socket();
    uint8_t bytes[4096];

    (void)state;
    for (size_t i = 0; i < sizeof(struct request); i++)
        for (size_t j = 0; j < sizeof values; j++) {
            struct request request = request_of(1, 0);
            ((uint8_t *)&request)[i] = values[j];
            assert_int_equal(send(fd, &request, sizeof request, 0), sizeof request);
            while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
                ;
        }
    ask(fd, 2, 0);
    expect_answer(fd, 2);
    assert_int_equal(close(fd), 0);
}

/* ---- other sockets -------------------------------------------------------------------- */

static void socket__of_another_family__is_that_of_the_kernel(void **state)
{
    struct sockaddr_nl name = { .nl_family = AF_NETLINK };
    socklen_t length = sizeof name;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), domain = 0, pair[2];

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
    length = sizeof domain;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length), 0);
    assert_int_equal(domain, AF_NETLINK);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(fd), -1);
    assert_int_equal(errno, EBADF);

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    char text[4] = "";
    struct iovec part = { text, sizeof text };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    assert_int_equal(send(pair[0], "one", 3, 0), 3);
    assert_int_equal(recv(pair[1], text, 3, 0), 3);
    assert_int_equal(sendto(pair[0], "two", 3, 0, NULL, 0), 3);
    assert_int_equal(recvfrom(pair[1], text, 3, 0, NULL, NULL), 3);
    assert_int_equal(sendmsg(pair[0], &message, 0), sizeof text);
    assert_int_equal(recvmsg(pair[1], &message, 0), sizeof text);
    assert_string_equal(text, "two");
    assert_int_equal(connect(pair[0], NULL, 0), -1);
    int on = 1;
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    assert_int_equal(send(pair[0], "abc", 3, 0), 3);
    assert_int_equal(__recv_chk(pair[1], text, 3, 3, 0), 3);
    assert_int_equal(send(pair[0], "abc", 3, 0), 3);
    assert_int_equal(__recvfrom_chk(pair[1], text, 3, 3, 0, NULL, NULL), 3);
    assert_int_equal(close(pair[0]), 0);
    assert_int_equal(close(pair[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__every_form__gets_an_answer),
        cmocka_unit_test(recv__every_form__has_the_kernel_as_sender),
        cmocka_unit_test(socket__two_sockets__have_separate_addresses_and_answers),
        cmocka_unit_test(bind__to_a_group_or_a_wrong_address__is_refused),
        cmocka_unit_test(socket__options_and_poll__return_what_the_kernel_returns),
        cmocka_unit_test(answers__more_than_the_socket_buffer__all_arrive),
        cmocka_unit_test(close__socket__frees_all_descriptors),
        cmocka_unit_test(close__number_reused_by_a_pipe__is_the_pipe),
        cmocka_unit_test(close__by_a_call_that_is_not_intercepted__is_noticed),
        cmocka_unit_test(dup__socket__is_the_same_socket),
        cmocka_unit_test(fcntl__other_commands_and_descriptors__are_those_of_the_kernel),
        cmocka_unit_test(dup__too_many_copies__is_emfile),
        cmocka_unit_test(socket__too_many__is_emfile),
        cmocka_unit_test(fork__child_uses_and_closes_sockets__parent_keeps_its_socket),
        cmocka_unit_test(vfork__child_closes_the_socket__parent_keeps_the_socket),
        cmocka_unit_test(request__too_short__is_ignored),
        cmocka_unit_test(request__too_long__is_emsgsize),
        cmocka_unit_test(request__any_byte_changed__next_request_gets_an_answer),
        cmocka_unit_test(socket__of_another_family__is_that_of_the_kernel),
    };
    return cmocka_run_group_tests(tests, make_tree, NULL);
}
