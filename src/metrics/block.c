#include "metrics/block.h"

#include "base/check.h"
#include "base/rng.h"

#include <endian.h>
#include <math.h>
#include <string.h>

static const uint8_t magic[4] = {0xD5, 'm', 't', 1}; /* the last byte is the format's version */

/* Where things stand in a header, little-endian. */
enum {
    AT_MAGIC = 0,
    AT_CHECK = 4,   /* u32, over all that follows and the points */
    AT_FIRST = 8,   /* i64 ms */
    AT_SIZE = 16,   /* u16, of the points */
    AT_POINTS = 18, /* u16 */
};
_Static_assert(AT_POINTS + 2 == BLOCK_HEADER_BYTES, "the header ends there");

/* A point's first byte: the step's form, the value's form, and the scale of a decimal. */
enum { STEP_NONE, STEP_STRIDE, STEP_DIFFERENCE, STEP_BITS };
enum { VALUE_SAME, VALUE_DECIMAL, VALUE_FLOAT, VALUE_DOUBLE };
enum { FORM_SHIFT = 2, SCALE_SHIFT = 4, SCALE_MAX = 15 };

#define WHOLE_MAX 9007199254740992.0 /* 2^53: doubles up to it are exact as integers */

/* --- numbers --------------------------------------------------------------------------------- */

static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    value = isnan(value) ? NAN : value;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double of_bits(uint64_t bits)
{
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/* Differences wrap around, so that none overflows and every one can be undone. */
static int64_t difference(int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)to - (uint64_t)from);
}

static int64_t sum(int64_t from, int64_t step)
{
    return (int64_t)((uint64_t)from + (uint64_t)step);
}

static double power_of_ten(unsigned scale)
{
    static const double powers[SCALE_MAX + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    return powers[scale];
}

/* The value is digits / 10^scale, rounded as a division is: what strtod makes of the decimal. */
static bool is_decimal(double value, unsigned scale, int64_t *digits)
{
    double scaled = value * power_of_ten(scale);
    if (!(fabs(scaled) < WHOLE_MAX)) {
        return false;
    }
    *digits = (int64_t)nearbyint(scaled);
    return bits_of((double)*digits / power_of_ten(scale)) == bits_of(value);
}

/* --- writing --------------------------------------------------------------------------------- */

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t size = 0;
    while (value >= 0x80) {
        out[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[size++] = (uint8_t)value;
    return size;
}

static size_t put_fixed(uint8_t *out, uint64_t bits, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (uint8_t)(bits >> 8 * i);
    }
    return size;
}

void block_start(struct block *block)
{
    block->size = 0;
    block->point_count = 0;
    block->name_count = 0;
    block->first_ms = 0;
    block->last_ms = 0;
}

static size_t find_name(const struct block *block, const char *name)
{
    size_t index = 0;
    while (index < block->name_count && strcmp(block->names[index].name, name) != 0) {
        index++;
    }
    return index;
}

static size_t put_step(uint8_t *out, struct block_name *name, const struct metric *metric,
                       uint8_t *form)
{
    double step = metric->step;
    if (!metric->has_step) {
        *form = STEP_NONE;
        return 0;
    }
    if (!(fabs(step) < WHOLE_MAX) || bits_of((double)(int64_t)step) != bits_of(step)) {
        *form = STEP_BITS;
        return put_fixed(out, bits_of(step), 8);
    }
    int64_t stride = difference(name->step, (int64_t)step);
    bool same = stride == name->stride;
    name->step = (int64_t)step;
    name->stride = stride;
    *form = same ? STEP_STRIDE : STEP_DIFFERENCE;
    return same ? 0 : put_varint(out, zigzag(stride));
}

/* The value as a decimal, if that is shorter than its bits. */
static size_t put_decimal(uint8_t *out, struct block_name *name, double value, size_t limit,
                          uint8_t *form)
{
    for (unsigned scale = 0; scale <= SCALE_MAX; scale++) {
        int64_t digits = 0;
        if (!is_decimal(value, scale, &digits)) {
            continue;
        }
        int64_t before = name->scale == scale ? name->digits : 0;
        size_t size = put_varint(out, zigzag(difference(before, digits)));
        if (size >= limit) {
            return 0;
        }
        name->digits = digits;
        name->scale = (uint8_t)scale;
        *form = (uint8_t)(VALUE_DECIMAL << FORM_SHIFT | scale << SCALE_SHIFT);
        return size;
    }
    return 0;
}

static size_t put_value(uint8_t *out, struct block_name *name, double value, uint8_t *form)
{
    uint64_t bits = bits_of(value);
    if (bits == name->bits) {
        *form = VALUE_SAME << FORM_SHIFT;
        return 0;
    }
    name->bits = bits;
    bool is_float = bits_of((double)(float)value) == bits;
    size_t decimal = isfinite(value) ? put_decimal(out, name, value, is_float ? 4 : 8, form) : 0;
    if (decimal > 0) {
        return decimal;
    }
    if (is_float) {
        float narrow = (float)value;
        uint32_t narrow_bits = 0;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        *form = VALUE_FLOAT << FORM_SHIFT;
        return put_fixed(out, narrow_bits, 4);
    }
    *form = VALUE_DOUBLE << FORM_SHIFT;
    return put_fixed(out, bits, 8);
}

bool block_add(struct block *block, const struct metric *metric)
{
    size_t index = find_name(block, metric->name);
    if (index == BLOCK_NAMES_MAX || block->point_count == BLOCK_POINTS_MAX ||
        BLOCK_HEADER_BYTES + block->size + BLOCK_POINT_BYTES_MAX > BLOCK_BYTES_MAX) {
        return false;
    }
    if (block->point_count == 0) {
        block->first_ms = metric->at_ms;
        block->last_ms = metric->at_ms;
    }
    uint8_t *start = block->bytes + BLOCK_HEADER_BYTES + block->size;
    uint8_t *out = start + 1;
    struct block_name *name = &block->names[index];
    out += put_varint(out, index);
    if (index == block->name_count) {
        size_t size = strlen(metric->name);
        CHECK(size > 0 && size <= METRIC_NAME_MAX);
        *name = (struct block_name){0};
        memcpy(name->name, metric->name, size);
        out += put_varint(out, size);
        memcpy(out, metric->name, size);
        out += size;
        block->name_count++;
    }
    uint8_t step_form = 0;
    uint8_t value_form = 0;
    out += put_varint(out, zigzag(difference(block->last_ms, metric->at_ms)));
    out += put_step(out, name, metric, &step_form);
    out += put_value(out, name, metric->value, &value_form);
    *start = step_form | value_form;
    block->last_ms = metric->at_ms;
    block->size += (size_t)(out - start);
    block->point_count++;
    return true;
}

static uint32_t checksum(const uint8_t *block, size_t size)
{
    return (uint32_t)rng_hash_bytes(0x6d707473, block + AT_FIRST, size - AT_FIRST);
}

size_t block_seal(struct block *block)
{
    CHECK(block->point_count > 0);
    size_t size = BLOCK_HEADER_BYTES + block->size;
    memcpy(block->bytes + AT_MAGIC, magic, sizeof magic);
    put_fixed(block->bytes + AT_FIRST, (uint64_t)block->first_ms, 8);
    put_fixed(block->bytes + AT_SIZE, block->size, 2);
    put_fixed(block->bytes + AT_POINTS, block->point_count, 2);
    put_fixed(block->bytes + AT_CHECK, checksum(block->bytes, size), 4);
    return size;
}

/* --- reading --------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *at;
    size_t left;
    bool ok;
};

static uint64_t take_fixed(struct cursor *cursor, size_t size)
{
    uint64_t bits = 0;
    if (cursor->left < size) {
        cursor->ok = false;
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        bits |= (uint64_t)cursor->at[i] << 8 * i;
    }
    cursor->at += size;
    cursor->left -= size;
    return bits;
}

static uint64_t take_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && cursor->left > 0; shift += 7) {
        uint8_t byte = *cursor->at++;
        cursor->left--;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    cursor->ok = false;
    return 0;
}

static uint64_t fixed_at(const uint8_t *bytes, size_t size)
{
    return take_fixed(&(struct cursor){.at = bytes, .left = size}, size);
}

/* A block's size by its header, 0: no header. *is_whole: all of it is there, and unharmed. */
static size_t judge_header(const uint8_t *bytes, size_t size, bool *is_whole)
{
    size_t known = size < sizeof magic ? size : sizeof magic;
    *is_whole = false;
    if (memcmp(bytes, magic, known) != 0) {
        return 0;
    }
    if (size < BLOCK_HEADER_BYTES) {
        return BLOCK_HEADER_BYTES; /* at least */
    }
    size_t whole = BLOCK_HEADER_BYTES + (size_t)fixed_at(bytes + AT_SIZE, 2);
    if (whole > BLOCK_BYTES_MAX || whole == BLOCK_HEADER_BYTES) {
        return 0;
    }
    *is_whole = size >= whole && fixed_at(bytes + AT_CHECK, 4) == checksum(bytes, whole);
    return whole;
}

bool block_next(const uint8_t *bytes, size_t size, size_t *at, const uint8_t **found,
                size_t *found_size)
{
    size_t maybe = size; /* the first place where a block begins that is longer than the bytes */
    while (*at < size) {
        const uint8_t *start = memchr(bytes + *at, magic[0], size - *at);
        if (!start) {
            break;
        }
        *at = (size_t)(start - bytes);
        bool is_whole = false;
        size_t whole = judge_header(start, size - *at, &is_whole);
        if (is_whole) {
            *found = start;
            *found_size = whole;
            *at += whole;
            return true;
        }
        if (whole > size - *at && maybe == size) {
            maybe = *at;
        }
        (*at)++;
    }
    *at = maybe;
    return false;
}

static struct block_name *take_name(struct cursor *cursor, struct block_name *names, size_t *count)
{
    uint64_t index = take_varint(cursor);
    if (!cursor->ok || index > *count || index >= BLOCK_NAMES_MAX) {
        return NULL;
    }
    struct block_name *name = &names[index];
    if (index == *count) {
        uint64_t size = take_varint(cursor);
        if (!cursor->ok || size > cursor->left ||
            !metric_name_valid((const char *)cursor->at, (size_t)size)) {
            return NULL;
        }
        *name = (struct block_name){0};
        memcpy(name->name, cursor->at, (size_t)size);
        cursor->at += size;
        cursor->left -= (size_t)size;
        (*count)++;
    }
    return name;
}

static void take_step(struct cursor *cursor, struct block_name *name, unsigned form,
                      struct metric *metric)
{
    metric->has_step = form != STEP_NONE;
    metric->step = 0;
    if (form == STEP_BITS) {
        metric->step = of_bits(take_fixed(cursor, 8));
        cursor->ok = cursor->ok && isfinite(metric->step);
    } else if (form != STEP_NONE) {
        if (form == STEP_DIFFERENCE) {
            name->stride = unzigzag(take_varint(cursor));
        }
        name->step = sum(name->step, name->stride);
        metric->step = (double)name->step;
    }
}

static void take_value(struct cursor *cursor, struct block_name *name, unsigned form,
                       struct metric *metric)
{
    unsigned scale = form >> SCALE_SHIFT;
    switch (form >> FORM_SHIFT & 3) {
    case VALUE_DECIMAL:
        name->digits = sum(name->scale == scale ? name->digits : 0, unzigzag(take_varint(cursor)));
        name->scale = (uint8_t)scale;
        name->bits = bits_of((double)name->digits / power_of_ten(scale));
        break;
    case VALUE_FLOAT: {
        uint32_t bits = (uint32_t)take_fixed(cursor, 4);
        float value = 0;
        memcpy(&value, &bits, sizeof value);
        name->bits = bits_of((double)value);
        break;
    }
    case VALUE_DOUBLE:
        name->bits = bits_of(of_bits(take_fixed(cursor, 8)));
        break;
    default:
        break;
    }
    metric->value = of_bits(name->bits);
}

bool block_read(const uint8_t *bytes, size_t size, const struct metric_sink *sink)
{
    struct block_name names[BLOCK_NAMES_MAX];
    size_t name_count = 0;
    struct metric metric = {0};
    if (size < BLOCK_HEADER_BYTES) {
        return false;
    }
    uint64_t points = fixed_at(bytes + AT_POINTS, 2);
    metric.at_ms = (int64_t)fixed_at(bytes + AT_FIRST, 8);
    struct cursor cursor = {
        .at = bytes + BLOCK_HEADER_BYTES, .left = size - BLOCK_HEADER_BYTES, .ok = true};
    for (uint64_t i = 0; i < points; i++) {
        unsigned form = (unsigned)take_fixed(&cursor, 1);
        struct block_name *name = cursor.ok ? take_name(&cursor, names, &name_count) : NULL;
        if (!name) {
            return false;
        }
        metric.at_ms = sum(metric.at_ms, unzigzag(take_varint(&cursor)));
        take_step(&cursor, name, form & 3, &metric);
        take_value(&cursor, name, form, &metric);
        if (!cursor.ok) {
            return false;
        }
        metric.name = name->name;
        metric_send(sink, &metric);
    }
    return cursor.left == 0;
}
