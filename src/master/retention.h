/* retention.h - which old workflows may go, and their removal a little at a time.
 *
 * The decision is a pure function. The removal first renames the folder, so that nobody finds half
 * a workflow, and then unlinks a bounded number of files in each call, so that the loop never waits
 * for a million of them. Links are removed, never followed.
 */
#ifndef MASTER_RETENTION_H
#define MASTER_RETENTION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RETENTION_KEEP_DAYS = 30, RETENTION_KEEP_NEWEST = 100 };

struct retention_limits {
    int64_t keep_ms;      /* an ended workflow stays for this long after its end */
    uint32_t keep_newest; /* and these stay whatever their age */
    uint64_t bytes_max;   /* of all workflows together; 0: no limit */
};

/* 30 days, 100 workflows, no limit of size. */
struct retention_limits retention_defaults(void);

struct retention_item {
    uint32_t number;  /* the workflow */
    int64_t ended_ms; /* 0: it runs or waits, and is never chosen */
    uint64_t size_bytes;
    bool chosen; /* set by retention_choose */
};

/* Marks those to remove and returns how many. Chosen are: ended workflows that are older than
 * keep_ms and not among the keep_newest that ended last; and while what is left takes more than
 * bytes_max, those that ended first, young ones too, but never the one that ended last. Of two that
 * ended together the lower number is the older. */
size_t retention_choose(struct retention_item *items, size_t count,
                        const struct retention_limits *limits, int64_t now_ms);

struct removal;

/* The end of the name of a folder that is being removed. */
#define RETENTION_SUFFIX ".removed"

/* Renames the folder to PATH.removed and prepares its removal. A path that ends so already (left
 * from before a restart) is taken as it is. ERR_NOT_FOUND: there is none. */
MUST_USE enum err_code removal_open(const char *path, struct removal **out, struct err *err);

/* Unlinks at most `max` files and folders. ERR_OK: all is gone. ERR_AGAIN: call again. Otherwise it
 * cannot be removed (the rest stays under its new name) and the call is not to be repeated. */
MUST_USE enum err_code removal_step(struct removal *removal, size_t max, struct err *err);
void removal_close(struct removal *removal); /* NULL does nothing */

/* How many files and folders are gone so far. */
uint64_t removal_count(const struct removal *removal);

#endif
