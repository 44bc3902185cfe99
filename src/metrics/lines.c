#include "metrics/lines.h"

#include "base/check.h"
#include "base/mem.h"
#include "metrics/linepat.h"
#include "metrics/linescan.h"
#include "metrics/object.h"
#include "metrics/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ESCAPE_BYTES_MAX = 256 };

enum escape {
    ESCAPE_NONE,
    ESCAPE_BEGUN,   /* after ESC */
    ESCAPE_CONTROL, /* after ESC [: ends with a letter */
    ESCAPE_TEXT,    /* after ESC ]: ends with BEL or ESC \ */
};

/* What a line turned out to be. */
enum finding {
    FOUND_NOTHING,
    FOUND_METRICS,
    FOUND_PARTIAL, /* metrics of a progress bar that is not full */
    FOUND_SAID,    /* metrics that stand for themselves: an object, or said to drover */
    FOUND_COUNTER, /* only how far training is */
};

struct lines {
    char line[LINES_LINE_MAX];
    size_t size;
    bool is_cut; /* the line has more bytes than there is room for */
    enum escape escape;
    size_t escape_size;

    struct linescan_wanted wanted;
    struct linepat *patterns[LINES_PATTERNS_MAX];
    size_t pattern_count;
    bool use_defaults;

    struct record *fresh;   /* of the line at hand */
    struct record *pending; /* of text that was overwritten, until it is known what follows */
    bool has_pending;
    int64_t pending_at_ms;
    struct record *context; /* only its step and epoch: those of the last counter */
};

struct lines *lines_create(void)
{
    struct lines *lines = mem_alloc(sizeof *lines);
    lines->fresh = mem_alloc(sizeof *lines->fresh);
    lines->pending = mem_alloc(sizeof *lines->pending);
    lines->context = mem_alloc(sizeof *lines->context);
    lines->use_defaults = true;
    return lines;
}

void lines_destroy(struct lines *lines)
{
    if (!lines) {
        return;
    }
    for (size_t i = 0; i < lines->pattern_count; i++) {
        linepat_destroy(lines->patterns[i]);
    }
    free(lines->fresh);
    free(lines->pending);
    free(lines->context);
    free(lines);
}

void lines_want(struct lines *lines, const char *name)
{
    size_t size = strlen(name);
    if (lines->wanted.count < LINESCAN_WANTED_MAX && metric_name_valid(name, size)) {
        memcpy(lines->wanted.names[lines->wanted.count++], name, size + 1);
    }
}

enum err_code lines_add_pattern(struct lines *lines, const char *name, const char *pattern,
                                struct err *err)
{
    if (lines->pattern_count == LINES_PATTERNS_MAX) {
        return err_set(err, ERR_INVALID, "more than %d patterns", LINES_PATTERNS_MAX);
    }
    enum err_code code = linepat_create(name, pattern, &lines->patterns[lines->pattern_count], err);
    if (code == ERR_OK) {
        lines->pattern_count++;
        lines->use_defaults = false;
    }
    return code;
}

void lines_use_defaults(struct lines *lines, bool use)
{
    lines->use_defaults = use;
}

/* --- one line -------------------------------------------------------------------------------- */

/* drover: {"accuracy":0.97,"step":3} - with whatever stands before it, since others may print
 * without a line's end. */
static bool read_said(struct lines *lines)
{
    static const char mark[] = "drover: {";
    struct object_about about;
    const char *found = memmem(lines->line, lines->size, mark, sizeof mark - 1);
    if (!found) {
        return false;
    }
    const char *object = found + sizeof mark - 2;
    size_t size = lines->size - (size_t)(object - lines->line);
    return object_read(object, size, false, lines->fresh, &about);
}

static bool is_named_metric(const struct lines *lines, const struct record_item *item,
                            bool has_counter)
{
    size_t size = strlen(item->name);
    if (linescan_is_wanted(&lines->wanted, item->name, size)) {
        return true;
    }
    unsigned flags = words_of_name(item->name, size);
    bool is_whole = isfinite(item->value) && item->value == floor(item->value);
    return flags & WORD_METRIC && (!(flags & WORD_EVERYDAY) || has_counter || !is_whole);
}

/* Of an object that nobody said is about metrics: is it, and which of its numbers are? */
static bool sift(struct lines *lines, bool has_message)
{
    struct record *record = lines->fresh;
    bool has_counter = record->has_step || record->has_epoch;
    bool any = false;
    size_t kept = 0;
    for (size_t i = 0; i < record->count; i++) {
        any = any || is_named_metric(lines, &record->items[i], has_counter);
    }
    for (size_t i = 0; any && i < record->count; i++) {
        const struct record_item *item = &record->items[i];
        bool never = words_of_name(item->name, strlen(item->name)) & WORD_NEVER;
        bool named = is_named_metric(lines, item, has_counter);
        if (named || (!never && !has_message)) {
            if (kept != i) {
                record->items[kept] = *item;
            }
            kept++;
        }
    }
    record->count = kept;
    return any;
}

/* JSON, or a dictionary as Python prints it, perhaps behind a progress bar. */
static bool read_object(struct lines *lines)
{
    struct object_about about;
    const char *open = memchr(lines->line, '{', lines->size);
    size_t size = open ? lines->size - (size_t)(open - lines->line) : 0;
    size_t next = 1;
    while (next < size && open[next] == ' ') {
        next++;
    }
    if (next >= size || (open[next] != '"' && open[next] != '\'')) {
        return false;
    }
    return object_read(open, size, true, lines->fresh, &about) && sift(lines, about.has_message);
}

static bool match_patterns(struct lines *lines)
{
    bool any = false;
    for (size_t i = 0; i < lines->pattern_count; i++) {
        any = linepat_match(lines->patterns[i], lines->line, lines->size, lines->fresh) || any;
    }
    return any;
}

/* A digit, "nan" or "inf": most lines of most logs have none, and need no closer look. */
static bool may_hold_number(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c >= '0' && c <= '9') {
            return true;
        }
        if ((c | 0x20) == 'n' && i > 0) {
            char before = (char)(text[i - 1] | 0x20);
            char after = i + 1 < size ? (char)(text[i + 1] | 0x20) : ' ';
            if ((before == 'i' && after == 'f') ||
                (before == 'a' && i > 1 && (text[i - 2] | 0x20) == 'n')) {
                return true;
            }
        }
    }
    return false;
}

static enum finding read_line(struct lines *lines)
{
    struct linescan_line line = {0};
    record_clear(lines->fresh);
    if (read_said(lines)) {
        return FOUND_SAID;
    }
    record_clear(lines->fresh);
    if (lines->pattern_count > 0 && match_patterns(lines)) {
        return FOUND_METRICS;
    }
    if (!lines->use_defaults || !may_hold_number(lines->line, lines->size)) {
        return FOUND_NOTHING;
    }
    if (read_object(lines)) {
        return FOUND_SAID;
    }
    record_clear(lines->fresh);
    linescan_read(lines->line, lines->size, &lines->wanted, lines->fresh, &line);
    if (lines->fresh->count > 0) {
        return line.is_partial ? FOUND_PARTIAL : FOUND_METRICS;
    }
    return line.only_counter ? FOUND_COUNTER : FOUND_NOTHING;
}

/* --- lines after each other ------------------------------------------------------------------ */

static void send_pending(struct lines *lines, const struct metric_sink *sink)
{
    if (lines->has_pending) {
        lines->has_pending = false;
        record_send(lines->pending, sink, lines->pending_at_ms);
    }
}

static void copy_counter(struct record *to, const struct record *from)
{
    to->has_step = from->has_step;
    to->step = from->step;
    to->has_epoch = from->has_epoch;
    to->epoch = from->epoch;
}

static void take_metrics(struct lines *lines, bool is_final, int64_t at_ms,
                         const struct metric_sink *sink)
{
    struct record *fresh = lines->fresh;
    struct record *context = lines->context;
    if (fresh->has_step || fresh->has_epoch) {
        copy_counter(context, fresh);
    } else {
        copy_counter(fresh, context);
    }
    if (lines->has_pending && record_same_step(lines->pending, fresh)) {
        lines->has_pending = false;
    }
    send_pending(lines, sink);
    if (is_final) {
        record_send(fresh, sink, at_ms);
        return;
    }
    lines->fresh = lines->pending;
    lines->pending = fresh;
    lines->has_pending = true;
    lines->pending_at_ms = at_ms;
}

static bool is_empty(const struct lines *lines)
{
    for (size_t i = 0; i < lines->size; i++) {
        if (lines->line[i] != ' ' && lines->line[i] != '\t') {
            return false;
        }
    }
    return true;
}

/* A number that was cut in two is no number: back to the last blank. */
static void drop_cut_word(struct lines *lines)
{
    while (lines->size > 0 && lines->line[lines->size - 1] != ' ') {
        lines->size--;
    }
}

/* The line is whole (or, with !is_final, was overwritten). */
static void end_line(struct lines *lines, bool is_final, int64_t at_ms,
                     const struct metric_sink *sink)
{
    if (lines->is_cut) {
        drop_cut_word(lines);
    }
    if (is_empty(lines)) {
        if (is_final) {
            send_pending(lines, sink);
        }
    } else {
        switch (read_line(lines)) {
        case FOUND_NOTHING:
            break;
        case FOUND_SAID:
            send_pending(lines, sink);
            record_send(lines->fresh, sink, at_ms);
            break;
        case FOUND_METRICS:
            take_metrics(lines, is_final, at_ms, sink);
            break;
        case FOUND_PARTIAL:
            take_metrics(lines, false, at_ms, sink);
            break;
        case FOUND_COUNTER:
            send_pending(lines, sink);
            copy_counter(lines->context, lines->fresh);
            break;
        }
    }
    lines->size = 0;
    lines->is_cut = false;
}

/* --- bytes ----------------------------------------------------------------------------------- */

static void keep(struct lines *lines, const char *text, size_t size)
{
    size_t room = LINES_LINE_MAX - lines->size;
    if (size > room) {
        lines->is_cut = true;
        size = room;
    }
    memcpy(lines->line + lines->size, text, size);
    lines->size += size;
}

/* A byte within an escape sequence. False: it is not part of it, and the sequence is over. */
static bool take_escaped(struct lines *lines, char c)
{
    enum escape was = lines->escape;
    lines->escape = ESCAPE_NONE;
    if (c == '\n' || c == '\r' || ++lines->escape_size > ESCAPE_BYTES_MAX) {
        return false;
    }
    if (was == ESCAPE_BEGUN) {
        lines->escape = c == '[' ? ESCAPE_CONTROL : c == ']' ? ESCAPE_TEXT : ESCAPE_NONE;
    } else if (was == ESCAPE_CONTROL) {
        lines->escape = c >= '@' && c <= '~' ? ESCAPE_NONE : ESCAPE_CONTROL;
    } else if (c == '\033') {
        lines->escape = ESCAPE_BEGUN; /* ESC \ ends the text; anything else begins anew */
    } else {
        lines->escape = c == '\a' ? ESCAPE_NONE : ESCAPE_TEXT;
    }
    return true;
}

static void take_control(struct lines *lines, char c, int64_t at_ms, const struct metric_sink *sink)
{
    if (c == '\n') {
        end_line(lines, true, at_ms, sink);
    } else if (c == '\r' || c == '\b') {
        end_line(lines, false, at_ms, sink);
    } else if (c == '\033') {
        lines->escape = ESCAPE_BEGUN;
        lines->escape_size = 0;
    } else if (c == '\t') {
        keep(lines, &c, 1);
    }
}

void lines_feed(struct lines *lines, const void *bytes, size_t size, int64_t at_ms,
                const struct metric_sink *sink)
{
    const char *text = bytes;
    size_t at = 0;
    while (at < size) {
        if (lines->escape != ESCAPE_NONE && take_escaped(lines, text[at])) {
            at++;
            continue;
        }
        size_t end = at;
        while (end < size && (unsigned char)text[end] >= 0x20 && text[end] != 0x7F) {
            end++;
        }
        if (end > at) {
            keep(lines, text + at, end - at);
        }
        if (end < size) {
            take_control(lines, text[end], at_ms, sink);
            end++;
        }
        at = end;
    }
}

void lines_end(struct lines *lines, int64_t at_ms, const struct metric_sink *sink)
{
    lines->escape = ESCAPE_NONE;
    end_line(lines, true, at_ms, sink);
    send_pending(lines, sink);
}
