/* SPDX-License-Identifier: BSD-3-Clause */
/* agent.c - runs the commands of `rxe-peer exec` in the guest. It reads them from a virtio-serial port.
 *
 * usage: agent DEVICE NUMBER
 *
 * Request: "@@RUN id timeout cmdlen inlen\n", then cmdlen bytes of shell text and inlen bytes of
 *          standard input for it.
 * Answer: "@@RXE id status outlen errlen\n", then the standard output and standard error of the
 * command.
 *
 * If a command runs longer than its timeout (seconds), the agent kills its process group and answers
 * with status 124. Background processes of a command that ends in time continue.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

struct request {
    char id[64];
    unsigned timeout;
    size_t cmdlen, inlen;
    char *data; /* the command, then its standard input */
};

static int port;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Reads exactly @len bytes. Waits while the other end is closed. */
static void take(char *buf, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = read(port, buf + got, len - got);

        if (n > 0)
            got += (size_t)n;
        else if (n < 0 && errno != EINTR && errno != EAGAIN)
            die("read");
        else
            usleep(10000);
    }
}

static void give(const char *buf, size_t len)
{
    while (len > 0) {
        ssize_t n = write(port, buf, len);

        if (n < 0 && errno != EINTR && errno != EAGAIN)
            die("write");
        if (n <= 0) {
            usleep(1000);
            continue;
        }
        buf += n;
        len -= (size_t)n;
    }
}

static void give_file(int fd)
{
    char buf[8192];
    ssize_t n;

    lseek(fd, 0, SEEK_SET);
    while ((n = read(fd, buf, sizeof buf)) > 0)
        give(buf, (size_t)n);
}

static void become(char *cmd, const int fds[3])
{
    setsid();
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            _exit(126);
    if (chdir("/root") != 0)
        _exit(126);
    /* All other descriptors are close-on-exec. */
    execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
    _exit(127);
}

static int run(char *cmd, const int fds[3], unsigned timeout)
{
    struct pollfd p = { .events = POLLIN };
    int late = 0, status, r;
    pid_t pid = fork();

    if (pid < 0)
        return 126;
    if (pid == 0)
        become(cmd, fds);
    p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (p.fd < 0)
        die("pidfd_open");
    while ((r = poll(&p, 1, (int)timeout * 1000)) < 0 && errno == EINTR)
        ;
    if (r == 0) {
        late = 1;
        kill(-pid, SIGKILL);
    }
    close(p.fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (late)
        return 124;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd < 0)
        die("memfd_create");
    return fd;
}

/* Reads lines up to the next request, then reads the data of the request. */
static void next_request(struct request *req)
{
    char line[256];

    do {
        size_t n = 0;

        do
            take(line + n, 1);
        while (line[n] != '\n' && ++n < sizeof line - 1);
        line[n] = '\0';
    } while (sscanf(line, "@@RUN %63s %u %zu %zu", req->id, &req->timeout, &req->cmdlen,
                    &req->inlen) != 4);
    req->data = malloc(req->cmdlen + req->inlen + 1);
    if (req->data == NULL)
        die("malloc");
    take(req->data, req->cmdlen + req->inlen);
}

static void serve(struct request *req)
{
    int fds[3] = { memory_file("in"), memory_file("out"), memory_file("err") };
    char line[256];
    int status, n;

    if (write(fds[0], req->data + req->cmdlen, req->inlen) != (ssize_t)req->inlen)
        die("write");
    lseek(fds[0], 0, SEEK_SET);
    req->data[req->cmdlen] = '\0';
    status = run(req->data, fds, req->timeout);
    n = snprintf(line, sizeof line, "@@RXE %s %d %lld %lld\n", req->id, status,
                 (long long)lseek(fds[1], 0, SEEK_END), (long long)lseek(fds[2], 0, SEEK_END));
    give(line, (size_t)n);
    give_file(fds[1]);
    give_file(fds[2]);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

int main(int argc, char **argv)
{
    struct termios t;
    struct request req;

    if (argc != 3)
        return 2;
    port = open(argv[1], O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (port < 0)
        die(argv[1]);
    if (tcgetattr(port, &t) == 0) {
        cfmakeraw(&t);
        tcsetattr(port, TCSANOW, &t);
    }
    if (strcmp(argv[2], "0") == 0)
        give("@@RXE READY\n", 12);
    for (;;) {
        next_request(&req);
        serve(&req);
        free(req.data);
    }
}
