#include "metrics/linescan.h"

#include "metrics/number.h"
#include "metrics/words.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    GAP_MAX = 16,        /* blanks between a name and its number */
    COUNTER_GAP_MAX = 8, /* and what may stand between "epoch" and its number */
};

/* A name and a number that stand together, before it is judged whether they are a metric. */
struct pair {
    size_t name;
    size_t name_size;
    size_t end; /* behind the number */
    double value;
    const char *part;  /* "val", or NULL: the line says nothing about the data */
    size_t owner;      /* LightGBM's valid_0's: where that word begins */
    size_t owner_size; /* 0: none */
    bool is_strong;    /* "=" or ":" between them */
    bool is_tight;     /* ":" with no blank behind it, as in host:8080 */
    bool has_fraction; /* 0.5, 1e-5, 50%, nan: not a plain whole number */
    bool is_ratio;     /* 97/100 */
    bool is_field;     /* nothing else stands between two delimiters */
    bool ends_field;   /* no word follows */
    bool is_best;
    bool is_unfit; /* a unit follows, or a wish stands before it */
};

struct scan {
    const char *text;
    size_t size;
    size_t at;
    const struct linescan_wanted *wanted;
    struct record *record;
    const char *part; /* of the last word that named one */
    size_t owner;     /* the word just before, if it was somebody's */
    size_t owner_size;
    size_t others; /* words and numbers that are no counter */
    size_t pair_count;
    bool after_best;
    bool after_wish;
    struct pair pairs[RECORD_ITEMS_MAX];
};

static char char_at(const struct scan *scan, size_t at)
{
    return at < scan->size ? scan->text[at] : '\n'; /* which no line has within */
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_among(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static size_t skip_blanks(const struct scan *scan, size_t at, size_t max)
{
    size_t end = at;
    while (end - at < max && is_blank(char_at(scan, end))) {
        end++;
    }
    return end;
}

static size_t skip_digits(const struct scan *scan, size_t at)
{
    while (is_digit(char_at(scan, at))) {
        at++;
    }
    return at;
}

/* --- what may follow a number ---------------------------------------------------------------- */

static bool may_end_number(const struct scan *scan, size_t end)
{
    char c = char_at(scan, end);
    char next = char_at(scan, end + 1);
    if (c == '\n' || is_blank(c) || (unsigned char)c >= 0x80 || is_among(c, ";|)]}>('\"*")) {
        return true;
    }
    if (c == ',') {
        return !is_digit(next); /* 1,234 */
    }
    /* The end of a sentence, but not 1.2.3 or 12:30. */
    return (c == '.' || c == ':') && (next == '\n' || is_blank(next));
}

static bool unit_follows(const struct scan *scan, size_t end)
{
    size_t start = skip_blanks(scan, end, 2);
    size_t at = start;
    while (at - start < 8 && is_letter(char_at(scan, at))) {
        at++;
    }
    return at > start && words_is_unit(scan->text + start, at - start);
}

static bool begins_field(const struct scan *scan, size_t name)
{
    while (name > 0 && is_blank(scan->text[name - 1])) {
        if (scan->text[name - 1] == '\t') {
            return true;
        }
        name--;
    }
    return name == 0 || is_among(scan->text[name - 1], "|,;-([:]");
}

static bool ends_field(const struct scan *scan, size_t end)
{
    while (is_blank(char_at(scan, end))) {
        if (scan->text[end] == '\t') {
            return true;
        }
        end++;
    }
    return char_at(scan, end) == '\n' || is_among(scan->text[end], "|,;-)]}(.");
}

/* --- pairs ----------------------------------------------------------------------------------- */

/* "=" or ":" or only blanks from `at` on. Returns where the number should begin, 0: nothing. */
static size_t read_separator(const struct scan *scan, size_t at, struct pair *pair)
{
    size_t end = skip_blanks(scan, at, GAP_MAX);
    char c = char_at(scan, end);
    if (c == '=' || c == ':') {
        size_t number = skip_blanks(scan, end + 1, GAP_MAX);
        pair->is_strong = true;
        pair->is_tight = c == ':' && number == end + 1;
        return number;
    }
    return end > at ? end : 0;
}

/* The second half of 97/100; moves *end behind it. */
static bool read_ratio(const struct scan *scan, size_t start, size_t *end, double *value)
{
    double below = 0;
    size_t slash = *end;
    if (char_at(scan, slash) != '/' || skip_digits(scan, start) != slash) {
        return false;
    }
    size_t behind = skip_digits(scan, slash + 1);
    size_t length = number_read(scan->text + slash + 1, behind - slash - 1, &below);
    if (length == 0 || slash + 1 + length != behind || !(below > 0) || *value > below) {
        return false;
    }
    *value /= below;
    *end = behind;
    return true;
}

/* loss=tensor(0.5, device=...): where the number begins. */
static size_t skip_wrapper(const struct scan *scan, size_t at)
{
    static const char word[] = "tensor(";
    size_t size = sizeof word - 1;
    bool is_wrapped = scan->size - at > size && memcmp(scan->text + at, word, size) == 0;
    return is_wrapped ? at + size : at;
}

static bool read_pair_number(const struct scan *scan, size_t at, struct pair *pair)
{
    at = at < scan->size ? skip_wrapper(scan, at) : at;
    size_t length =
        at < scan->size ? number_read(scan->text + at, scan->size - at, &pair->value) : 0;
    if (length == 0) {
        return false;
    }
    size_t end = at + length;
    pair->has_fraction = !isfinite(pair->value) || memchr(scan->text + at, '.', length) ||
                         memchr(scan->text + at, 'e', length) ||
                         memchr(scan->text + at, 'E', length);
    pair->is_ratio = read_ratio(scan, at, &end, &pair->value);
    if (!pair->is_ratio && char_at(scan, end) == '%') {
        pair->value /= 100;
        pair->has_fraction = true;
        end++;
        if (char_at(scan, end) == '|') {
            return false; /* a progress bar */
        }
    }
    pair->end = end;
    return may_end_number(scan, end);
}

static bool read_pair(const struct scan *scan, size_t name, size_t name_end, size_t word_end,
                      struct pair *out)
{
    struct pair pair = {.name = name, .name_size = name_end - name};
    size_t number = read_separator(scan, word_end, &pair);
    if (number == 0 || pair.name_size > METRIC_NAME_MAX || !read_pair_number(scan, number, &pair)) {
        return false;
    }
    pair.ends_field = ends_field(scan, pair.end);
    pair.is_field = pair.ends_field && begins_field(scan, name);
    /* loss.py:45 and host/acc:5 are places, not metrics. */
    bool is_place = pair.is_tight && !pair.has_fraction &&
                    (memchr(scan->text + name, '.', pair.name_size) ||
                     memchr(scan->text + name, '/', pair.name_size));
    pair.is_unfit = is_place || scan->after_wish || unit_follows(scan, pair.end);
    pair.is_best = scan->after_best;
    pair.part = scan->part;
    pair.owner = scan->owner;
    pair.owner_size = scan->owner_size;
    *out = pair;
    return true;
}

/* --- counters -------------------------------------------------------------------------------- */

/* "3", "3/10", "[3][10/500]" behind the word; moves on and returns true if there is a number. */
static bool read_counter(struct scan *scan, size_t word_end, const char *key)
{
    double value = 0;
    size_t at = word_end;
    while (at - word_end < COUNTER_GAP_MAX && is_among(char_at(scan, at), " \t:=[#(\"'")) {
        at++;
    }
    size_t length =
        is_digit(char_at(scan, at)) ? number_read(scan->text + at, scan->size - at, &value) : 0;
    size_t end = at + length;
    char c = char_at(scan, end);
    char next = char_at(scan, end + 1);
    if (length == 0 || !isfinite(value) || is_letter(c) || c == '%' ||
        ((c == ':' || c == '-' || c == '.') && is_digit(next))) {
        return false;
    }
    if (c == '/' && is_digit(next)) {
        end = skip_digits(scan, end + 1);
    } else if (c == '.' && (is_blank(next) || next == '\n')) {
        end++;
    }
    if (strcmp(key, "epoch") != 0 || !scan->record->has_epoch) {
        record_add(scan->record, key, strlen(key), value);
    }
    scan->at = end;
    return true;
}

/* What only the beginning of a line has: XGBoost's "[12]", CatBoost's "12:", and the "12/1875" of a
 * progress bar. */
static void read_head(struct scan *scan, struct linescan_line *line)
{
    double value = 0;
    double whole = 0;
    size_t start = skip_blanks(scan, 0, scan->size);
    bool bracket = char_at(scan, start) == '[';
    size_t digits = start + bracket;
    size_t length = number_read(scan->text + digits, scan->size - digits, &value);
    size_t end = digits + length;
    if (length == 0 || skip_digits(scan, digits) != end) {
        return;
    }
    char c = char_at(scan, end);
    char next = char_at(scan, end + 1);
    if (bracket ? c == ']' && is_blank(next) : c == ':' && next == '\t') {
        record_add(scan->record, "step", 4, value);
        scan->at = end + 1;
    } else if (!bracket && c == '/' && is_digit(next)) {
        size_t behind = skip_digits(scan, end + 1);
        size_t size = number_read(scan->text + end + 1, scan->size - end - 1, &whole);
        line->is_partial = end + 1 + size == behind && value < whole;
        scan->at = behind;
    }
}

/* --- words ----------------------------------------------------------------------------------- */

static size_t word_end_of(const struct scan *scan, size_t at)
{
    while (is_letter(char_at(scan, at)) || is_digit(char_at(scan, at)) ||
           is_among(char_at(scan, at), "/@.-")) {
        at++;
    }
    return at;
}

/* What a word that is not a pair's name says about the pairs behind it. */
static void note_word(struct scan *scan, size_t name, size_t size)
{
    const char *part = words_part(scan->text + name, size);
    scan->after_wish = words_is_wish(scan->text + name, size);
    if (part && strcmp(part, "best") == 0) {
        scan->after_best = true;
    } else if (part && part[0]) {
        scan->part = part;
    } else if (!part) {
        scan->after_best = false;
    }
}

static void forget_words(struct scan *scan)
{
    scan->after_best = false;
    scan->after_wish = false;
    scan->owner_size = 0;
}

/* valid_0's auc: the word belongs to the name that follows. */
static bool read_owner(struct scan *scan, size_t name, size_t name_end)
{
    if (char_at(scan, name_end) != '\'' || char_at(scan, name_end + 1) != 's' ||
        !is_blank(char_at(scan, name_end + 2))) {
        return false;
    }
    scan->owner = name;
    scan->owner_size = name_end - name;
    scan->at = name_end + 2;
    return true;
}

static void read_word(struct scan *scan)
{
    size_t name = scan->at;
    size_t word_end = word_end_of(scan, name);
    size_t name_end = word_end;
    while (name_end > name && is_among(scan->text[name_end - 1], "/@.-")) {
        name_end--;
    }
    if (name_end < word_end) {
        word_end = name_end; /* "loss -0.5": the dash may be the number's */
    } else if (name > 0 && is_among(scan->text[name - 1], "'\"") &&
               char_at(scan, word_end) == scan->text[name - 1]) {
        word_end++;
    }
    scan->at = word_end;
    const char *counter = words_counter(scan->text + name, name_end - name);
    if (counter && read_counter(scan, word_end, counter)) {
        return;
    }
    scan->others++;
    struct pair pair;
    if (scan->pair_count < RECORD_ITEMS_MAX && read_pair(scan, name, name_end, word_end, &pair)) {
        scan->pairs[scan->pair_count++] = pair;
        scan->at = pair.end;
        forget_words(scan);
    } else if (!read_owner(scan, name, name_end)) {
        scan->owner_size = 0;
        note_word(scan, name, name_end - name);
    }
}

/* Dates, times, versions, addresses, and numbers with their units: none of them begins a name. */
static void read_digits(struct scan *scan)
{
    scan->others++;
    forget_words(scan);
    while (is_letter(char_at(scan, scan->at)) || is_digit(char_at(scan, scan->at)) ||
           is_among(char_at(scan, scan->at), "._:/-%")) {
        scan->at++;
    }
}

static void read_all(struct scan *scan)
{
    while (scan->at < scan->size) {
        char c = scan->text[scan->at];
        if (is_letter(c)) {
            read_word(scan);
        } else if (is_digit(c)) {
            read_digits(scan);
        } else {
            if (!is_blank(c)) {
                scan->after_wish = false;
                scan->owner_size = 0;
            }
            scan->at++;
        }
    }
}

/* --- judging --------------------------------------------------------------------------------- */

bool linescan_is_wanted(const struct linescan_wanted *wanted, const char *name, size_t size)
{
    for (size_t i = 0; i < wanted->count; i++) {
        if (strncasecmp(wanted->names[i], name, size) == 0 && wanted->names[i][size] == '\0') {
            return true;
        }
    }
    return false;
}

/* The name as it will be called; its size, 0 if it is too long. */
static size_t build_name(const struct scan *scan, const struct pair *pair, bool is_known,
                         char out[METRIC_NAME_MAX + 1])
{
    const char *name = scan->text + pair->name;
    size_t first = 0; /* the name's first part may itself say which data: val_loss */
    while (first < pair->name_size && !is_among(name[first], "_-/.@")) {
        first++;
    }
    const char *own = words_part(name, first);
    bool add_part = is_known && pair->part && !(own && own[0]) && pair->owner_size == 0;
    int size = snprintf(out, METRIC_NAME_MAX + 1, "%s%s%s%.*s%s%.*s", pair->is_best ? "best_" : "",
                        add_part ? pair->part : "", add_part ? "_" : "", (int)pair->owner_size,
                        scan->text + pair->owner, pair->owner_size > 0 ? "_" : "",
                        (int)pair->name_size, name);
    if (size < 0 || size > METRIC_NAME_MAX) {
        return 0;
    }
    for (int i = 0; i < size; i++) {
        out[i] = (char)tolower((unsigned char)out[i]);
    }
    return (size_t)size;
}

static unsigned flags_of(const struct scan *scan, const struct pair *pair)
{
    char name[METRIC_NAME_MAX + 1];
    size_t size = build_name(scan, pair, true, name);
    if (linescan_is_wanted(scan->wanted, scan->text + pair->name, pair->name_size) ||
        (size > 0 && linescan_is_wanted(scan->wanted, name, size))) {
        return WORD_METRIC | WORD_PLAIN | WORD_WHOLE | WORD_RATIO;
    }
    return words_of_name(scan->text + pair->name, pair->name_size);
}

static bool has_counter(const struct scan *scan)
{
    return scan->record->has_step || scan->record->has_epoch;
}

/* Whether the pair is a metric by its own name. */
static bool is_known_metric(const struct scan *scan, const struct pair *pair, unsigned flags)
{
    bool counted = has_counter(scan);
    if (pair->is_unfit || !(flags & WORD_METRIC) || (pair->is_ratio && !(flags & WORD_RATIO))) {
        return false;
    }
    bool measured = pair->has_fraction || pair->is_ratio;
    if (pair->is_strong) {
        if (flags & WORD_EVERYDAY && !counted && !pair->ends_field) {
            return false;
        }
        return measured || flags & WORD_WHOLE || (counted && !pair->is_tight);
    }
    return (flags & WORD_PLAIN && (measured || (counted && flags & WORD_WHOLE))) ||
           (counted && pair->is_field && measured);
}

/* Whether it is one since it stands beside one that is. */
static bool is_beside_metric(const struct pair *pair, unsigned flags)
{
    if (pair->is_unfit || pair->is_ratio || flags != 0) {
        return false;
    }
    return pair->is_strong ? !pair->is_tight || pair->has_fraction
                           : pair->is_field && pair->has_fraction;
}

static void judge(struct scan *scan)
{
    unsigned flags[RECORD_ITEMS_MAX];
    bool any = false;
    for (size_t i = 0; i < scan->pair_count; i++) {
        flags[i] = flags_of(scan, &scan->pairs[i]);
        any = any || is_known_metric(scan, &scan->pairs[i], flags[i]);
    }
    for (size_t i = 0; any && i < scan->pair_count; i++) {
        const struct pair *pair = &scan->pairs[i];
        char name[METRIC_NAME_MAX + 1];
        bool known = is_known_metric(scan, pair, flags[i]);
        if (known || (has_counter(scan) && is_beside_metric(pair, flags[i]))) {
            size_t size = build_name(scan, pair, known, name);
            record_add_metric(scan->record, name, size, pair->value);
        }
    }
}

void linescan_read(const char *text, size_t size, const struct linescan_wanted *wanted,
                   struct record *record, struct linescan_line *line)
{
    struct scan
        scan; /* not zeroed whole: the pairs are many, and each is written before it is read */
    scan.text = text;
    scan.size = size;
    scan.at = 0;
    scan.wanted = wanted;
    scan.record = record;
    scan.part = NULL;
    scan.owner = 0;
    scan.others = 0;
    scan.pair_count = 0;
    forget_words(&scan);
    *line = (struct linescan_line){0};
    read_head(&scan, line);
    read_all(&scan);
    judge(&scan);
    line->only_counter = record->count == 0 && record->has_epoch && scan.others == 0;
}
