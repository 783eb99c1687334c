/* SPDX-License-Identifier: BSD-3-Clause */
/* command.c - see command.h. */
#define _GNU_SOURCE /* pipe2 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

#define NAP_NS 2000000L

static volatile sig_atomic_t child; /* the process group of the command; 0: none */

/* Ends the command and this program when the user ends this program. */
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
static _Noreturn void become(const struct uro_command *command, int failure)
{
    (void)setpgid(0, 0);
    (void)setenv(command->variable, command->value, 1);
    if (command->output >= 0) {
        (void)dup2(command->output, STDOUT_FILENO);
        (void)dup2(command->output, STDERR_FILENO);
    }
    (void)execvp(command->words[0], command->words);
    const int error = errno;
    (void)!write(failure, &error, sizeof error);
    _exit(127);
}

static double clock_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Waits for the command, and kills it when it is too slow. */
static void await(pid_t pid, unsigned timeout_s, struct uro_command_end *end)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };
    const double began = clock_s();

    while (waitpid(pid, &end->status, timeout_s == 0 ? 0 : WNOHANG) != pid) {
        if (timeout_s != 0 && clock_s() >= began + timeout_s) {
            end->slow = true;
            (void)kill(-pid, SIGKILL);
        }
        (void)nanosleep(&nap, NULL);
    }
    end->seconds = clock_s() - began;
    (void)kill(-pid, SIGKILL); /* processes that the command left would disturb the next run */
}

struct uro_command_end uro_command_run(const struct uro_command *command)
{
    struct uro_command_end end = { 0 };
    int failure[2];

    catch_signals();
    (void)uro_output_flush();
    if (pipe2(failure, O_CLOEXEC) != 0) {
        end.error = errno;
        return end;
    }
    const pid_t pid = fork();
    if (pid == 0)
        become(command, failure[1]);
    end.error = pid < 0 ? errno : 0;
    (void)close(failure[1]);
    if (pid > 0) {
        (void)setpgid(pid, pid);
        child = (sig_atomic_t)pid;
        if (read(failure[0], &end.error, sizeof end.error) != sizeof end.error)
            end.error = 0;
        await(pid, command->timeout_s, &end);
    }
    (void)close(failure[0]);
    child = 0;
    return end;
}
