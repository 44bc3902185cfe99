/* screen.h - the terminal as a screen that is redrawn and has keys.
 *
 * Between screen_open and screen_close the terminal shows its other page, without a cursor, and
 * keys come one by one. It is put back whatever ends the program, but for kill -9. One at a time.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* What happened; a letter is itself. */
enum screen_key {
    SCREEN_NOTHING = 0, /* the time is over, or the size has changed: draw again */
    SCREEN_UP = 256,
    SCREEN_DOWN,
    SCREEN_PAGE_UP,
    SCREEN_PAGE_DOWN,
    SCREEN_OTHER,
    SCREEN_LEAVE, /* asked to stop, or the terminal is gone */
};

void screen_open(void);
void screen_close(void);
void screen_size(int *width, int *height); /* 80 x 24 if it is not known */
bool screen_has_colour(void);
bool screen_is_utf8(void);

/* Replaces what is seen by these lines. */
void screen_show(const struct str *lines);
/* Waits for a key, at most so long. */
enum screen_key screen_wait(int64_t timeout_ms);

/* The first key of what a terminal sent, a byte or an escape sequence, and how many bytes it was.
 * Pure. */
enum screen_key screen_read_key(const char *bytes, size_t size, size_t *used);

#endif
