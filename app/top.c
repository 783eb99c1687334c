/* SPDX-License-Identifier: BSD-3-Clause */
/* top.c - `uroce top`: shows devices and queue pairs, live in a terminal. This file is in
 * liburoce-top.so, which top_load.c loads, so that the other commands need no ncurses. */
#define _GNU_SOURCE /* localtime_r, sigaction */
#include <curses.h>
#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stat_view.h"
#include "top.h"
#include "usage.h"

#define HISTORY       128u /* maximum samples of a device */
#define DEVICES       32u  /* maximum number of devices with a history */
#define DELAY_LEAST   0.2  /* shortest interval, s */
#define DELAY_MOST    10.0 /* longest interval, s; a PSN of 24 bits must not wrap in this time */
#define FIRST_DELAY   0.3  /* interval between the first two surveys, s */
#define COLUMNS_LEAST 40
#define LINES_LEAST   8
#define COLUMNS_PEER  97 /* minimum width of the screen for a column with the peer's address */

/* Bytes per second of a device. */
struct history {
    uid_t uid;
    uint64_t guid;
    char name[URO_STATS_NAME_MAX];
    double samples[HISTORY]; /* the newest at index (count - 1) % HISTORY */
    uint32_t count;
};

/* A queue pair, or a process whose queue pairs are unknown. */
struct row {
    const struct uro_survey_file *file;
    const struct uro_snapshot_qp *qp; /* NULL: unknown */
    struct uro_stat_rates rates;
};

struct top {
    struct uro_stat_view view;
    struct history histories[DEVICES];
    uint32_t history_count;
    struct row *rows;
    uint32_t row_count;
    uint32_t process_count;
    uint32_t scroll; /* index of the first row on the screen */
    uint32_t page;   /* rows on the screen */
    int sort;        /* key of the column by which rows are sorted */
    bool reverse;
    bool utf8;
    double delay; /* seconds */
};

static volatile sig_atomic_t ended; /* number of the signal that ends the program; 0: none */

static void on_end(int number)
{
    ended = number;
}

/* ---- rows -------------------------------------------------------------------------- */

static double tx_of(const struct row *row)
{
    return row->rates.tx_packets;
}

static double rx_of(const struct row *row)
{
    return row->rates.rx_packets;
}

static double outstanding_of(const struct row *row)
{
    return row->qp != NULL ? (double)row->qp->outstanding : -1;
}

static double rtt_of(const struct row *row)
{
    return row->qp != NULL ? (double)row->qp->rtt : -1;
}

static double retransmits_of(const struct row *row)
{
    return row->qp != NULL ? (double)row->qp->retransmits : -1;
}

static double rnr_of(const struct row *row)
{
    return row->qp != NULL ? (double)row->qp->rnr_naks : -1;
}

static double pid_of(const struct row *row)
{
    return -(double)row->file->page->header.pid; /* the smallest PID comes first */
}

/* The columns that rows can be sorted by. */
static const struct column {
    int key;
    const char *title;
    double (*value)(const struct row *row);
} columns[] = {
    { 't', "TX/s", tx_of }, { 'r', "RX/s", rx_of },           { 'o', "SENT/WIN", outstanding_of },
    { 'l', "RTT", rtt_of }, { 'x', "RETRY", retransmits_of }, { 'n', "RNR", rnr_of },
    { 'p', "PID", pid_of },
};

static const struct column *column_of(int key)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(columns); i++)
        if (columns[i].key == key)
            return &columns[i];
    return NULL;
}

static int compare_rows(const void *left, const void *right, void *context)
{
    const struct top *top = context;
    const struct row *a = left, *b = right;
    const struct column *column = column_of(top->sort);
    const double x = column->value(a), y = column->value(b);
    int order = (x < y) - (x > y);

    if (top->reverse)
        order = -order;
    if (order == 0)
        order = (a->file > b->file) - (a->file < b->file);
    return order != 0 || a->qp == NULL ? order : (a->qp > b->qp) - (a->qp < b->qp);
}

static uint32_t count_rows(const struct uro_stat_view *view)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < view->now.count; i++)
        if (uro_stat_shows(view, &view->now.files[i]))
            count += 1 + view->now.files[i].rows.count[URO_SNAPSHOT_QPS];
    return count;
}

static void add_rows(struct top *top, const struct uro_survey_file *file)
{
    const struct uro_stats_rows *rows = &file->rows;

    top->process_count++;
    if (file->rows_error != 0)
        top->rows[top->row_count++] = (struct row){ .file = file, .rates = { -1, -1, -1, -1 } };
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_QPS]; i++)
        top->rows[top->row_count++] =
            (struct row){ .file = file,
                          .qp = &rows->qps[i],
                          .rates = uro_stat_qp_rates(&top->view, file, &rows->qps[i]) };
}

/* Makes a row for each queue pair, and for each process whose queue pairs are unknown. Returns
 * false when out of memory. */
static bool make_rows(struct top *top)
{
    free(top->rows);
    top->row_count = top->process_count = 0;
    top->rows = malloc((count_rows(&top->view) + 1) * sizeof *top->rows);
    if (top->rows == NULL)
        return false;
    for (uint32_t i = 0; i < top->view.now.count; i++)
        if (uro_stat_shows(&top->view, &top->view.now.files[i]))
            add_rows(top, &top->view.now.files[i]);
    return true;
}

static void sort_rows(struct top *top)
{
    if (top->row_count > 0)
        qsort_r(top->rows, top->row_count, sizeof *top->rows, compare_rows, top);
}

/* ---- history ----------------------------------------------------------------------- */

/* Returns the history of a device, or NULL if there are too many devices. */
static struct history *history_of(struct top *top, const struct uro_stat_device *device)
{
    struct history *history = top->histories;

    for (; history < top->histories + top->history_count; history++)
        if (history->uid == device->uid && history->guid == device->page->guid &&
            strcmp(history->name, device->page->device) == 0)
            return history;
    if (top->history_count == DEVICES)
        return NULL;
    top->history_count++;
    *history = (struct history){ .uid = device->uid, .guid = device->page->guid };
    (void)snprintf(history->name, sizeof history->name, "%s", device->page->device);
    return history;
}

static void note_history(struct top *top)
{
    struct uro_stat_device device = { 0 };

    while (uro_stat_next_device(&top->view, &device)) {
        struct history *history = history_of(top, &device);
        if (history == NULL || device.rates.rx_bytes < 0 || device.rates.tx_bytes < 0)
            continue;
        history->samples[history->count++ % HISTORY] =
            device.rates.rx_bytes + device.rates.tx_bytes;
    }
}

/* Draws the newest samples at the cursor, in @width columns. */
static void draw_history(const struct top *top, const struct history *history, uint32_t width)
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const letters[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
    const uint32_t known = history->count < HISTORY ? history->count : HISTORY;
    const uint32_t shown = known < width ? known : width;
    double most = 1;

    for (uint32_t i = history->count - shown; i != history->count; i++)
        if (history->samples[i % HISTORY] > most)
            most = history->samples[i % HISTORY];
    for (uint32_t i = history->count - shown; i != history->count; i++) {
        const unsigned level = (unsigned)(7.0 * history->samples[i % HISTORY] / most + 0.5);
        (void)addstr((top->utf8 ? blocks : letters)[level < 8 ? level : 7]);
    }
}

/* ---- the screen ---------------------------------------------------------------------- */

static void draw_head(const struct top *top, int line)
{
    const time_t now = (time_t)(top->view.time / 1000000000u);
    char clock[16] = "?";
    struct tm broken;

    if (localtime_r(&now, &broken) != NULL)
        (void)strftime(clock, sizeof clock, "%T", &broken);
    (void)mvprintw(line, 0, "uroce top  %s  every %g s  processes %" PRIu32 "  rows %" PRIu32,
                   clock, top->delay, top->process_count, top->row_count);
}

/* Draws the devices from @line on, at most @lines_max lines. Returns the next line. */
static int draw_devices(struct top *top, int line, int lines_max)
{
    struct uro_stat_device device = { 0 };
    char name[URO_STATS_NAME_MAX], text[4][URO_STAT_NUMBER_MAX];

    (void)attron(A_BOLD);
    (void)mvprintw(line++, 0, "%-10s %-4s %5s %5s %8s %8s  %s", "DEVICE", "LINK", "TX/s", "RX/s",
                   "TX bit/s", "RX bit/s", "BYTES/s, HISTORY");
    (void)attroff(A_BOLD);
    while (--lines_max > 0 && uro_stat_next_device(&top->view, &device)) {
        const struct uro_stat_rates *rates = &device.rates;
        const bool up = device.alive > 0 && atomic_load(&device.page->link_up) != 0;
        const struct history *history = history_of(top, &device);
        uro_stat_plain(device.page->device, name, sizeof name);
        (void)mvprintw(line++, 0, "%-10.10s %-4s %5s %5s %8s %8s  ", name,
                       device.alive == 0 ? "-"
                       : up              ? "up"
                                         : "down",
                       uro_stat_number(rates->tx_packets, text[0]),
                       uro_stat_number(rates->rx_packets, text[1]),
                       uro_stat_number(8 * rates->tx_bytes, text[2]),
                       uro_stat_number(8 * rates->rx_bytes, text[3]));
        if (history != NULL && COLS > 47)
            draw_history(top, history, (uint32_t)(COLS - 47));
    }
    return line;
}

static void draw_title(const struct top *top, const char *title, int width, bool left)
{
    const bool sorted = strcmp(column_of(top->sort)->title, title) == 0;

    (void)attron(sorted ? A_REVERSE | A_BOLD : A_BOLD);
    (void)printw(left ? "%-*s" : "%*s", width, title);
    (void)attroff(A_REVERSE | A_BOLD);
    (void)addch(' ');
}

static void draw_titles(const struct top *top, int line)
{
    (void)move(line, 0);
    draw_title(top, "PID", 7, true);
    draw_title(top, "PROGRAM", 14, true);
    draw_title(top, "QPN", 6, true);
    draw_title(top, "TYPE", 4, true);
    draw_title(top, "STATE", 5, true);
    draw_title(top, "TX/s", 5, false);
    draw_title(top, "RX/s", 5, false);
    draw_title(top, "SENT/WIN", 9, false);
    draw_title(top, "RTT", 5, false);
    draw_title(top, "RETRY", 5, false);
    draw_title(top, "RNR", 4, false);
    if (COLS >= COLUMNS_PEER)
        draw_title(top, "PEER", 4, true);
}

static void draw_row(const struct row *row, int line)
{
    const struct uro_snapshot_qp *qp = row->qp;
    char program[URO_STATS_NAME_MAX], text[6][URO_STAT_NUMBER_MAX], flight[24],
        peer[URO_GID_TEXT_MAX] = "-", problem[URO_STAT_REASON_MAX];

    uro_stat_plain(row->file->page->program, program, sizeof program);
    (void)mvprintw(line, 0, "%-7d %-14.14s ", row->file->page->header.pid, program);
    if (qp == NULL) {
        (void)addnstr(uro_stat_rows_problem(row->file, problem), COLS > 24 ? COLS - 24 : 0);
        return;
    }
    (void)snprintf(flight, sizeof flight, "%" PRIu32 "/%" PRIu32, qp->outstanding, qp->window);
    if (qp->fail_reason != URO_FAIL_NONE)
        (void)attron(A_BOLD);
    (void)printw("%06" PRIx32 " %-4s %-5s %5s %5s %9s %5s %5s %4s", qp->qpn,
                 uro_stat_type(qp->type), uro_qp_state_name(qp->state),
                 uro_stat_number(row->rates.tx_packets, text[0]),
                 uro_stat_number(row->rates.rx_packets, text[1]), flight,
                 uro_stat_time(qp->rtt, text[2]), uro_stat_number((double)qp->retransmits, text[3]),
                 uro_stat_number((double)qp->rnr_naks, text[4]));
    (void)attroff(A_BOLD);
    if (COLS < COLUMNS_PEER)
        return;
    if (qp->path_mtu != 0)
        uro_gid_text(&qp->peer, peer);
    (void)addch(' ');
    (void)addnstr(peer, COLS - 81);
}

/* Writes to @text why data is missing on the screen, or why the screen is empty. Returns false if
 * nothing is missing. */
static bool write_problem(const struct top *top, char text[static URO_STAT_REASON_MAX])
{
    struct uro_stat_device device = { 0 };
    uint32_t unreadable = 0;

    for (uint32_t i = 0; i < top->view.now.count; i++)
        unreadable += uro_stat_unreadable(&top->view.now.files[i]);
    if (top->view.now.error != 0)
        (void)uro_stat_survey_problem(&top->view.now, text);
    else if (unreadable != 0)
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "%" PRIu32 " state files cannot be read; `uroce stat` prints the reason",
                       unreadable);
    else if (top->process_count > 0)
        return false;
    else if (top->view.filter.device != NULL && uro_stat_next_device(&top->view, &device))
        (void)snprintf(text, URO_STAT_REASON_MAX, "no process uses the device now");
    else
        (void)uro_stat_nothing(&top->view.filter, text);
    return true;
}

static void draw_foot(const struct top *top)
{
    char problem[URO_STAT_REASON_MAX];

    (void)move(LINES - 1, 0);
    (void)attron(A_REVERSE);
    if (write_problem(top, problem))
        (void)addnstr(problem, COLS - 1);
    else
        (void)addnstr("q quit  sort: t TX  r RX  o sent  l RTT  x retry  n RNR  p PID  i reverse",
                      COLS - 1);
    (void)attroff(A_REVERSE);
}

static void draw(struct top *top)
{
    (void)erase();
    if (COLS < COLUMNS_LEAST || LINES < LINES_LEAST) {
        (void)mvaddnstr(0, 0, "enlarge the window", COLS);
        (void)refresh();
        return;
    }
    draw_head(top, 0);
    int line = draw_devices(top, 2, LINES / 3) + 1;
    draw_titles(top, line++);
    top->page = (uint32_t)(LINES - 1 - line);
    if (top->scroll >= top->row_count)
        top->scroll = top->row_count > 0 ? top->row_count - 1 : 0;
    for (uint32_t i = top->scroll; i < top->row_count && line < LINES - 1; i++)
        draw_row(&top->rows[i], line++);
    draw_foot(top);
    (void)refresh();
}

/* ---- keys ---------------------------------------------------------------------------- */

static void scroll_by(struct top *top, int64_t rows)
{
    const int64_t most = top->row_count > 0 ? (int64_t)top->row_count - 1 : 0;
    int64_t to = (int64_t)top->scroll + rows;

    if (to > most)
        to = most;
    top->scroll = to > 0 ? (uint32_t)to : 0;
}

/* Handles a key. Returns false if the key ends the program. */
static bool take_key(struct top *top, int key)
{
    if (key == 'q' || key == 'Q')
        return false;
    if (key == 'i')
        top->reverse = !top->reverse;
    else if (column_of(key) != NULL)
        top->sort = key;
    else if (key == KEY_DOWN)
        scroll_by(top, 1);
    else if (key == KEY_UP)
        scroll_by(top, -1);
    else if (key == KEY_NPAGE)
        scroll_by(top, top->page);
    else if (key == KEY_PPAGE)
        scroll_by(top, -(int64_t)top->page);
    else if (key == KEY_HOME)
        top->scroll = 0;
    sort_rows(top);
    draw(top);
    return true;
}

static double seconds_now(void)
{
    struct timespec now = { 0 };

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Handles keys until the time @until. Returns false if the program must end because of a key, a
 * signal, or a closed terminal. */
static bool wait_for_keys(struct top *top, double until)
{
    struct pollfd terminal = { .fd = STDIN_FILENO, .events = POLLIN };
    double now = seconds_now();

    while (now < until) {
        if (ended != 0)
            return false;
        (void)poll(&terminal, 1, (int)((until - now) * 1000) + 1);
        if ((terminal.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
            return false;
        for (int key = getch(); key != ERR; key = getch())
            if (!take_key(top, key))
                return false;
        now = seconds_now();
    }
    return ended == 0;
}

/* ---- the program ----------------------------------------------------------------------- */

static int help(void)
{
    (void)printf("Usage: uroce top [ OPTIONS ] [ DEVICE ]\n"
                 "\n"
                 "Shows the devices and queue pairs that run over uroce, live, with the bytes of "
                 "each device\n"
                 "over time. `uroce stat --help` explains the columns; the last line lists the "
                 "keys.\n"
                 "\n"
                 "  DEVICE               only this device\n"
                 "  -p, --pid PID        only this process\n"
                 "  -d, --delay SECONDS  interval, 0.2 to 10; 1 by default\n"
                 "  -h, --help           print this help\n"
                 "\n"
                 "Exit status: 0 ended by q or a signal, 1 no terminal, 2 wrong option.\n");
    return 0;
}

/* Reads a number from @least to @most. If it is wrong, prints a message and returns false. */
static bool read_number(const char *option, const char *text, double least, double most,
                        double *number)
{
    char *end = NULL;

    *number = strtod(text, &end);
    if (end != text && *end == '\0' && *number >= least && *number <= most)
        return true;
    (void)fprintf(stderr, "uroce top: %s %s: a number from %g to %.0f is expected\n", option, text,
                  least, most);
    return false;
}

/* Reads the options. Returns -1 to continue, or the exit status. */
static int read_options(int argc, char **argv, struct top *top)
{
    static const struct option options[] = { { "pid", required_argument, NULL, 'p' },
                                             { "delay", required_argument, NULL, 'd' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    int option;

    while ((option = uro_usage_option(argc, argv, "p:d:h", options)) != -1) {
        if (option == 'h')
            return help();
        if (option == '?')
            return URO_USAGE_STATUS;
        if (option == 'd' && !read_number("--delay", optarg, DELAY_LEAST, DELAY_MOST, &top->delay))
            return 2;
        if (option == 'p' && !uro_usage_pid(argv[0], "--pid ", optarg, &top->view.filter.pid))
            return 2;
    }
    if (optind < argc)
        top->view.filter.device = argv[optind++];
    if (optind == argc)
        return -1;
    (void)fprintf(stderr, "uroce top: \"%s\": only one device can be named\n", argv[optind]);
    return 2;
}

/* Opens the terminal for drawing. On failure, prints a message and returns NULL. */
static SCREEN *open_screen(struct top *top)
{
    const char *type = getenv("TERM");
    const struct sigaction action = { .sa_handler = on_end };

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        (void)fprintf(stderr, "uroce top: stdin and stdout must be a terminal; without one, use "
                              "`uroce stat --watch`\n");
        return NULL;
    }
    (void)setlocale(LC_ALL, "");
    top->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        (void)fprintf(stderr,
                      "uroce top: the terminal type \"%s\" is not known here; try TERM=xterm\n",
                      type != NULL ? type : "");
        return NULL;
    }
    (void)setlocale(LC_NUMERIC, "C");
    (void)sigaction(SIGINT, &action, NULL); /* instead of the handlers of curses */
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    (void)cbreak();
    (void)noecho();
    (void)nodelay(stdscr, TRUE);
    (void)keypad(stdscr, TRUE);
    (void)curs_set(0);
    return screen;
}

/* Shows surveys until the user ends the program. Returns false when out of memory. */
static bool run(struct top *top)
{
    double interval = FIRST_DELAY; /* rates need two surveys */

    do {
        const double began = seconds_now();
        uro_stat_take(&top->view, true);
        note_history(top);
        if (!make_rows(top))
            return false;
        sort_rows(top);
        draw(top);
        const double until = began + interval, least = seconds_now() + DELAY_LEAST / 2;
        interval = top->delay;
        if (!wait_for_keys(top, until > least ? until : least))
            return true;
    } while (true);
}

int uroce_top(int argc, char **argv)
{
    static struct top top = { .sort = 't', .delay = 1 };
    const int status = read_options(argc, argv, &top);

    if (status >= 0)
        return status;
    SCREEN *screen = open_screen(&top);
    if (screen == NULL)
        return 1;
    const bool enough = run(&top);
    (void)endwin();
    delscreen(screen);
    free(top.rows);
    uro_stat_free(&top.view);
    if (!enough)
        (void)fprintf(stderr, "uroce top: out of memory\n");
    return enough ? 0 : 1;
}
