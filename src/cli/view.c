#include "cli/view.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BAR_MAX = 30, BAR_MIN = 6, NAME_MAX_COLUMNS = 24 };

static const char red[] = "\033[31m";
static const char green[] = "\033[32m";
static const char yellow[] = "\033[33m";
static const char dim[] = "\033[2m";
static const char bold[] = "\033[1m";
static const char plain[] = "\033[0m";

static void paint(struct str *out, const struct view *view, const char *colour, const char *text)
{
    if (view->colour && text[0]) {
        str_add(out, colour);
        str_add(out, text);
        str_add(out, plain);
    } else {
        str_add(out, text);
    }
}

int view_width(const char *text, size_t size)
{
    int width = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\033') {
            while (i < size && text[i] != 'm') {
                i++;
            }
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            width++;
        }
    }
    return width;
}

static uint64_t done_of(const struct view_row *row)
{
    return row->succeeded + row->failed + row->other;
}

int64_t view_eta_ms(const struct view *view)
{
    uint64_t left = 0;
    for (size_t i = 0; i < view->row_count; i++) {
        left += view->rows[i].tasks - done_of(&view->rows[i]);
    }
    return view->rate > 0 && left > 0 ? (int64_t)((double)left / view->rate * 1000.0) : -1;
}

/* A bar of exactly `width` columns: done in green, failed in red, the rest faint. */
static void add_bar(struct str *out, const struct view *view, const struct view_row *row, int width)
{
    uint64_t total = row->tasks ? row->tasks : 1;
    int failed = (int)((row->failed * (uint64_t)width + total - 1) / total);
    int good = (int)(done_of(row) * (uint64_t)width / total);
    good = good > failed ? good - failed : 0;
    failed = failed + good > width ? width - good : failed;
    struct str part = {0};
    str_add_repeat(&part, view->utf8 ? "█" : "#", (size_t)good);
    paint(out, view, row->other > 0 && row->succeeded == 0 ? dim : green, str_text(&part));
    str_clear(&part);
    str_add_repeat(&part, view->utf8 ? "█" : "x", (size_t)failed);
    paint(out, view, red, str_text(&part));
    str_clear(&part);
    str_add_repeat(&part, view->utf8 ? "░" : ".", (size_t)(width - good - failed));
    paint(out, view, dim, str_text(&part));
    str_release(&part);
}

static void add_count(struct str *out, const struct view *view, const char *colour, uint64_t count,
                      const char *what)
{
    if (count > 0) {
        char text[64];
        snprintf(text, sizeof text, "  %" PRIu64 " %s", count, what);
        paint(out, view, colour, text);
    }
}

static void add_name(struct str *out, const char *name, int columns)
{
    size_t size = strlen(name);
    if (size > (size_t)columns) {
        str_add_bytes(out, name, (size_t)columns - 1);
        str_add_char(out, '~');
    } else {
        str_add(out, name);
        str_add_repeat(out, " ", (size_t)columns - size);
    }
}

static void add_row(struct str *out, const struct view *view, const struct view_row *row,
                    int name_columns, int count_columns)
{
    int bar = view->width - name_columns - count_columns - 34;
    bar = bar > BAR_MAX ? BAR_MAX : bar < BAR_MIN ? BAR_MIN : bar;
    char counts[64];
    snprintf(counts, sizeof counts, "%" PRIu64 "/%" PRIu64, done_of(row), row->tasks);
    add_name(out, row->name, name_columns);
    str_add(out, "  ");
    add_bar(out, view, row, bar);
    str_addf(out, "  %*s", count_columns, counts);
    if (!row->ready && !row->ended) {
        paint(out, view, dim, "  waiting");
    }
    add_count(out, view, bold, row->running, "running");
    add_count(out, view, yellow, row->retrying, "to retry");
    add_count(out, view, red, row->failed, "failed");
    add_count(out, view, dim, row->other, "not run");
}

void view_end_line(struct str *out, size_t line_start, int columns, bool colour)
{
    int width = 0;
    for (size_t i = line_start; i < out->size; i++) {
        if (out->text[i] == '\033') {
            while (i < out->size && out->text[i] != 'm') {
                i++;
            }
            continue;
        }
        if (((unsigned char)out->text[i] & 0xc0) != 0x80 && ++width > columns) {
            out->size = i;
            out->text[i] = '\0';
            str_add(out, colour ? plain : "");
            break;
        }
    }
    str_add_char(out, '\n');
}

static int digits_of(uint64_t number)
{
    int digits = 1;
    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

static void add_footer(struct str *out, const struct view *view)
{
    paint(out, view, bold, view->title);
    str_add(out, "  ");
    clock_add_duration(out, view->elapsed_ms);
    if (view->rate > 0) {
        str_addf(out, view->rate >= 10 ? "  %.0f tasks/s" : "  %.2g tasks/s", view->rate);
    }
    int64_t eta_ms = view_eta_ms(view);
    if (eta_ms >= 0) {
        str_add(out, "  about ");
        clock_add_duration(out, eta_ms);
        str_add(out, " left");
    }
    if (view->stopping) {
        paint(out, view, yellow, "  stopping");
    }
}

int view_draw(struct str *out, const struct view *view)
{
    int name_columns = 4;
    int count_columns = 3;
    int room = view->height > 3 ? view->height - 2 : 1;
    for (size_t i = 0; i < view->row_count; i++) {
        int size = (int)strlen(view->rows[i].name);
        int counts = 2 * digits_of(view->rows[i].tasks) + 1;
        name_columns = size > name_columns ? size : name_columns;
        count_columns = counts > count_columns ? counts : count_columns;
    }
    name_columns = name_columns > NAME_MAX_COLUMNS ? NAME_MAX_COLUMNS : name_columns;
    int lines = 0;
    size_t hidden = 0;
    size_t spare = view->row_count > (size_t)room ? view->row_count - (size_t)room + 1 : 0;
    for (size_t i = 0; i < view->row_count; i++) {
        const struct view_row *row = &view->rows[i];
        /* with too many for the screen, those that have ended or not begun give way */
        if (hidden < spare && (row->ended || !row->ready || lines >= room - 1)) {
            hidden++;
            continue;
        }
        size_t start = out->size;
        add_row(out, view, row, name_columns, count_columns);
        view_end_line(out, start, view->width, view->colour);
        lines++;
    }
    if (hidden > 0) {
        size_t start = out->size;
        str_addf(out, "... and %zu more experiments, ended or waiting", hidden);
        view_end_line(out, start, view->width, view->colour);
        lines++;
    }
    size_t start = out->size;
    add_footer(out, view);
    view_end_line(out, start, view->width, view->colour);
    return lines + 1;
}
