/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink_run.c - runs a command with a trace to replay; see shrink.h. */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shrink.h"

#define NAP_NS 2000000L

static volatile sig_atomic_t child; /* the process group of the command; 0: none */

/* Ends the command, too, when the user ends this program. */
static void on_signal(int number)
{
    if (child > 0)
        (void)kill(-(pid_t)child, SIGKILL);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void catch_signals(void)
{
    const struct sigaction action = { .sa_handler = on_signal };

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

/* Becomes the command. @failure: pipe that gets the errno of a failed exec. */
static _Noreturn void become(char *const *command, const char *trace, bool verbose, int failure)
{
    const int null = verbose ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)setpgid(0, 0);
    (void)setenv("UROCE_REPLAY", trace, 1);
    if (null >= 0) {
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
    }
    (void)execvp(command[0], command);
    const int error = errno;
    (void)!write(failure, &error, sizeof error);
    _exit(127);
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Waits for the command. Returns its status as waitpid() does; it is killed when it is too slow. */
static int await(pid_t pid, unsigned timeout_s)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };
    const double until = seconds() + timeout_s;
    int status = 0;

    while (waitpid(pid, &status, timeout_s == 0 ? 0 : WNOHANG) != pid) {
        if (timeout_s != 0 && seconds() >= until)
            (void)kill(-pid, SIGKILL);
        (void)nanosleep(&nap, NULL);
    }
    (void)kill(-pid, SIGKILL); /* what the command left behind would disturb the next run */
    return status;
}

enum uro_shrink_result uro_shrink_run(char *const *command, const char *trace, unsigned timeout_s,
                                      bool verbose)
{
    int failure[2], error = 0;

    catch_signals();
    (void)fflush(NULL);
    if (pipe2(failure, O_CLOEXEC) != 0) {
        (void)fprintf(stderr, "uroce shrink: %s\n", strerror(errno));
        return URO_SHRINK_CANNOT_RUN;
    }
    const pid_t pid = fork();
    if (pid == 0)
        become(command, trace, verbose, failure[1]);
    (void)close(failure[1]);
    if (pid > 0) {
        (void)setpgid(pid, pid);
        child = (sig_atomic_t)pid;
        if (read(failure[0], &error, sizeof error) != sizeof error)
            error = 0;
    } else {
        error = errno;
    }
    (void)close(failure[0]);
    const int status = pid > 0 ? await(pid, timeout_s) : -1;
    child = 0;
    if (error != 0) {
        (void)fprintf(stderr, "uroce shrink: cannot run %s: %s\n", command[0], strerror(error));
        return URO_SHRINK_CANNOT_RUN;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? URO_SHRINK_PASSES : URO_SHRINK_FAILS;
}
