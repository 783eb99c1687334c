#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the shared libraries of uroce call no cancellation point of pthreads, except in the waits for events.

    check_cancel.py SOURCE NAMES LIBRARY...

where SOURCE is lib/cancel/uncancelled.c and NAMES its names.txt. liburoce-dpdk.so is not checked: its drivers call the
C library directly, and lib/io/dpdk/guard.c turns cancellation off around them.
"""
import pathlib
import re
import subprocess
import sys

# Functions that pthreads(7) requires to be cancellation points, and others that glibc makes cancellation points
POINTS = """accept accept4 aio_suspend clock_nanosleep close connect copy_file_range creat fcntl fdatasync fsync getmsg getpmsg
lockf mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep open openat pause poll ppoll pread preadv
preadv2 pselect pthread_clockjoin_np pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join
pthread_testcancel pthread_timedjoin_np pwrite pwritev pwritev2 read readv recv recvfrom recvmmsg recvmsg select sem_clockwait
sem_timedwait sem_wait send sendmmsg sendmsg sendto sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice
sync_file_range system tcdrain tee usleep vmsplice wait wait3 wait4 waitid waitpid write writev
epoll_pwait epoll_wait eventfd_read eventfd_write fallocate posix_fallocate getrandom
dlopen fclose fdopendir fflush fgetc fgets fopen fprintf fputc fputs fread freopen fscanf fseek fwrite getaddrinfo
gethostbyname getifaddrs getline getdelim __getdelim getnameinfo glob if_indextoname if_nametoindex mkstemp openlog perror
popen printf putc putchar puts realpath syslog tmpfile vfprintf vprintf wordexp""".split()
# Allowed calls: verbs/events.c and ucma/channel.c call readv(), host/waiter.c calls ppoll().
WAITS = dict.fromkeys(["libibverbs.so.1", "liburoce.so.0"], {"readv", "ppoll", "__ppoll_chk"})


def plain(name: str) -> str:
    """Returns the name without the suffixes and prefixes for large files and for _FORTIFY_SOURCE."""
    fortified = re.fullmatch(r"__(\w+?)_chk", name)
    name = fortified.group(1) if fortified else name
    return {"preadv64v2": "preadv2", "pwritev64v2": "pwritev2"}.get(name, name.removesuffix("64"))


def symbols(library: pathlib.Path, which: str) -> set[str]:
    out = subprocess.run(["nm", "-D", which, library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if line}


def complaints(library: pathlib.Path, wrapped: set[str], straight: set[str]):
    imported, exported = symbols(library, "--undefined-only"), symbols(library, "--defined-only")
    allowed = WAITS.get(library.name, set())
    for name in sorted(imported - allowed):
        if plain(name) in POINTS and name not in wrapped:
            yield f"{library.name} calls {name}(), a cancellation point: add it to lib/cancel"
        if name in straight:
            yield f"{library.name} calls {name}() of the C library: is it linked with uncancelled_link?"
    for name in sorted(exported):
        if plain(name) in POINTS or name.startswith("__wrap_"):
            yield f"{library.name} exports {name}: other libraries would call it"


def main() -> int:
    source, names, *libraries = map(pathlib.Path, sys.argv[1:])
    wrapped = set(names.read_text().split())
    straight = set(re.findall(r"^STRAIGHT\([^,]+, (\w+)", source.read_text(), re.M)) | {"poll"}
    problems = [f"{names.name} lacks {name}" for name in sorted(straight - wrapped)]
    for library in libraries:
        problems += complaints(library, wrapped, straight)
    print(*problems, sep="\n")
    print(f"{len(libraries)} libraries, {len(wrapped)} calls are none of the C library's")
    return 1 if problems or not libraries else 0


if __name__ == "__main__":
    sys.exit(main())
