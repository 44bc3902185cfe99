#include "cli/events.h"

#include <string.h>

static bool end_event(struct events *events)
{
    bool go_on = true;
    if (events->has_data) {
        const char *kind = events->kind.size > 0 ? str_text(&events->kind) : "message";
        go_on = events->fn(events->context, kind, str_text(&events->data));
    }
    str_clear(&events->kind);
    str_clear(&events->data);
    events->has_data = false;
    return go_on;
}

/* An id with a NUL in it is ignored; one with a line break cannot be. */
static void take_id(struct events *events, const char *value)
{
    if (strlen(value) == (size_t)(str_text(&events->line) + events->line.size - value)) {
        str_clear(&events->last_id);
        str_add(&events->last_id, value);
    }
}

static bool end_line(struct events *events)
{
    const char *line = str_text(&events->line);
    if (events->line.size == 0) {
        return end_event(events);
    }
    const char *colon = memchr(line, ':', events->line.size);
    size_t name = colon ? (size_t)(colon - line) : events->line.size;
    const char *value = colon ? colon + 1 : line + events->line.size;
    value += colon && *value == ' ' ? 1 : 0;
    if (name == 4 && memcmp(line, "data", 4) == 0) {
        if (events->has_data) {
            str_add_char(&events->data, '\n');
        }
        str_add(&events->data, value);
        events->has_data = true;
    } else if (name == 5 && memcmp(line, "event", 5) == 0) {
        str_clear(&events->kind);
        str_add(&events->kind, value);
    } else if (name == 2 && memcmp(line, "id", 2) == 0) {
        take_id(events, value);
    }
    str_clear(&events->line);
    return true;
}

bool events_feed(struct events *events, const void *bytes, size_t size)
{
    const char *text = bytes;
    for (size_t i = 0; i < size && !events->broken; i++) {
        char c = text[i];
        bool second_half = c == '\n' && events->after_cr;
        events->after_cr = c == '\r';
        if (second_half) {
            continue;
        }
        if (c == '\n' || c == '\r') {
            if (!end_line(events)) {
                return false;
            }
            continue;
        }
        str_add_char(&events->line, c);
        events->broken = events->line.size + events->data.size > EVENTS_BYTES_MAX;
    }
    return !events->broken;
}

void events_reset(struct events *events)
{
    str_clear(&events->line);
    str_clear(&events->kind);
    str_clear(&events->data);
    events->has_data = false;
    events->after_cr = false;
    events->broken = false;
}

void events_release(struct events *events)
{
    str_release(&events->line);
    str_release(&events->kind);
    str_release(&events->data);
    str_release(&events->last_id);
}
