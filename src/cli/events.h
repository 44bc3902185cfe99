/* events.h - reading an event stream (text/event-stream), piece by piece as it comes.
 *
 * Lines may end in LF, CR or CRLF; `data:` lines of one event are joined by line breaks; comments
 * and unknown fields are passed over. An event without data is dropped, but its id counts, as the
 * standard has it. An event longer than EVENTS_BYTES_MAX is an error: whoever sends such a thing is
 * not our server. Pure.
 */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum { EVENTS_BYTES_MAX = 4 << 20 };

/* Returns false to stop. */
typedef bool (*events_fn)(void *context, const char *kind, const char *data);

/* {.fn = ..., .context = ...} is valid. */
struct events {
    events_fn fn;
    void *context;
    struct str line;
    struct str kind;
    struct str data;
    struct str last_id; /* of the last event; survives events_reset */
    bool has_data;
    bool after_cr;
    bool broken; /* an event was too long */
};

/* False: the callback wanted to stop, or the stream is broken. */
bool events_feed(struct events *events, const void *bytes, size_t size);

/* For a new connection: half an event is forgotten, last_id is not. */
void events_reset(struct events *events);
void events_release(struct events *events);

#endif
