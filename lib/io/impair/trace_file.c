/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_file.c - see trace_file.h. */
#define _GNU_SOURCE /* getline, O_CLOEXEC */
#include "io/impair/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define BUFFER_SIZE 65536u
#define SORTED_MAX                                                                                 \
    (256u * 1024u * 1024u)              /* largest file that is sorted when it is closed,
                                              bytes */
#define LINES_MAX (16u * 1024u * 1024u) /* maximum number of lines of a trace in memory */

struct uro_impair_trace_file {
    int fd;
    int error;     /* errno of the first failed write */
    bool reported; /* the error was returned */
    size_t used;   /* bytes in the buffer */
    char path[PATH_MAX];
    char buffer[BUFFER_SIZE];
};

/* ---- writing -------------------------------------------------------------- */

/* Writes all @length bytes. Returns 0 or an errno. */
static int write_all(int fd, const char *from, size_t length)
{
    while (length > 0) {
        const ssize_t written = write(fd, from, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        from += written;
        length -= (size_t)written;
    }
    return 0;
}

/* Opens and locks the file, and empties it. Returns a descriptor or -errno. */
static int open_locked(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);

    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && ftruncate(fd, 0) == 0)
        return fd;
    const int error = -errno;
    (void)close(fd);
    return error;
}

struct uro_impair_trace_file *uro_impair_trace_create(const char *path,
                                                      const struct uro_impair_trace_header *header,
                                                      char error[static URO_IMPAIR_FILE_ERROR_MAX])
{
    struct uro_impair_trace_file *file = malloc(sizeof *file);

    if (file == NULL) {
        (void)snprintf(error, URO_IMPAIR_FILE_ERROR_MAX, "out of memory");
        return NULL;
    }
    file->error = 0;
    file->reported = false;
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    file->fd = open_locked(file->path);
    if (file->fd == -EWOULDBLOCK) {
        (void)snprintf(file->path, sizeof file->path, "%.3900s.%.32s.%d", path, header->device,
                       (int)getpid());
        file->fd = open_locked(file->path);
    }
    if (file->fd < 0) {
        (void)snprintf(error, URO_IMPAIR_FILE_ERROR_MAX, "%.200s: %s", file->path,
                       strerror(-file->fd));
        free(file);
        return NULL;
    }
    (void)uro_impair_trace_print_header(header, file->buffer);
    file->used = strlen(file->buffer);
    uro_impair_trace_flush(file);
    return file;
}

void uro_impair_trace_flush(struct uro_impair_trace_file *file)
{
    if (file->error == 0 && file->used > 0)
        file->error = write_all(file->fd, file->buffer, file->used);
    file->used = 0;
}

void uro_impair_trace_write(struct uro_impair_trace_file *file,
                            const struct uro_impair_trace_line *line)
{
    if (file->used + URO_IMPAIR_TRACE_LINE > sizeof file->buffer)
        uro_impair_trace_flush(file);
    (void)uro_impair_trace_print(line, file->buffer + file->used);
    file->used += strlen(file->buffer + file->used);
}

int uro_impair_trace_error(struct uro_impair_trace_file *file)
{
    const int error = file->reported ? 0 : file->error;

    file->reported = file->reported || error != 0;
    return error;
}

/* Sorts the file. A file that cannot be sorted stays as it is. */
static void sort(const struct uro_impair_trace_file *file)
{
    char error[URO_IMPAIR_FILE_ERROR_MAX];
    struct uro_impair_trace trace;
    const off_t size = lseek(file->fd, 0, SEEK_END);

    if (file->error != 0 || size < 0 || size > (off_t)SORTED_MAX ||
        uro_impair_trace_load(&trace, file->path, error) != 0)
        return;
    (void)!uro_impair_trace_store(&trace, file->path);
    uro_impair_trace_free(&trace);
}

void uro_impair_trace_close(struct uro_impair_trace_file *file)
{
    if (file == NULL)
        return;
    uro_impair_trace_flush(file);
    sort(file);
    uro_impair_trace_abandon(file);
}

void uro_impair_trace_abandon(struct uro_impair_trace_file *file)
{
    if (file == NULL)
        return;
    (void)close(file->fd);
    free(file);
}

int uro_impair_trace_store(const struct uro_impair_trace *trace, const char *path)
{
    char buffer[BUFFER_SIZE], new[PATH_MAX];
    size_t used;

    if (snprintf(new, sizeof new, "%s.new", path) >= (int)sizeof new)
        return -ENAMETOOLONG;
    const int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd < 0)
        return -errno;
    (void)uro_impair_trace_print_header(&trace->header, buffer);
    used = strlen(buffer);
    int error = 0;
    for (size_t i = 0; i < trace->count && error == 0; i++) {
        (void)uro_impair_trace_print(&trace->lines[i], buffer + used);
        used += strlen(buffer + used);
        if (used + URO_IMPAIR_TRACE_LINE <= sizeof buffer)
            continue;
        error = write_all(fd, buffer, used);
        used = 0;
    }
    if (error == 0)
        error = write_all(fd, buffer, used);
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(new, path) != 0)
        error = errno;
    if (error != 0)
        (void)unlink(new);
    return -error;
}

/* ---- reading -------------------------------------------------------------- */

struct loader {
    struct uro_impair_trace *trace;
    const char *path;
    char *error;
    size_t capacity;
    unsigned line;
};

static int refuse(const struct loader *loader, int error, const char *why)
{
    if (loader->line > 1)
        (void)snprintf(loader->error, URO_IMPAIR_FILE_ERROR_MAX, "%.100s, line %u: %s",
                       loader->path, loader->line, why);
    else
        (void)snprintf(loader->error, URO_IMPAIR_FILE_ERROR_MAX, "%.100s: %s", loader->path, why);
    return error;
}

/* Makes space for a line. Returns 0, or a negative errno value with a message. */
static int grow(struct loader *loader)
{
    struct uro_impair_trace *trace = loader->trace;

    if (trace->count < loader->capacity)
        return 0;
    if (trace->count >= LINES_MAX)
        return refuse(loader, -E2BIG, "has more than 16777216 lines; shorten the run");
    loader->capacity = loader->capacity == 0 ? 1024 : 2 * loader->capacity;
    struct uro_impair_trace_line *lines =
        realloc(trace->lines, loader->capacity * sizeof *trace->lines);
    if (lines == NULL)
        return refuse(loader, -ENOMEM, "out of memory");
    trace->lines = lines;
    return 0;
}

/* Adds a line of the file, without its newline. Returns 0, or a negative errno value with a
 * message. */
static int add_line(struct loader *loader, char *text)
{
    struct uro_impair_trace *trace = loader->trace;

    if (loader->line == 1) {
        const char *wrong = uro_impair_trace_parse_header(&trace->header, text);
        return wrong != NULL ? refuse(loader, -EINVAL, wrong) : 0;
    }
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    const int error = grow(loader);
    if (error != 0)
        return error;
    const char *wrong = uro_impair_trace_parse(&trace->lines[trace->count], text);
    if (wrong != NULL)
        return refuse(loader, -EINVAL, wrong);
    trace->count++;
    return 0;
}

static int read_lines(struct loader *loader, FILE *file)
{
    char text[URO_IMPAIR_TRACE_LINE];
    int result = 0;

    while (result == 0 && fgets(text, sizeof text, file) != NULL) {
        const size_t length = strcspn(text, "\n");
        loader->line++;
        if (text[length] != '\n' && feof(file) == 0)
            return refuse(loader, -EINVAL,
                          loader->line == 1 ? "is not a trace: its first line is too long"
                                            : "is too long");
        text[length] = '\0';
        result = add_line(loader, text);
    }
    if (result == 0 && ferror(file) != 0)
        return refuse(loader, -EIO, "cannot be read");
    if (result == 0 && loader->line == 0) {
        char empty[] = "";
        loader->line = 1;
        result = add_line(loader, empty);
    }
    return result;
}

int uro_impair_trace_load(struct uro_impair_trace *trace, const char *path,
                          char error[static URO_IMPAIR_FILE_ERROR_MAX])
{
    struct loader loader = { .trace = trace, .path = path, .error = error };

    *trace = (struct uro_impair_trace){ 0 };
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return refuse(&loader, -errno, strerror(errno));
    const int result = read_lines(&loader, file);
    (void)fclose(file);
    if (result != 0) {
        uro_impair_trace_free(trace);
        return result;
    }
    if (trace->count > 0)
        qsort(trace->lines, trace->count, sizeof *trace->lines, uro_impair_trace_compare);
    trace->count = uro_impair_trace_merge(trace->lines, trace->count);
    return 0;
}

void uro_impair_trace_free(struct uro_impair_trace *trace)
{
    free(trace->lines);
    *trace = (struct uro_impair_trace){ 0 };
}
