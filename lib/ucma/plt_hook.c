/* SPDX-License-Identifier: BSD-3-Clause */
/* plt_hook.c - see plt_hook.h for the contract. The table of a library that was linked with -z
 * relro is read-only: its pages are made writable during the change.
 */
#include "ucma/plt_hook.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define IS_SLOT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_SLOT(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#elif defined(__s390x__)
#define IS_SLOT(type) ((type) == R_390_JMP_SLOT || (type) == R_390_GLOB_DAT)
#else
#define IS_SLOT(type) ((void)(type), false) /* unknown processor: no slot is found */
#endif

struct object {
    const void *inside; /* address in the object to find */
    bool found;
    const char *name;
    uintptr_t base;
    const ElfW(Dyn) * dynamic;
    uintptr_t relro; /* start of the segment that is read-only after relocation; 0: none */
    size_t relro_size;
};

static bool contains(const struct dl_phdr_info *info, const void *address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)address >= start &&
            (uintptr_t)address - start < segment->p_memsz)
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct object *object = argument;

    (void)size;
    if (!contains(info, object->inside))
        return 0;
    object->found = true;
    object->name = info->dlpi_name;
    object->base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_DYNAMIC)
            object->dynamic = (const void *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type == PT_GNU_RELRO) {
            object->relro = info->dlpi_addr + segment->p_vaddr;
            object->relro_size = segment->p_memsz;
        }
    }
    return 1;
}

static bool find(struct object *object, const void *inside)
{
    *object = (struct object){ .inside = inside };
    (void)dl_iterate_phdr(look, object);
    return object->found;
}

const char *uro_plt_hook_object(const void *inside)
{
    struct object object;

    return find(&object, inside) ? object.name : NULL;
}

/* Returns the entry of the dynamic section, or 0. In some C libraries, addresses there are relative
 * to the object. */
static uintptr_t entry(const struct object *object, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *dyn = object->dynamic; dyn != NULL && dyn->d_tag != DT_NULL; dyn++)
        if (dyn->d_tag == tag)
            return dyn->d_un.d_ptr;
    return 0;
}

static uintptr_t table(const struct object *object, ElfW(Sxword) tag)
{
    uintptr_t address = entry(object, tag);

    return address != 0 && address < object->base ? address + object->base : address;
}

struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    struct {
        const ElfW(Rela) * entries;
        size_t count;
    } relocations[2]; /* relocations of calls, and relocations of addresses */
};

static struct tables read_tables(const struct object *object)
{
    struct tables tables = { .symbols = (const void *)table(object, DT_SYMTAB),
                             .strings = (const void *)table(object, DT_STRTAB) };

    tables.relocations[0].entries = (const void *)table(object, DT_JMPREL);
    tables.relocations[0].count = entry(object, DT_PLTRELSZ) / sizeof(ElfW(Rela));
    tables.relocations[1].entries = (const void *)table(object, DT_RELA);
    tables.relocations[1].count = entry(object, DT_RELASZ) / sizeof(ElfW(Rela));
    return tables;
}

static bool is_named(const struct uro_plt_hook *hook, const char *name)
{
    for (unsigned i = 0; i < URO_PLT_HOOK_NAMES && hook->names[i] != NULL; i++)
        if (strcmp(hook->names[i], name) == 0)
            return true;
    return false;
}

/* Calls @act for each slot of the functions of @hook. Returns the number of slots, or the error of
 * @act. */
static int each_slot(const struct object *object, const struct uro_plt_hook *hook,
                     int (*act)(const struct object *object, uintptr_t slot, void (*with)(void)))
{
    const struct tables tables = read_tables(object);
    int found = 0;

    if (tables.symbols == NULL || tables.strings == NULL)
        return 0;
    for (unsigned t = 0; t < 2; t++)
        for (size_t i = 0; tables.relocations[t].entries != NULL && i < tables.relocations[t].count;
             i++) {
            const ElfW(Rela) *rela = &tables.relocations[t].entries[i];
            const ElfW(Sym) *symbol = &tables.symbols[ELF64_R_SYM(rela->r_info)];
            if (!IS_SLOT(ELF64_R_TYPE(rela->r_info)) ||
                !is_named(hook, tables.strings + symbol->st_name))
                continue;
            int error = act(object, object->base + rela->r_offset, hook->with);
            if (error != 0)
                return error;
            found++;
        }
    return found;
}

static int count(const struct object *object, uintptr_t slot, void (*with)(void))
{
    (void)object;
    (void)slot;
    (void)with;
    return 0;
}

/* Returns whether the slot is read-only. Only whole pages of the segment are read-only, so a slot
 * on its last page may be writable. */
static bool read_only(const struct object *object, uintptr_t slot, size_t page)
{
    uintptr_t start = object->relro & ~(page - 1);
    uintptr_t end = (object->relro + object->relro_size) & ~(page - 1);

    return object->relro != 0 && slot >= start && slot < end;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Sets the protection of the slot's page, unless the page is always writable. */
static int protect(const struct object *object, uintptr_t slot, int protection)
{
    const size_t page = page_size();

    if (!read_only(object, slot, page))
        return 0;
    return mprotect((void *)(slot & ~(page - 1)), page, protection) == 0 ? 0 : -EACCES;
}

static int make_writable(const struct object *object, uintptr_t slot, void (*with)(void))
{
    (void)with;
    return protect(object, slot, PROT_READ | PROT_WRITE);
}

/* A page that cannot become read-only stays writable. The program works with it. */
static int make_read_only(const struct object *object, uintptr_t slot, void (*with)(void))
{
    (void)with;
    (void)!protect(object, slot, PROT_READ);
    return 0;
}

static int overwrite(const struct object *object, uintptr_t slot, void (*with)(void))
{
    (void)object;
    atomic_store((_Atomic uintptr_t *)slot, (uintptr_t)with);
    return 0;
}

int uro_plt_hook_install(const void *inside, const struct uro_plt_hook *hooks, uint32_t hook_count)
{
    struct object object;
    int error = 0;

    if (!find(&object, inside))
        return -ENOENT;
    for (uint32_t i = 0; i < hook_count; i++)
        if (each_slot(&object, &hooks[i], count) == 0)
            return -ENOENT;
    for (uint32_t i = 0; i < hook_count && error >= 0; i++)
        error = each_slot(&object, &hooks[i], make_writable);
    for (uint32_t i = 0; i < hook_count && error >= 0; i++)
        (void)each_slot(&object, &hooks[i], overwrite);
    for (uint32_t i = 0; i < hook_count; i++)
        (void)each_slot(&object, &hooks[i], make_read_only);
    return error < 0 ? error : 0;
}
