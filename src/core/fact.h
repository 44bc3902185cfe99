/* fact.h - what the log holds: things that happened, never inputs, ticks or heartbeats.
 *
 * A fact is decided once and applied as often as the log is replayed. Its encoding is at most
 * FACT_BYTES_MAX bytes, begins with its kind, and only ever gains kinds or trailing fields: an old
 * log reads the same under new code. Pure.
 */
#ifndef CORE_FACT_H
#define CORE_FACT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { FACT_BYTES_MAX = 64 };

enum fact_kind {
    FACT_TERM = 1,  /* a master began: term */
    FACT_SUBMITTED, /* workflow */
    FACT_ASSIGNED,  /* task, attempt, term, node, at_ms */
    FACT_ACCEPTED,  /* task, attempt, started_ms, duration_ms, flags: its one result */
    FACT_FAILED,    /* task, attempt, outcome, code, started_ms, duration_ms, flags, due_ms */
    FACT_LOST,      /* task, attempt, flags, at_ms: the node, or the slot, or the stop took it */
    FACT_SKIPPED,   /* experiment, at_ms: what it depends on failed */
    FACT_CANCELLED, /* experiment, reason in outcome, at_ms: all that had not ended */
    FACT_ENDED,     /* workflow, outcome is its state, at_ms */
    FACT_TASK_CANCELLED, /* task, at_ms: it had not ended */
    FACT_RETRIED,        /* task, at_ms: it had failed, or was cancelled or skipped; runs again */
    FACT_REOPENED,       /* experiment, outcome says which of its tasks run again, at_ms */
    FACT_SUGGESTED,      /* experiment, task is how many of its tasks are defined now, at_ms */
    FACT_CLOSED,         /* experiment, at_ms: no more of its tasks will be defined */
    FACT_STOPPED,        /* task, attempt, at_ms: it ended early because it was told to; done */
    FACT_KIND_COUNT,
};

enum fact_flag {
    FACT_HAS_OUTPUT = 1, /* ACCEPTED: there is an output folder to link */
    FACT_FINAL = 2,      /* FAILED, LOST: no further attempt */
    FACT_BLAMELESS = 4,  /* LOST: does not count towards crash_limit */
};

/* REOPENED: which. */
enum fact_reopen {
    REOPEN_ALL = 0, /* that failed, were cancelled or skipped */
    REOPEN_SKIPPED = 1,
};

struct fact {
    enum fact_kind kind;
    uint32_t workflow;
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt;
    uint32_t term;
    uint32_t node;
    uint32_t outcome;
    uint32_t code;
    uint32_t flags;
    int64_t at_ms;
    int64_t started_ms;
    int64_t duration_ms;
    int64_t due_ms; /* FAILED and not final: not before this */
};

/* Writes the fact to bytes and returns how many. */
size_t fact_encode(const struct fact *fact, uint8_t bytes[FACT_BYTES_MAX]);

/* Reads one fact; *used says how far. ERR_CORRUPT: not a fact; *fact is then undefined. */
MUST_USE enum err_code fact_decode(const uint8_t *bytes, size_t size, struct fact *fact,
                                   size_t *used, struct err *err);

#endif
