#include "metrics/jsonl.h"

#include "base/mem.h"
#include "base/str.h"
#include "metrics/object.h"

#include <stdlib.h>
#include <string.h>

struct jsonl {
    struct str line; /* the bytes of a line that came without its end */
    bool is_long;    /* the line has more than JSONL_LINE_MAX bytes; they are not kept */
    uint64_t lines;  /* ended so far */
    struct jsonl_faults faults;
    struct record record;
};

struct jsonl *jsonl_create(void)
{
    return mem_alloc(sizeof(struct jsonl));
}

void jsonl_destroy(struct jsonl *jsonl)
{
    if (jsonl) {
        str_release(&jsonl->line);
        free(jsonl);
    }
}

static bool is_blank(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            return false;
        }
    }
    return true;
}

static void take_line(struct jsonl *jsonl, const char *text, size_t size, int64_t at_ms,
                      const struct metric_sink *sink)
{
    struct object_about about;
    bool is_long = jsonl->is_long || size > JSONL_LINE_MAX;
    jsonl->is_long = false;
    jsonl->lines++;
    if (!is_long && is_blank(text, size)) {
        return;
    }
    record_clear(&jsonl->record);
    if (!is_long && object_read(text, size, false, &jsonl->record, &about)) {
        record_send(&jsonl->record, sink, at_ms);
        return;
    }
    if (jsonl->faults.lines++ == 0) {
        jsonl->faults.first_line = jsonl->lines;
        jsonl->faults.first_is_long = is_long;
    }
}

static void keep(struct jsonl *jsonl, const char *text, size_t size)
{
    if (jsonl->is_long || size > JSONL_LINE_MAX - jsonl->line.size) {
        jsonl->is_long = true;
        str_clear(&jsonl->line);
    } else if (size > 0) {
        str_add_bytes(&jsonl->line, text, size);
    }
}

void jsonl_feed(struct jsonl *jsonl, const void *bytes, size_t size, int64_t at_ms,
                const struct metric_sink *sink)
{
    const char *text = bytes;
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size;
        if (!end) {
            keep(jsonl, text, length);
            return;
        }
        if (jsonl->line.size > 0 || jsonl->is_long) {
            keep(jsonl, text, length);
            take_line(jsonl, str_text(&jsonl->line), jsonl->line.size, at_ms, sink);
            str_clear(&jsonl->line);
        } else {
            take_line(jsonl, text, length, at_ms, sink);
        }
        text += length + 1;
        size -= length + 1;
    }
}

void jsonl_end(struct jsonl *jsonl, int64_t at_ms, const struct metric_sink *sink)
{
    if (jsonl->line.size > 0 || jsonl->is_long) {
        take_line(jsonl, str_text(&jsonl->line), jsonl->line.size, at_ms, sink);
        str_clear(&jsonl->line);
    }
}

struct jsonl_faults jsonl_faults(const struct jsonl *jsonl)
{
    return jsonl->faults;
}
