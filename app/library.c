/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c - see library.h. */
#define _GNU_SOURCE /* readlink */
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"

#define NOTES_MAX                                                                                  \
    4096u /* maximum bytes of ELF notes that are read; uroce's libraries have a few hundred */

/* Writes the path of this program to @self. Returns false if /proc/self/exe cannot be read. */
static bool own_path(char self[static PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);

    if (length < 0)
        return false;
    self[length] = '\0';
    return true;
}

/* Writes the library's directory and path, from @directory relative to the directory @bin. Returns
 * whether the library can be read there. */
static bool is_in(struct uro_library *library, const char *bin, const char *directory)
{
    char candidate[2 * PATH_MAX];

    (void)snprintf(candidate, sizeof candidate, "%s/%s", bin, directory);
    if (realpath(candidate, library->directory) == NULL)
        return false;
    (void)snprintf(library->path, sizeof library->path, "%s/%s", library->directory, library->name);
    return access(library->path, R_OK) == 0;
}

/* ---- the version of the library -------------------------------------------------------------- */

/* Copies the version from the note at @at. Returns false if it is not a complete note of uroce. */
static bool take_version(const uint8_t *at, size_t size, char version[static URO_VERSION_NOTE_MAX])
{
    struct uro_version_note note;

    if (size < sizeof note)
        return false;
    memcpy(&note, at, sizeof note);
    if (note.type != URO_VERSION_NOTE_TYPE || note.version_size != URO_VERSION_NOTE_MAX ||
        note.owner_size != sizeof URO_VERSION_NOTE_OWNER ||
        memcmp(note.owner, URO_VERSION_NOTE_OWNER, sizeof URO_VERSION_NOTE_OWNER) != 0)
        return false;
    memcpy(version, note.version, URO_VERSION_NOTE_MAX);
    version[URO_VERSION_NOTE_MAX - 1] = '\0';
    return true;
}

/* Copies the version from ELF notes of @size bytes. Returns false if the notes have no version. */
static bool find_version(const uint8_t *notes, size_t size,
                         char version[static URO_VERSION_NOTE_MAX])
{
    const size_t header = offsetof(struct uro_version_note, owner);
    uint32_t sizes[2]; /* length of the owner's name, length of the version */

    for (size_t at = 0; at + header <= size;) {
        if (take_version(notes + at, size - at, version))
            return true;
        memcpy(sizes, notes + at, sizeof sizes);
        if (sizes[0] > size || sizes[1] > size)
            return false; /* not a list of notes */
        at += header + ((sizes[0] + 3) & ~3u) + ((sizes[1] + 3) & ~3u);
    }
    return false;
}

/* Reads the version of the library @fd. Returns false if the file is not an ELF file, or has no
 * version. */
static bool read_version(int fd, char version[static URO_VERSION_NOTE_MAX])
{
    static uint8_t notes[NOTES_MAX];
    ElfW(Ehdr) file;
    ElfW(Phdr) header;

    if (pread(fd, &file, sizeof file, 0) != (ssize_t)sizeof file ||
        memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_phentsize != sizeof header)
        return false;
    for (unsigned i = 0; i < file.e_phnum; i++) {
        const off_t at = (off_t)(file.e_phoff + i * sizeof header);
        if (pread(fd, &header, sizeof header, at) != (ssize_t)sizeof header)
            return false;
        if (header.p_type != PT_NOTE || header.p_filesz > sizeof notes)
            continue;
        const ssize_t got = pread(fd, notes, header.p_filesz, (off_t)header.p_offset);
        if (got > 0 && find_version(notes, (size_t)got, version))
            return true;
    }
    return false;
}

/* Returns whether the library has the version of this program. If not, writes a message to
 * @error. */
static bool fits(const struct uro_library *library, char error[static URO_LIBRARY_ERROR_MAX])
{
    char version[URO_VERSION_NOTE_MAX] = "";
    const int fd = open(library->path, O_RDONLY | O_CLOEXEC);
    const bool good = fd >= 0 && read_version(fd, version);

    if (fd >= 0)
        (void)close(fd);
    if (good && strcmp(version, URO_VERSION) == 0)
        return true;
    if (good)
        (void)snprintf(error, URO_LIBRARY_ERROR_MAX,
                       "%s is of uroce %s, and this program is of uroce %s; install uroce as a "
                       "whole from one build",
                       library->path, version, URO_VERSION);
    else
        (void)snprintf(error, URO_LIBRARY_ERROR_MAX,
                       "%s is damaged or is not a library of uroce; install uroce again",
                       library->path);
    return false;
}

/* ---- the directory of the library ------------------------------------------------------------ */

bool uro_library_find(struct uro_library *library, char error[static URO_LIBRARY_ERROR_MAX])
{
    char self[PATH_MAX];

    if (!own_path(self)) {
        (void)snprintf(error, URO_LIBRARY_ERROR_MAX,
                       "cannot find %s, because /proc/self/exe cannot be read (%s); mount /proc",
                       library->name, strerror(errno));
        return false;
    }
    const char *bin = dirname(self);
    const char *last = strrchr(bin, '/');
    if (is_in(library, bin, URO_LIBRARY_DIR_FROM_BIN) ||
        (last != NULL && strcmp(last, "/app") == 0 && is_in(library, bin, library->in_build)))
        return library->any_version || fits(library, error);
    (void)snprintf(error, URO_LIBRARY_ERROR_MAX,
                   "%s is missing: it must be in %s/" URO_LIBRARY_DIR_FROM_BIN
                   "; move uroce only as a whole, or install it again",
                   library->name, bin);
    return false;
}
