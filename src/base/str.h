/* str.h - a growing byte buffer that is always NUL-terminated.
 *
 * `struct str s = {0};` is empty and valid (text may be NULL until something is added; str_text
 * never returns NULL). The owner calls str_release. Bytes may hold NULs; size counts them.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    char *text;
    size_t size;
    size_t cap;
};

void str_release(struct str *str); /* frees and empties; NULL does nothing */
void str_clear(struct str *str);   /* empties, keeps the memory */
void str_add(struct str *str, const char *text);
void str_add_bytes(struct str *str, const void *bytes, size_t size);
void str_add_char(struct str *str, char c);
void str_add_repeat(struct str *str, const char *text, size_t count);
void str_addf(struct str *str, const char *format, ...) PRINTF_LIKE(2, 3);
void str_add_u64(struct str *str, uint64_t number); /* decimal; faster than str_addf */
void str_add_i64(struct str *str, int64_t number);
void str_add_utf8(struct str *str, uint32_t character);
void str_add_double(struct str *str, double number); /* shortest text that reads back the same */
const char *str_text(const struct str *str);
char *str_take(struct str *str); /* the text, now the caller's (free); str is empty again */

int str_hex_digit(char c); /* its value; -1: it is none */

#define AUTO_STR __attribute__((cleanup(str_release)))

#endif
