/* volume_json.h - reading the small JSON objects of a volume, strictly.
 *
 * They are written by base/json.h and read back only by us, so this reader takes exactly what that
 * writer makes: no spaces, no fractions, numbers that fit, texts that fit. The first thing that is
 * not so makes the reader `bad`, after which every call does nothing and answers with zeros, so a
 * caller reads a whole shape and looks once, at the end. Pure code.
 *
 *     struct volume_json in = {.at = text, .end = text + size};
 *     for (size_t i = 0; volume_json_item(&in, '{', i); i++) {
 *         volume_json_key(&in, key, sizeof key); ... volume_json_u64(&in) ...
 *     }
 *     if (!volume_json_is_done(&in)) ...
 */
#ifndef VOLUME_VOLUME_JSON_H
#define VOLUME_VOLUME_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct volume_json {
    const char *at, *end;
    bool bad;
};

/* The i-th item of an object ('{') or array ('['): true: it comes next. i == 0 also takes the
 * opener; false: the closer was taken, or the reader is bad. */
bool volume_json_item(struct volume_json *in, char opener, size_t i);
void volume_json_key(struct volume_json *in, char *out, size_t out_size);
void volume_json_text(struct volume_json *in, char *out, size_t out_size);
uint64_t volume_json_u64(struct volume_json *in);
uint32_t volume_json_u32(struct volume_json *in);
int64_t volume_json_i64(struct volume_json *in);
bool volume_json_bool(struct volume_json *in);
bool volume_json_null(struct volume_json *in); /* true: a null was there, and is taken */
/* A text of exactly 2 * size hexadecimal digits. */
void volume_json_hex(struct volume_json *in, uint8_t *out, size_t size);
uint64_t volume_json_hex64(struct volume_json *in);     /* a text of 16 digits */
bool volume_json_is_done(const struct volume_json *in); /* not bad, and nothing is left */

#endif
