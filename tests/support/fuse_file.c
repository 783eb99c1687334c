/* SPDX-License-Identifier: BSD-3-Clause */
/* fuse_file.c - see fuse_file.h. */
#define _GNU_SOURCE /* unshare */
#include "support/fuse_file.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/patience.h"

#define LIFE_S   20         /* lifetime of the server, longer than the time limit of the tests */
#define REQUEST  (1u << 17) /* maximum bytes of a request */
#define FILE_INO 2u

/* ---- the file system ---------------------------------------------------- */

static void reply(int fuse, const struct fuse_in_header *request, const void *body, size_t length)
{
    struct fuse_out_header header = { .len = (uint32_t)(sizeof header + length),
                                      .unique = request->unique };
    struct iovec parts[] = { { &header, sizeof header }, { (void *)(uintptr_t)body, length } };

    (void)!writev(fuse, parts, 2);
}

static void refuse(int fuse, const struct fuse_in_header *request)
{
    const struct fuse_out_header header = { .len = sizeof header,
                                            .error = -38, /* ENOSYS */
                                            .unique = request->unique };

    (void)!write(fuse, &header, sizeof header);
}

static struct fuse_attr attributes(uint64_t ino)
{
    return (struct fuse_attr){ .ino = ino,
                               .mode = ino == FILE_INO ? S_IFREG | 0644 : S_IFDIR | 0755,
                               .nlink = 1,
                               .blksize = 4096 };
}

static void serve_one(int fuse, const struct fuse_in_header *request)
{
    const struct fuse_init_out init = {
        .major = 7, .minor = 31, .max_write = 65536, .time_gran = 1
    };
    const struct fuse_entry_out entry = {
        .nodeid = FILE_INO, .entry_valid = 1000, .attr_valid = 1000, .attr = attributes(FILE_INO)
    };
    const struct fuse_attr_out about = { .attr_valid = 1000, .attr = attributes(request->nodeid) };
    const struct fuse_open_out opened = { .fh = 1 };

    if (request->opcode == FUSE_INIT)
        reply(fuse, request, &init, sizeof init);
    else if (request->opcode == FUSE_LOOKUP)
        reply(fuse, request, &entry, sizeof entry);
    else if (request->opcode == FUSE_GETATTR)
        reply(fuse, request, &about, sizeof about);
    else if (request->opcode == FUSE_OPEN)
        reply(fuse, request, &opened, sizeof opened);
    else if (request->opcode != FUSE_FLUSH && request->opcode != FUSE_INTERRUPT &&
             request->opcode != FUSE_FORGET)
        refuse(fuse, request);
}

static void serve(int fuse)
{
    static _Alignas(8) uint8_t request[REQUEST];

    while (read(fuse, request, sizeof request) > 0)
        serve_one(fuse, (const void *)request);
}

/* ---- its processes ------------------------------------------------------ */

static bool send_fd(int channel, int fd)
{
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof(int))];
    } beside = { { 0 } };
    struct iovec part = { &fd, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside
    };

    beside.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd),
                                      .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(&beside.header), &fd, sizeof fd);
    return sendmsg(channel, &message, MSG_NOSIGNAL) == 1;
}

static int receive_fd(int channel)
{
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof(int))];
    } beside;
    uint8_t octet;
    struct iovec part = { &octet, 1 };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside
    };
    int fd;

    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        return -1;
    memcpy(&fd, CMSG_DATA(&beside.header), sizeof fd);
    return fd;
}

/* Keeps the file open until the process is killed, because closing the file would also block. */
static void open_and_send(int channel, const char *folder)
{
    char path[64];

    (void)snprintf(path, sizeof path, "%s/file", folder);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        (void)send_fd(channel, file);
    _exit(0);
}

static bool write_file(const char *path, const char *text)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

    (void)close(file);
    return written;
}

/* Makes mounts private to this process. In a chroot, root does it without a user namespace. */
static bool isolate_mounts(void)
{
    char uids[32], gids[32];

    (void)snprintf(uids, sizeof uids, "0 %u 1", geteuid());
    (void)snprintf(gids, sizeof gids, "0 %u 1", getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    (void)write_file("/proc/self/setgroups", "deny");
    return write_file("/proc/self/uid_map", uids) && write_file("/proc/self/gid_map", gids);
}

static void be_daemon(int channel, const char *folder)
{
    char options[96];

    (void)alarm(patience(LIFE_S));
    if (!isolate_mounts())
        _exit(1);
    const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC); /* belongs to the user namespace */
    if (fuse < 0)
        _exit(1);
    (void)snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    if (mount("none", folder, "fuse", MS_NOSUID | MS_NODEV, options) != 0)
        _exit(1);
    if (fork() == 0) {
        (void)close(fuse);
        open_and_send(channel, folder);
    }
    (void)close(channel);
    serve(fuse);
    _exit(0);
}

int fuse_file_open(pid_t *daemon)
{
    char folder[] = "/tmp/uroce-fuse-XXXXXX";
    int channel[2];

    if (mkdtemp(folder) == NULL)
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) {
        (void)rmdir(folder);
        return -1;
    }
    *daemon = fork();
    if (*daemon == 0) {
        (void)close(channel[0]);
        be_daemon(channel[1], folder);
    }
    (void)close(channel[1]);
    int file = *daemon > 0 ? receive_fd(channel[0]) : -1;
    (void)close(channel[0]);
    (void)rmdir(folder); /* succeeds, because the mount exists only in the other namespace */
    if (file < 0 && *daemon > 0) {
        (void)kill(*daemon, SIGKILL);
        (void)waitpid(*daemon, NULL, 0);
    }
    return file;
}

bool fuse_file_is_served(pid_t daemon)
{
    return waitpid(daemon, NULL, WNOHANG) == 0;
}

void fuse_file_end(pid_t daemon, int file)
{
    (void)kill(daemon, SIGKILL);
    (void)waitpid(daemon, NULL, 0);
    (void)close(file);
}
