/* SPDX-License-Identifier: BSD-3-Clause */
/* card.c - see card.h: reads the text of a card. libinih splits each line into key and value.
 * take_line() passes the lines to libinih, as in config.c. It counts the lines and removes the
 * comments.
 */
#define _GNU_SOURCE /* fmemopen */
#include "config/card.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/link_rate.h"

#define LINE_SIZE   512u
#define FAR         3u /* maximum letters that may differ between a word and the proposed word */
#define WORDS_MAX   64u
#define WHERE_MAX   96u
#define VALUE_SHOWN 40 /* characters of a value in a message */

struct reader {
    struct uro_card *card;
    FILE *in;
    char where[WHERE_MAX];
    unsigned line;
    uint64_t given; /* bit i: key i was given */
    char *error;    /* "": no error yet */
};

URO_PRINTF(2)
static void refuse(struct reader *reader, const char *format, ...)
{
    va_list arguments;

    if (reader->error[0] != '\0')
        return;
    const int used =
        snprintf(reader->error, URO_CARD_ERROR_MAX, "%s:%u: ", reader->where, reader->line);
    va_start(arguments, format);
    (void)vsnprintf(reader->error + used, URO_CARD_ERROR_MAX - (unsigned)used, format, arguments);
    va_end(arguments);
}

/* ---- proposals ------------------------------------------------------------ */

/* Returns the number of letters to insert, remove or replace to make @a into @b. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[WORDS_MAX];
    const size_t length = strlen(b);

    if (length >= WORDS_MAX || strlen(a) >= WORDS_MAX)
        return FAR + 1;
    for (unsigned i = 0; i <= length; i++)
        row[i] = i;
    for (unsigned j = 1; a[j - 1] != '\0'; j++) {
        unsigned corner = row[0];
        row[0] = j;
        for (unsigned i = 1; i <= length; i++) {
            const unsigned above = row[i];
            unsigned least = corner + (a[j - 1] != b[i - 1]);
            least = above + 1 < least ? above + 1 : least;
            row[i] = row[i - 1] + 1 < least ? row[i - 1] + 1 : least;
            corner = above;
        }
    }
    return row[length];
}

/* Returns the word of the table that resembles @word most, or NULL if none does. */
static const char *nearest(const char *word, const char *const *words, size_t count)
{
    const char *best = NULL;
    unsigned least = FAR + 1;

    for (size_t i = 0; i < count; i++) {
        const unsigned far = distance(word, words[i]);
        if (far < least) {
            least = far;
            best = words[i];
        }
    }
    return best;
}

/* Refuses a word that is not in the table, with the word that was probably meant, or with all. */
static void refuse_word(struct reader *reader, const char *what, const char *word,
                        const char *const *words, size_t count)
{
    const char *meant = nearest(word, words, count);
    char all[200] = "";

    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, " %s", words[i]);
    }
    if (meant != NULL)
        refuse(reader, "unknown %s \"%.40s\"; did you mean %s?", what, word, meant);
    else
        refuse(reader, "unknown %s \"%.40s\"; known:%s", what, word, all);
}

/* ---- values --------------------------------------------------------------- */

static const struct number {
    const char *key;
    uint64_t least, most;
} numbers[] = {
#define X(id, key, least, most) { key, least, most },
    URO_CARD_NUMBERS_X(X)
#undef X
};
static_assert(URO_CARD_NUMBERS <= 64, "uro_card.known has a bit for each number");

static const struct missing {
    const char *word;
    int error;
    const char *name;
} missing[] = {
#define X(id, word, error, name) { word, error, name },
    URO_CARD_MISSING_X(X)
#undef X
};

static const struct {
    const char *name;
    int number;
} errors[] = { { "EOPNOTSUPP", EOPNOTSUPP },
               { "ENOSYS", ENOSYS },
               { "EINVAL", EINVAL },
               { "ENOMEM", ENOMEM },
               { "EPERM", EPERM } };

static bool parse_number(const char *text, uint64_t *number)
{
    const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *number = strtoull(text, &end, hex ? 16 : 10);
    return errno == 0 && *end == '\0' && end > text + (hex ? 2 : 0);
}

static void set_number(struct reader *reader, enum uro_card_number id, const char *value)
{
    const struct number *number = &numbers[id];
    uint64_t read;

    if (!parse_number(value, &read) || read < number->least || read > number->most) {
        refuse(reader,
               "%s = %.*s: must be a number from %llu to %llu, or a hexadecimal number with "
               "0x, or unknown",
               number->key, VALUE_SHOWN, value, (unsigned long long)number->least,
               (unsigned long long)number->most);
        return;
    }
    reader->card->numbers[id] = read;
    reader->card->known |= UINT64_C(1) << id;
}

static void set_text(struct reader *reader, const char *key, char *out, const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if (!isprint((unsigned char)*at)) {
            refuse(reader, "%s has a character that cannot be printed", key);
            return;
        }
    if (value[0] == '\0' || strlen(value) >= URO_CARD_TEXT_MAX)
        refuse(reader, "%s = %.*s: must have 1 to %u characters", key, VALUE_SHOWN, value,
               URO_CARD_TEXT_MAX - 1);
    else
        memcpy(out, value, strlen(value) + 1);
}

static void set_rate(struct reader *reader, const char *value)
{
    const struct uro_link_rate *rate = uro_link_rate_parse(value);

    if (rate == NULL)
        refuse(reader,
               "rate = %.*s: must be a number of Gb/s: 2.5, 5, 10, 20, 25, 40, 50, 56, 100, 200, "
               "400 or 800",
               VALUE_SHOWN, value);
    else
        reader->card->speed = rate->speed;
}

/* Finds the value in the table. */
static bool set_choice(struct reader *reader, const char *key, const char *value,
                       const char *const *choices, size_t count, unsigned *choice)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(value, choices[i]) == 0) {
            *choice = i;
            return true;
        }
    refuse_word(reader, key, value, choices, count);
    return false;
}

static void set_roce_v1(struct reader *reader, const char *value)
{
    static const char *const choices[] = { "no", "yes" };
    unsigned choice;

    if (set_choice(reader, "value of roce_v1", value, choices, URO_ARRAY_LEN(choices), &choice))
        reader->card->roce_v1 = choice == 1;
}

static void set_grants(struct reader *reader, const char *value)
{
    static const char *const choices[] = { "exact", "power_of_two", "power_of_two_less_1" };
    unsigned choice;

    if (set_choice(reader, "value of grants", value, choices, URO_ARRAY_LEN(choices), &choice))
        reader->card->grants = (enum uro_card_grants)(choice + URO_CARD_GRANTS_EXACT);
}

static void set_long_mr(struct reader *reader, const char *value)
{
    static const char *const choices[] = { "EINVAL", "ENOMEM" };
    unsigned choice;

    if (set_choice(reader, "value of long_mr", value, choices, URO_ARRAY_LEN(choices), &choice))
        reader->card->long_mr = (enum uro_card_long_mr)choice;
}

/* Reads one word of `lacks`: a feature, and perhaps a colon and the errno of its verbs. */
static void set_missing_word(struct reader *reader, char *word)
{
    const char *names[URO_ARRAY_LEN(errors)], *words[URO_CARD_MISSING];
    char *colon = strchr(word, ':');
    unsigned what, error = 0;

    for (size_t i = 0; i < URO_ARRAY_LEN(errors); i++)
        names[i] = errors[i].name;
    for (size_t i = 0; i < URO_CARD_MISSING; i++)
        words[i] = missing[i].word;
    if (colon != NULL)
        *colon = '\0';
    if (!set_choice(reader, "word of lacks", word, words, URO_CARD_MISSING, &what) ||
        (colon != NULL &&
         !set_choice(reader, "errno", colon + 1, names, URO_ARRAY_LEN(errors), &error)))
        return;
    if (reader->card->missing[what] != 0)
        refuse(reader, "\"%s\" is given twice", word);
    reader->card->missing[what] =
        (uint8_t)(colon != NULL ? errors[error].number : missing[what].error);
}

static void set_missing(struct reader *reader, const char *value)
{
    char copy[LINE_SIZE];
    char *rest = copy, *word;

    (void)snprintf(copy, sizeof copy, "%s", value);
    if (value[strspn(value, " ,\t")] == '\0')
        refuse(reader, "lacks needs a word, such as srq");
    while ((word = strsep(&rest, " ,\t")) != NULL)
        if (word[0] != '\0')
            set_missing_word(reader, word);
}

/* Reads the types of queue pairs that the card has. The card lacks the other types. */
static void set_types(struct reader *reader, const char *value)
{
    static const char *const types[] = { "uc", "ud", "xrc", "rc" };
    static const enum uro_card_missing lacking[] = { URO_CARD_NO_UC, URO_CARD_NO_UD,
                                                     URO_CARD_NO_XRC };
    char copy[LINE_SIZE];
    char *rest = copy, *word;
    unsigned type, has = 0;

    (void)snprintf(copy, sizeof copy, "%s", value);
    while ((word = strsep(&rest, " ,\t")) != NULL)
        if (word[0] != '\0' && set_choice(reader, "type", word, types, URO_ARRAY_LEN(types), &type))
            has |= 1u << type;
    if ((has & 1u << 3) == 0)
        refuse(reader, "types must contain rc, because every card has RC");
    for (type = 0; type < URO_ARRAY_LEN(lacking); type++)
        if ((has & 1u << type) == 0 && reader->card->missing[lacking[type]] == 0)
            reader->card->missing[lacking[type]] = (uint8_t)missing[lacking[type]].error;
}

/* ---- keys ----------------------------------------------------------------- */

enum other_key {
    CARD,
    FW_VER,
    HCA_TYPE,
    BOARD_ID,
    RATE,
    ROCE_V1,
    GRANTS,
    LONG_MR,
    MISSING,
    TYPES,
    OTHERS
};

static const char *const others[] = {
    [CARD] = "card",     [FW_VER] = "firmware", [HCA_TYPE] = "hca_type", [BOARD_ID] = "board_id",
    [RATE] = "rate",     [ROCE_V1] = "roce_v1", [GRANTS] = "grants",     [LONG_MR] = "long_mr",
    [MISSING] = "lacks", [TYPES] = "types",
};
static_assert(URO_CARD_NUMBERS + OTHERS <= 64, "reader.given has a bit for each key");

/* Returns the number of the key: first the numbers, then the others. -1: no key. */
static int find_key(const char *name)
{
    for (int i = 0; i < (int)URO_CARD_NUMBERS; i++)
        if (strcmp(numbers[i].key, name) == 0)
            return i;
    for (int i = 0; i < (int)OTHERS; i++)
        if (strcmp(others[i], name) == 0)
            return (int)URO_CARD_NUMBERS + i;
    return -1;
}

static void set_other(struct reader *reader, enum other_key key, const char *value)
{
    struct uro_card *card = reader->card;

    switch (key) {
    case CARD:
        set_text(reader, others[key], card->title, value);
        return;
    case FW_VER:
        set_text(reader, others[key], card->fw_ver, value);
        return;
    case HCA_TYPE:
        set_text(reader, others[key], card->hca_type, value);
        return;
    case BOARD_ID:
        set_text(reader, others[key], card->board_id, value);
        return;
    case RATE:
        set_rate(reader, value);
        return;
    case ROCE_V1:
        set_roce_v1(reader, value);
        return;
    case GRANTS:
        set_grants(reader, value);
        return;
    case LONG_MR:
        set_long_mr(reader, value);
        return;
    case MISSING:
        set_missing(reader, value);
        return;
    case TYPES:
        set_types(reader, value);
        return;
    case OTHERS:
        break;
    }
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct reader *reader = user;
    const char *words[URO_CARD_NUMBERS + OTHERS];
    const int key = find_key(name);

    (void)section; /* a card has no sections */
    for (size_t i = 0; i < URO_ARRAY_LEN(words); i++)
        words[i] = i < URO_CARD_NUMBERS ? numbers[i].key : others[i - URO_CARD_NUMBERS];
    if (key < 0) {
        refuse_word(reader, "key", name, words, URO_ARRAY_LEN(words));
        return 1;
    }
    const uint64_t bit = UINT64_C(1) << key;
    if ((reader->given & bit) != 0 && key != (int)URO_CARD_NUMBERS + MISSING)
        refuse(reader, "%s is given twice", name);
    reader->given |= bit;
    if (strcmp(value, "unknown") == 0)
        return 1;
    if (key < (int)URO_CARD_NUMBERS)
        set_number(reader, (enum uro_card_number)key, value);
    else
        set_other(reader, (enum other_key)(key - (int)URO_CARD_NUMBERS), value);
    return 1;
}

/* Takes max_sge for the limits of sends and receives that are not known. */
static void spread_max_sge(struct uro_card *card)
{
    static const enum uro_card_number both[] = { URO_CARD_MAX_SEND_SGE, URO_CARD_MAX_RECV_SGE };

    for (size_t i = 0; i < URO_ARRAY_LEN(both); i++)
        if (uro_card_knows(card, URO_CARD_MAX_SGE) && !uro_card_knows(card, both[i])) {
            card->numbers[both[i]] = card->numbers[URO_CARD_MAX_SGE];
            card->known |= UINT64_C(1) << both[i];
        }
}

/* ---- lines ---------------------------------------------------------------- */

/* Removes a comment, and the white space at both ends. Returns the first character of the rest. */
static char *strip(char *line)
{
    for (char *at = line; *at != '\0'; at++)
        if (*at == '#' && (at == line || isspace((unsigned char)at[-1]))) {
            *at = '\0';
            break;
        }
    while (isspace((unsigned char)*line))
        line++;
    size_t length = strlen(line);
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        line[--length] = '\0';
    return line;
}

/* Returns whether libinih gets the line. Refuses a line that is too long, beyond the maximum number
 * of lines, or neither empty nor a key. */
static bool check_line(struct reader *reader, const char *line, bool whole, int size)
{
    if (line[0] == '\0' && whole)
        return false;
    if (!whole || strlen(line) + 2 > (size_t)size)
        refuse(reader, "the line is too long");
    else if (reader->line > URO_CARD_LINES_MAX)
        refuse(reader, "a card has at most %u lines", URO_CARD_LINES_MAX);
    else if (line[0] == '[' || strchr(line, '=') == NULL) /* libinih would accept a section */
        refuse(reader, "\"%.40s\" must be key = value", line);
    else if (line[0] == '=')
        refuse(reader, "\"%.40s\" has no key before the =", line);
    return reader->error[0] == '\0';
}

/* Replaces fgets() in libinih, and returns NULL at the first error. */
static char *take_line(char *buffer, int size, void *stream)
{
    struct reader *reader = stream;
    char line[LINE_SIZE];

    if (reader->error[0] != '\0' || fgets(line, sizeof line, reader->in) == NULL)
        return NULL;
    reader->line++;
    const bool whole = strchr(line, '\n') != NULL || feof(reader->in) != 0;
    const char *text = strip(line);
    buffer[0] = '\0';
    if (check_line(reader, text, whole, size))
        (void)snprintf(buffer, (size_t)size, "%s\n", text);
    return reader->error[0] == '\0' ? buffer : NULL;
}

const char *uro_card_parse(struct uro_card *card, FILE *in, const char *where,
                           char error[static URO_CARD_ERROR_MAX])
{
    struct reader reader = { .card = card, .in = in, .error = error };
    const size_t length = strlen(where);
    const char *end = where + (length >= WHERE_MAX ? length - WHERE_MAX + 1 : 0);

    *card = (struct uro_card){ .name = "" };
    error[0] = '\0';
    (void)snprintf(reader.where, sizeof reader.where, "%s", end);
    (void)ini_parse_stream(take_line, &reader, on_key, &reader);
    if (error[0] == '\0' && reader.given == 0)
        refuse(&reader, "the card has no key, such as max_sge_rd = 1");
    if (error[0] != '\0')
        return error;
    spread_max_sge(card);
    const char *slash = strrchr(where, '/');
    (void)snprintf(card->name, sizeof card->name, "%.60s", slash != NULL ? slash + 1 : where);
    return NULL;
}

/* ---- like= ---------------------------------------------------------------- */

static const char *read_file(struct uro_card *card, const char *path,
                             char error[static URO_CARD_ERROR_MAX])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    const char *wrong = NULL;
    FILE *in = NULL;

    if (fd < 0 || fstat(fd, &status) != 0)
        wrong = strerror(errno);
    else if (!S_ISREG(status.st_mode))
        wrong = "is not a regular file";
    else if ((in = fdopen(fd, "r")) == NULL)
        wrong = strerror(errno);
    if (wrong != NULL) {
        (void)snprintf(error, URO_CARD_ERROR_MAX, "%.200s: %s", path, wrong);
        if (fd >= 0)
            (void)close(fd);
        return error;
    }
    wrong = uro_card_parse(card, in, path, error);
    (void)fclose(in);
    return wrong;
}

static const char *read_text(struct uro_card *card, const struct uro_card_text *text,
                             char error[static URO_CARD_ERROR_MAX])
{
    FILE *in = fmemopen((void *)(uintptr_t)text->text, strlen(text->text), "r");

    if (in == NULL)
        return strerror(errno);
    const char *wrong = uro_card_parse(card, in, text->name, error);
    (void)fclose(in);
    return wrong;
}

/* Returns the card's own name if @value is another name of a card, otherwise @value. */
static const char *own_name(const char *value)
{
    return strcmp(value, "irdma") == 0 ? "e810" : value; /* the driver of the E810 */
}

const struct uro_card_text *uro_card_text_find(const char *name)
{
    for (unsigned i = 0; i < uro_card_text_count; i++)
        if (strcmp(uro_card_texts[i].name, own_name(name)) == 0)
            return &uro_card_texts[i];
    return NULL;
}

const char *uro_card_read(struct uro_card *card, const char *value,
                          char error[static URO_CARD_ERROR_MAX])
{
    if (value[0] == '@')
        return read_file(card, value + 1, error);
    if (strchr(value, '/') != NULL)
        return read_file(card, value, error);
    const struct uro_card_text *text = uro_card_text_find(value);
    if (text != NULL)
        return read_text(card, text, error);
    (void)snprintf(error, URO_CARD_ERROR_MAX, "no such card; known:");
    for (unsigned i = 0; i < uro_card_text_count; i++) {
        const size_t used = strlen(error);
        (void)snprintf(error + used, URO_CARD_ERROR_MAX - used, " %s", uro_card_texts[i].name);
    }
    const size_t used = strlen(error);
    (void)snprintf(error + used, URO_CARD_ERROR_MAX - used, "; a file of your own is like=@FILE");
    return error;
}

/* ---- use ------------------------------------------------------------------ */

static uint32_t power_of_two(uint32_t least)
{
    uint32_t power = 1;

    while (power < least)
        power *= 2;
    return power;
}

uint32_t uro_card_grant(const struct uro_card *card, uint32_t wanted, uint32_t most)
{
    uint32_t granted = wanted;

    if (wanted == 0 || wanted > most)
        return wanted;
    if (card->grants == URO_CARD_GRANTS_POWER_LESS_1)
        granted = power_of_two(wanted + 1) - 1;
    else if (card->grants != URO_CARD_GRANTS_EXACT)
        granted = power_of_two(wanted);
    return granted < most ? granted : most;
}

const char *uro_card_key(enum uro_card_number number)
{
    return numbers[number].key;
}

const char *uro_card_missing_word(enum uro_card_missing what)
{
    return missing[what].word;
}

const char *uro_card_missing_name(enum uro_card_missing what)
{
    return missing[what].name;
}
