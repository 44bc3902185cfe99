/* tfevent.c - one event of TensorBoard's, decoded by hand (tfevents.h).
 *
 * Of a schema of dozens of messages four fields matter, and they have been the same for ten years:
 *
 *     Event    { double wall_time = 1; int64 step = 2; Summary summary = 5; }
 *     Summary  { repeated Value value = 1; }
 *     Value    { string tag = 1; float simple_value = 2; TensorProto tensor = 8; }
 *     TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2; bytes tensor_content =
 * 4; repeated float float_val = 5; double double_val = 6; int32 int_val = 7; int64 int64_val = 10;
 * int32 half_val = 13; } TensorShapeProto { repeated Dim dim = 2 { int64 size = 1; } }
 */
#include "metrics/tfevents.h"

#include <math.h>
#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

enum dtype {
    DTYPE_FLOAT = 1,
    DTYPE_DOUBLE = 2,
    DTYPE_INT32 = 3,
    DTYPE_INT64 = 9,
    DTYPE_BFLOAT16 = 14,
    DTYPE_HALF = 19,
};

struct bytes {
    const uint8_t *at;
    size_t size;
};

struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value;     /* of a number, its bits */
    struct bytes bytes; /* of WIRE_BYTES */
};

static bool take_varint(struct bytes *in, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && in->size > 0; shift += 7) {
        uint8_t byte = *in->at++;
        in->size--;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_fixed(struct bytes *in, size_t size, uint64_t *out)
{
    *out = 0;
    if (in->size < size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        *out |= (uint64_t)in->at[i] << 8 * i;
    }
    in->at += size;
    in->size -= size;
    return true;
}

/* The next field of a message. *ok is false, and so is the answer, if the bytes are none. */
static bool next_field(struct bytes *in, struct field *out, bool *ok)
{
    uint64_t key = 0;
    uint64_t size = 0;
    if (in->size == 0) {
        return false;
    }
    *ok = take_varint(in, &key);
    out->number = key >> 3;
    out->wire = (enum wire)(key & 7);
    if (!*ok) {
        return false;
    }
    if (out->wire == WIRE_VARINT) {
        *ok = take_varint(in, &out->value);
    } else if (out->wire == WIRE_64 || out->wire == WIRE_32) {
        *ok = take_fixed(in, out->wire == WIRE_64 ? 8 : 4, &out->value);
    } else {
        *ok = out->wire == WIRE_BYTES && take_varint(in, &size) && size <= in->size;
        if (*ok) {
            out->bytes = (struct bytes){.at = in->at, .size = (size_t)size};
            in->at += size;
            in->size -= (size_t)size;
        }
    }
    return *ok;
}

static double double_of(uint64_t bits)
{
    double number = 0;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static double float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float number = 0;
    memcpy(&number, &low, sizeof number);
    return (double)number;
}

static double half_of(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (double)(bits & 1023);
    double number = exponent == 31  ? (fraction > 0 ? NAN : INFINITY)
                    : exponent == 0 ? ldexp(fraction, -24)
                                    : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 & 1 ? -number : number;
}

/* --- tensors --------------------------------------------------------------------------------- */

struct tensor {
    uint64_t dtype;
    uint64_t elements; /* by its shape; more than one is as good as many */
    uint64_t bits;     /* of its number */
    uint64_t found;    /* how many numbers there were */
};

static bool is_type(const struct tensor *tensor, enum dtype dtype)
{
    return tensor->dtype == (uint64_t)dtype;
}

static size_t size_of_element(const struct tensor *tensor)
{
    if (is_type(tensor, DTYPE_FLOAT) || is_type(tensor, DTYPE_INT32)) {
        return 4;
    }
    if (is_type(tensor, DTYPE_DOUBLE) || is_type(tensor, DTYPE_INT64)) {
        return 8;
    }
    return is_type(tensor, DTYPE_HALF) || is_type(tensor, DTYPE_BFLOAT16) ? 2 : 0;
}

static double tensor_value(const struct tensor *tensor)
{
    switch ((enum dtype)tensor->dtype) {
    case DTYPE_FLOAT:
        return float_of(tensor->bits);
    case DTYPE_DOUBLE:
        return double_of(tensor->bits);
    case DTYPE_INT32:
        return (double)(int32_t)(uint32_t)tensor->bits;
    case DTYPE_INT64:
        return (double)(int64_t)tensor->bits;
    case DTYPE_BFLOAT16:
        return float_of((tensor->bits & 0xFFFF) << 16);
    case DTYPE_HALF:
        return half_of(tensor->bits & 0xFFFF);
    }
    return NAN;
}

static bool read_dim(struct bytes in, uint64_t *size)
{
    struct field field;
    bool ok = true;
    while (next_field(&in, &field, &ok)) {
        if (field.number == 1 && field.wire == WIRE_VARINT) {
            *size = field.value;
        }
    }
    return ok;
}

static bool read_shape(struct bytes in, struct tensor *tensor)
{
    struct field field;
    bool ok = true;
    while (next_field(&in, &field, &ok)) {
        uint64_t size = 0;
        if (field.number != 2 || field.wire != WIRE_BYTES) {
            continue;
        }
        if (!read_dim(field.bytes, &size)) {
            return false;
        }
        if (size != 1) {
            tensor->elements = size == 0 ? 0 : 2;
        }
    }
    return ok;
}

/* One number, or a packed list of them; which, says the wire type. */
static bool read_numbers(const struct field *field, struct tensor *tensor)
{
    struct bytes in = field->bytes;
    if (field->wire != WIRE_BYTES) {
        tensor->bits = field->value;
        tensor->found++;
        return true;
    }
    while (in.size > 0) {
        bool ok = field->number == 5   ? take_fixed(&in, 4, &tensor->bits)
                  : field->number == 6 ? take_fixed(&in, 8, &tensor->bits)
                                       : take_varint(&in, &tensor->bits);
        if (!ok) {
            return false;
        }
        tensor->found++;
    }
    return true;
}

static uint64_t dtype_of_field(uint64_t number, uint64_t dtype)
{
    return number == 5    ? (uint64_t)DTYPE_FLOAT
           : number == 6  ? (uint64_t)DTYPE_DOUBLE
           : number == 7  ? (uint64_t)DTYPE_INT32
           : number == 10 ? (uint64_t)DTYPE_INT64
           : number == 13 && (dtype == DTYPE_HALF || dtype == DTYPE_BFLOAT16) ? dtype
                                                                              : 0;
}

/* *is_scalar: it holds one number, which is *out. */
static bool read_tensor(struct bytes in, double *out, bool *is_scalar)
{
    struct tensor tensor = {.elements = 1};
    struct bytes content = {0};
    struct field field;
    bool ok = true;
    while (ok && next_field(&in, &field, &ok)) {
        if (field.number == 1 && field.wire == WIRE_VARINT) {
            tensor.dtype = field.value;
        } else if (field.number == 2 && field.wire == WIRE_BYTES) {
            ok = read_shape(field.bytes, &tensor);
        } else if (field.number == 4 && field.wire == WIRE_BYTES) {
            content = field.bytes;
        } else if (dtype_of_field(field.number, tensor.dtype) != 0 &&
                   dtype_of_field(field.number, tensor.dtype) == tensor.dtype) {
            ok = read_numbers(&field, &tensor);
        }
    }
    size_t element = size_of_element(&tensor);
    if (ok && element > 0 && content.size == element) {
        ok = take_fixed(&content, element, &tensor.bits);
        tensor.found = 1;
    }
    *is_scalar = ok && element > 0 && tensor.elements == 1 && tensor.found == 1;
    if (*is_scalar) {
        *out = tensor_value(&tensor);
    }
    return ok;
}

/* --- summaries ------------------------------------------------------------------------------- */

static bool read_value(struct bytes in, struct metric *metric, const struct metric_sink *sink)
{
    char name[METRIC_NAME_MAX + 1];
    struct bytes tag = {0};
    struct field field;
    bool has_value = false;
    bool ok = true;
    while (ok && next_field(&in, &field, &ok)) {
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            tag = field.bytes;
        } else if (field.number == 2 && field.wire == WIRE_32) {
            metric->value = float_of(field.value);
            has_value = true;
        } else if (field.number == 8 && field.wire == WIRE_BYTES) {
            bool is_scalar = false;
            ok = read_tensor(field.bytes, &metric->value, &is_scalar);
            has_value = has_value || is_scalar;
        }
    }
    if (ok && has_value && tag.at && metric_name_valid((const char *)tag.at, tag.size)) {
        memcpy(name, tag.at, tag.size);
        name[tag.size] = '\0';
        metric->name = name;
        metric_send(sink, metric);
    }
    return ok;
}

static bool read_summary(struct bytes in, struct metric *metric, const struct metric_sink *sink)
{
    struct field field;
    bool ok = true;
    while (ok && next_field(&in, &field, &ok)) {
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            ok = read_value(field.bytes, metric, sink);
        }
    }
    return ok;
}

bool tfevents_read_event(const void *bytes, size_t size, int64_t at_ms,
                         const struct metric_sink *sink)
{
    struct bytes in = {.at = bytes, .size = size};
    struct bytes summary = {0};
    struct metric metric = {.at_ms = at_ms, .has_step = true};
    struct field field;
    bool ok = true;
    while (next_field(&in, &field, &ok)) {
        if (field.number == 1 && field.wire == WIRE_64) {
            double seconds = double_of(field.value);
            if (seconds > 0 && seconds < 1e11) {
                metric.at_ms = (int64_t)(seconds * 1000);
            }
        } else if (field.number == 2 && field.wire == WIRE_VARINT) {
            metric.step = (double)(int64_t)field.value;
        } else if (field.number == 5 && field.wire == WIRE_BYTES) {
            summary = field.bytes;
        }
    }
    return ok && (summary.size == 0 || read_summary(summary, &metric, sink));
}
