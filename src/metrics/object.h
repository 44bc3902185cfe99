/* object.h - the numbers in one JSON object, or in a dictionary as Python prints it.
 *
 * Objects within are flattened: {"val": {"loss": 0.5}} is val/loss. Lists, texts, true, false and
 * null are read over. NaN, Infinity and -Infinity are numbers, as Python writes them. The pair
 * {"name": "loss", "value": 0.5} is the metric loss. Time is linear and depth bounded by
 * OBJECT_DEPTH_MAX. Pure.
 */
#ifndef METRICS_OBJECT_H
#define METRICS_OBJECT_H

#include "metrics/record.h"

enum { OBJECT_DEPTH_MAX = 16 };

struct object_about {
    bool has_message; /* a text with the key msg, message or event: a log entry rather than numbers
                       */
};

/* Adds the numbers of the object that is the whole of text, but for blanks around it, to record.
 * `loose` also takes 'single quotes', True, False, None, nan, numbers in quotes and tensor(0.5).
 * False: not an object, or deeper than the bound; record then holds anything. */
bool object_read(const char *text, size_t size, bool loose, struct record *record,
                 struct object_about *about);

#endif
