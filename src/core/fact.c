#include "core/fact.h"

#include <stdbool.h>
#include <string.h>

/* Which fields each kind carries, in the order they are written. */
enum field {
    FIELD_END = 0,
    FIELD_WORKFLOW,
    FIELD_EXPERIMENT,
    FIELD_TASK,
    FIELD_ATTEMPT,
    FIELD_TERM,
    FIELD_NODE,
    FIELD_OUTCOME,
    FIELD_CODE,
    FIELD_FLAGS,
    FIELD_AT,
    FIELD_STARTED,
    FIELD_DURATION,
    FIELD_DUE,
};

enum { FIELDS_MAX = 11 };

static const uint8_t layout[FACT_KIND_COUNT][FIELDS_MAX] = {
    [FACT_TERM] = {FIELD_TERM, FIELD_AT},
    [FACT_SUBMITTED] = {FIELD_WORKFLOW, FIELD_AT},
    [FACT_ASSIGNED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_ATTEMPT, FIELD_TERM,
                       FIELD_NODE, FIELD_AT},
    [FACT_ACCEPTED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_ATTEMPT, FIELD_FLAGS,
                       FIELD_STARTED, FIELD_DURATION},
    [FACT_FAILED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_ATTEMPT, FIELD_OUTCOME,
                     FIELD_CODE, FIELD_FLAGS, FIELD_STARTED, FIELD_DURATION, FIELD_DUE},
    [FACT_LOST] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_ATTEMPT, FIELD_FLAGS,
                   FIELD_AT},
    [FACT_SKIPPED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_AT},
    [FACT_CANCELLED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_OUTCOME, FIELD_AT},
    [FACT_ENDED] = {FIELD_WORKFLOW, FIELD_OUTCOME, FIELD_AT},
    [FACT_TASK_CANCELLED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_AT},
    [FACT_RETRIED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_AT},
    [FACT_REOPENED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_OUTCOME, FIELD_AT},
    [FACT_SUGGESTED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_AT},
    [FACT_CLOSED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_AT},
    [FACT_STOPPED] = {FIELD_WORKFLOW, FIELD_EXPERIMENT, FIELD_TASK, FIELD_ATTEMPT, FIELD_AT},
};

static uint64_t get_field(const struct fact *fact, enum field field)
{
    switch (field) {
    case FIELD_WORKFLOW:
        return fact->workflow;
    case FIELD_EXPERIMENT:
        return fact->experiment;
    case FIELD_TASK:
        return fact->task;
    case FIELD_ATTEMPT:
        return fact->attempt;
    case FIELD_TERM:
        return fact->term;
    case FIELD_NODE:
        return fact->node;
    case FIELD_OUTCOME:
        return fact->outcome;
    case FIELD_CODE:
        return fact->code;
    case FIELD_FLAGS:
        return fact->flags;
    case FIELD_AT:
        return (uint64_t)fact->at_ms;
    case FIELD_STARTED:
        return (uint64_t)fact->started_ms;
    case FIELD_DURATION:
        return (uint64_t)fact->duration_ms;
    case FIELD_DUE:
        return (uint64_t)fact->due_ms;
    case FIELD_END:
        break;
    }
    return 0;
}

static bool set_u32(uint32_t *out, uint64_t number)
{
    *out = (uint32_t)number;
    return number <= UINT32_MAX;
}

static bool set_time(int64_t *out, uint64_t number)
{
    *out = (int64_t)number;
    return number <= INT64_MAX;
}

static bool set_field(struct fact *fact, enum field field, uint64_t number)
{
    switch (field) {
    case FIELD_WORKFLOW:
        return set_u32(&fact->workflow, number);
    case FIELD_EXPERIMENT:
        return set_u32(&fact->experiment, number);
    case FIELD_TASK:
        fact->task = number;
        return true;
    case FIELD_ATTEMPT:
        return set_u32(&fact->attempt, number);
    case FIELD_TERM:
        return set_u32(&fact->term, number);
    case FIELD_NODE:
        return set_u32(&fact->node, number);
    case FIELD_OUTCOME:
        return set_u32(&fact->outcome, number);
    case FIELD_CODE:
        return set_u32(&fact->code, number);
    case FIELD_FLAGS:
        return set_u32(&fact->flags, number);
    case FIELD_AT:
        return set_time(&fact->at_ms, number);
    case FIELD_STARTED:
        return set_time(&fact->started_ms, number);
    case FIELD_DURATION:
        return set_time(&fact->duration_ms, number);
    case FIELD_DUE:
        return set_time(&fact->due_ms, number);
    case FIELD_END:
        break;
    }
    return false;
}

size_t fact_encode(const struct fact *fact, uint8_t bytes[FACT_BYTES_MAX])
{
    CHECK(fact->kind > 0 && fact->kind < FACT_KIND_COUNT);
    size_t size = 0;
    bytes[size++] = (uint8_t)fact->kind;
    for (const uint8_t *field = layout[fact->kind]; *field; field++) {
        uint64_t number = get_field(fact, (enum field) * field);
        while (number >= 0x80) {
            CHECK(size < FACT_BYTES_MAX);
            bytes[size++] = (uint8_t)(number | 0x80);
            number >>= 7;
        }
        CHECK(size < FACT_BYTES_MAX);
        bytes[size++] = (uint8_t)number;
    }
    return size;
}

/* A base-128 number; false past the end or past 64 bits. */
static bool read_number(const uint8_t *bytes, size_t size, size_t *at, uint64_t *out)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (*at >= size) {
            return false;
        }
        uint8_t byte = bytes[(*at)++];
        uint64_t part = byte & 0x7fu;
        if (shift == 63 && part > 1) {
            return false;
        }
        number |= part << shift;
        if (byte < 0x80) {
            *out = number;
            return true;
        }
    }
    return false;
}

enum err_code fact_decode(const uint8_t *bytes, size_t size, struct fact *fact, size_t *used,
                          struct err *err)
{
    *fact = (struct fact){0};
    if (size == 0 || bytes[0] == 0 || bytes[0] >= FACT_KIND_COUNT) {
        return err_set(err, ERR_CORRUPT, "log: no fact of kind %d", size ? bytes[0] : -1);
    }
    fact->kind = (enum fact_kind)bytes[0];
    size_t at = 1;
    for (const uint8_t *field = layout[fact->kind]; *field; field++) {
        uint64_t number = 0;
        if (!read_number(bytes, size, &at, &number) ||
            !set_field(fact, (enum field) * field, number)) {
            return err_set(err, ERR_CORRUPT, "log: a fact of kind %d is damaged", (int)fact->kind);
        }
    }
    *used = at;
    return ERR_OK;
}
