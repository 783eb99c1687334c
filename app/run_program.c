/* SPDX-License-Identifier: BSD-3-Clause */
/* run_program.c - checks the program that `uroce run` starts, because a library cannot be preloaded
 * into every program. */
#define _GNU_SOURCE /* strchrnul */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run.h"

#define HEADERS_MAX 64u   /* program headers that are read */
#define DYNAMIC_MAX 1024u /* entries of the dynamic section that are read */
#define NAME_SIZE   16u   /* bytes of a library's name; only its beginning matters */

/* ---- finding the program --------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, X_OK) == 0;
}

/* Finds the file that execvp() would start. */
static bool find_program(const char *name, char path[static PATH_MAX])
{
    const char *entry = getenv("PATH");

    if (strchr(name, '/') != NULL) {
        int length = snprintf(path, PATH_MAX, "%s", name);
        return length < PATH_MAX && is_program(path);
    }
    if (entry == NULL)
        entry = "/bin:/usr/bin";
    for (;;) {
        const char *end = strchrnul(entry, ':');
        const bool here = end == entry; /* an empty entry is the current directory */
        int length = snprintf(path, PATH_MAX, "%.*s/%s", here ? 1 : (int)(end - entry),
                              here ? "." : entry, name);
        if (length < PATH_MAX && is_program(path))
            return true;
        if (*end == '\0')
            return false;
        entry = end + 1;
    }
}

/* ---- privileges ------------------------------------------------------------------------------ */

/* Returns the reason why the program has more privileges than its caller, or NULL. The dynamic
 * loader ignores LD_PRELOAD for such a program. */
static const char *more_rights(const char *path)
{
    struct stat is;
    struct statvfs system;

    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 || stat(path, &is) != 0 ||
        (statvfs(path, &system) == 0 && (system.f_flag & ST_NOSUID) != 0))
        return NULL;
    if ((is.st_mode & S_ISUID) != 0 && is.st_uid != getuid())
        return "set-user-ID";
    if ((is.st_mode & S_ISGID) != 0 && (is.st_mode & S_IXGRP) != 0 && is.st_gid != getgid())
        return "set-group-ID";
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return "a program with capabilities of its own";
    return NULL;
}

/* ---- how the program was linked -------------------------------------------------------------- */

struct elf {
    int fd;
    Elf64_Phdr headers[HEADERS_MAX];
    uint32_t count;
};

static bool read_at(const struct elf *elf, void *out, size_t size, uint64_t offset)
{
    return offset <= INT64_MAX && pread(elf->fd, out, size, (off_t)offset) == (ssize_t)size;
}

/* Reads the ELF headers. Returns false for scripts, and for programs of another word size or byte
 * order. */
static bool read_headers(struct elf *elf)
{
    const uint16_t one = 1;
    const uint8_t order = *(const uint8_t *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    Elf64_Ehdr file;

    if (!read_at(elf, &file, sizeof file, 0) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
        file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_ident[EI_DATA] != order ||
        file.e_phentsize != sizeof elf->headers[0] || file.e_phnum > HEADERS_MAX)
        return false;
    elf->count = file.e_phnum;
    return read_at(elf, elf->headers, elf->count * sizeof elf->headers[0], file.e_phoff);
}

static const Elf64_Phdr *header_of(const struct elf *elf, uint32_t type)
{
    for (uint32_t i = 0; i < elf->count; i++)
        if (elf->headers[i].p_type == type)
            return &elf->headers[i];
    return NULL;
}

/* Returns the file offset of the data that is loaded to @address; 0: none. */
static uint64_t offset_of(const struct elf *elf, uint64_t address)
{
    for (uint32_t i = 0; i < elf->count; i++) {
        const Elf64_Phdr *entry = &elf->headers[i];
        if (entry->p_type == PT_LOAD && address >= entry->p_vaddr &&
            address - entry->p_vaddr < entry->p_filesz)
            return entry->p_offset + (address - entry->p_vaddr);
    }
    return 0;
}

/* Returns whether the program needs a library whose name begins with @begin. */
static bool needs(const struct elf *elf, const char *begin)
{
    static Elf64_Dyn entries[DYNAMIC_MAX];
    const Elf64_Phdr *dynamic = header_of(elf, PT_DYNAMIC);
    uint64_t strings = 0;
    char name[NAME_SIZE + 1] = "";

    if (dynamic == NULL || dynamic->p_filesz > sizeof entries ||
        !read_at(elf, entries, dynamic->p_filesz, dynamic->p_offset))
        return false;
    const size_t count = dynamic->p_filesz / sizeof entries[0];
    for (size_t i = 0; i < count; i++)
        if (entries[i].d_tag == DT_STRTAB)
            strings = offset_of(elf, entries[i].d_un.d_ptr);
    for (size_t i = 0; i < count && strings != 0; i++)
        if (entries[i].d_tag == DT_NEEDED &&
            read_at(elf, name, NAME_SIZE, strings + entries[i].d_un.d_val) &&
            strncmp(name, begin, strlen(begin)) == 0)
            return true;
    return false;
}

/* ---- warnings -------------------------------------------------------------------------------- */

static bool order_is_not_checked(void)
{
    const char *options = getenv("ASAN_OPTIONS");

    return options != NULL && (strstr(options, "verify_asan_link_order=0") != NULL ||
                               strstr(options, "verify_asan_link_order=false") != NULL);
}

static void look_at_file(const char *path)
{
    struct elf elf = { .fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) };

    if (elf.fd < 0)
        return;
    if (read_headers(&elf)) {
        if (header_of(&elf, PT_INTERP) == NULL)
            (void)fprintf(
                stderr,
                "uroce run: WARNING: %s is linked statically, so uroce cannot be loaded into "
                "it and it finds no devices (programs that it starts may); link it with "
                "the shared libibverbs\n",
                path);
        else if (needs(&elf, "libasan.so") && !order_is_not_checked())
            (void)fprintf(
                stderr,
                "uroce run: WARNING: %s is built with AddressSanitizer, which ends a program if "
                "another library is loaded first; set ASAN_OPTIONS=verify_asan_link_order=0\n",
                path);
    }
    (void)close(elf.fd);
}

void uro_run_check_program(const char *program)
{
    char path[PATH_MAX];

    if (!find_program(program, path))
        return; /* the caller reports the error of execvp() */
    const char *rights = more_rights(path);
    if (rights == NULL) {
        look_at_file(path);
        return;
    }
    (void)fprintf(
        stderr,
        "uroce run: WARNING: %s is %s, so the system does not load uroce into it, and it "
        "finds no devices; run a copy of it without these rights, or run `uroce run` as the "
        "user whose rights it gets\n",
        path, rights);
}
