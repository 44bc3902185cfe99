/* object_driver.h - what the drivers of object.h share: judging a call, filling in its answer,
 * keeping it in line. For src/object alone.
 */
#ifndef OBJECT_OBJECT_DRIVER_H
#define OBJECT_OBJECT_DRIVER_H

#include "object/object.h"

/* One call. ----------------------------------------------------------------------------------- */

/* True if the question makes sense. Else call->code is ERR_RANGE, and the text says which key. */
MUST_USE bool object_call_judge(struct object_call *call);

/* Sets the answer to this failure; the text begins with the key ("(list)", "(delete)" without). */
enum err_code object_call_fail(struct object_call *call, enum err_code code, const char *format,
                               ...) PRINTF_LIKE(3, 4);

/* How many bytes a GET asks of an object of object_size bytes, which is noted in the call. False:
 * the range begins behind the end, and the call has failed. */
MUST_USE bool object_call_range(struct object_call *call, uint64_t object_size, uint64_t *size);

/* Room for size bytes and a NUL in the empty call->body; not zeroed, body.size stays 0. False: no
 * memory, and the call has failed with ERR_AGAIN. */
MUST_USE bool object_call_reserve(struct object_call *call, uint64_t size);

/* The next item of a LIST. False: the page is full, and `more` has been set. */
bool object_call_add_item(struct object_call *call, const char *key, uint64_t size);

/* A prefix NULL means all; after NULL means from the beginning. */
bool object_call_wants_key(const struct object_call *call, const char *key);

void object_stats_count(struct object_stats *stats, const struct object_call *call);

/* A line: calls that wait their turn, first come first served. --------------------------------- */

/* For drivers that do their work inside run. It holds calls by call->next and owns none of them.
 * The descriptor is readable while the line is not empty. */
struct object_line {
    struct object_call *first, *last;
    int fd;
};

MUST_USE enum err_code object_line_init(struct object_line *line, struct err *err);
void object_line_release(struct object_line *line); /* empty by now */
void object_line_add(struct object_line *line, struct object_call *call);
struct object_call *object_line_take(struct object_line *line); /* NULL: empty */
/* Ends all of it, and what is added meanwhile, with ERR_CANCELLED. */
void object_line_cancel(struct object_line *line);

/* Opening. ------------------------------------------------------------------------------------- */

/* A memory store with a shelf of its own. */
struct object_store *object_memory_open_alone(void);

#endif
