#include "cli/top_parts.h"

#include "base/json.h"
#include "cli/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char plain[] = "\033[0m";

void parts_begin(struct parts *parts, enum parts_colour colour)
{
    static const char *const codes[] = {"\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"};
    str_add(parts->out, parts->colour ? codes[colour] : "");
}

void parts_finish(struct parts *parts)
{
    str_add(parts->out, parts->colour ? plain : "");
}

void parts_paint(struct parts *parts, enum parts_colour colour, const char *text)
{
    if (text[0]) {
        parts_begin(parts, colour);
        str_add(parts->out, text);
        parts_finish(parts);
    }
}

void parts_addf(struct parts *parts, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    str_add(parts->out, text);
}

void parts_pad(struct parts *parts, const char *text, int columns)
{
    size_t size = strlen(text);
    int width = view_width(text, size);
    if (width <= columns) {
        str_add_bytes(parts->out, text, size);
        str_add_repeat(parts->out, " ", (size_t)(columns - width));
        return;
    }
    size_t cut = 0;
    for (int column = 0; column < columns - 1; column++) {
        size_t step = json_utf8_length(text + cut, size - cut);
        cut += step > 0 ? step : 1;
    }
    str_add_bytes(parts->out, text, cut);
    str_add_char(parts->out, '~');
}

static int line_width(const struct parts *parts)
{
    return view_width(parts->out->text + parts->start, parts->out->size - parts->start);
}

void parts_right(struct parts *parts, const char *text)
{
    int gap = parts->width - line_width(parts) - view_width(text, strlen(text));
    if (gap >= 2) {
        str_add_repeat(parts->out, " ", (size_t)gap);
        parts_paint(parts, PARTS_DIM, text);
    }
}

void parts_heading(struct parts *parts, const char *text)
{
    parts_paint(parts, PARTS_BOLD, text);
    parts_end_line(parts);
}

void parts_end_line(struct parts *parts)
{
    struct str *out = parts->out;
    if (parts->height > 0 && parts->lines >= parts->height) {
        if (out->text) {
            out->size = parts->start;
            out->text[out->size] = '\0';
        }
        return;
    }
    while (out->size > parts->start && out->text[out->size - 1] == ' ') {
        out->text[--out->size] = '\0';
    }
    view_end_line(out, parts->start, parts->width, parts->colour);
    parts->start = out->size;
    parts->lines++;
}

double parts_share(double part, double whole)
{
    double share = whole > 0 ? part / whole : 0;
    return share > 9.99 ? 9.99 : share > 0 ? share : 0;
}

void parts_meter(struct parts *parts, double share, int columns)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double filled = (share > 1 ? 1 : share > 0 ? share : 0) * columns;
    int whole = (int)filled;
    int part = (int)((filled - whole) * 8);
    if (!parts->utf8) {
        whole = (int)(filled + 0.5);
        part = 0;
    }
    parts_begin(parts, share >= 0.95 ? PARTS_RED : share >= 0.8 ? PARTS_YELLOW : PARTS_GREEN);
    str_add_repeat(parts->out, parts->utf8 ? "█" : "#", (size_t)whole);
    str_add(parts->out, eighths[part]);
    parts_finish(parts);
    int rest = columns - whole - (part > 0);
    parts_begin(parts, PARTS_DIM);
    str_add_repeat(parts->out, parts->utf8 ? "·" : ".", (size_t)(rest > 0 ? rest : 0));
    parts_finish(parts);
}

static void add_stretch(struct parts *parts, enum parts_colour colour, const char *mark,
                        int columns)
{
    if (columns > 0) {
        parts_begin(parts, colour);
        str_add_repeat(parts->out, mark, (size_t)columns);
        parts_finish(parts);
    }
}

void parts_progress(struct parts *parts, const struct parts_progress *progress, int columns)
{
    const uint64_t counts[] = {progress->bad, progress->busy, progress->other, progress->good};
    int widths[4];
    int left = columns;
    for (int i = 0; i < 4; i++) {
        double share = progress->total > 0 ? (double)counts[i] / (double)progress->total : 0;
        widths[i] = (int)(share * columns);
        widths[i] += widths[i] == 0 && counts[i] > 0 && i < 3; /* trouble and life are seen */
        widths[i] = widths[i] > left ? left : widths[i];
        left -= widths[i];
    }
    bool is_over =
        progress->total > 0 && progress->good + progress->bad + progress->other >= progress->total;
    if (is_over && progress->good > 0) {
        widths[3] += left;
        left = 0;
    }
    add_stretch(parts, PARTS_GREEN, parts->utf8 ? "█" : "#", widths[3]);
    add_stretch(parts, PARTS_RED, parts->utf8 ? "█" : "x", widths[0]);
    add_stretch(parts, PARTS_DIM, parts->utf8 ? "▒" : "-", widths[2]);
    add_stretch(parts, PARTS_YELLOW, parts->utf8 ? "▓" : "+", widths[1]);
    add_stretch(parts, PARTS_DIM, parts->utf8 ? "░" : ".", left);
}

void parts_spark(struct parts *parts, const struct top_history *history, int columns)
{
    static const char *const marks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char ascii[] = "_.-:=+*#";
    unsigned count = history->count < (unsigned)columns ? history->count : (unsigned)columns;
    parts_begin(parts, PARTS_GREEN);
    for (unsigned back = count; back > 0; back--) {
        double value = top_history_get(history, back - 1);
        int level = (int)(value * 8);
        level = level < 0 ? 0 : level > 7 ? 7 : level;
        if (parts->utf8) {
            str_add(parts->out, marks[level]);
        } else {
            str_add_char(parts->out, ascii[level]);
        }
    }
    parts_finish(parts);
}
