#include "base/str.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct str *str, size_t extra)
{
    size_t need = 0;
    CHECK(!__builtin_add_overflow(str->size, extra, &need));
    CHECK(!__builtin_add_overflow(need, (size_t)1, &need));
    if (need <= str->cap) {
        return;
    }
    size_t cap = str->cap ? str->cap : 64;
    while (cap < need) {
        cap = cap * 2 > cap ? cap * 2 : need;
    }
    str->text = mem_resize(str->text, cap, 1);
    str->cap = cap;
}

void str_release(struct str *str)
{
    if (str) {
        free(str->text);
        *str = (struct str){0};
    }
}

void str_clear(struct str *str)
{
    str->size = 0;
    if (str->text) {
        str->text[0] = '\0';
    }
}

void str_add_bytes(struct str *str, const void *bytes, size_t size)
{
    reserve(str, size);
    if (size) {
        memcpy(str->text + str->size, bytes, size);
    }
    str->size += size;
    str->text[str->size] = '\0';
}

void str_add(struct str *str, const char *text)
{
    str_add_bytes(str, text, strlen(text));
}

void str_add_char(struct str *str, char c)
{
    str_add_bytes(str, &c, 1);
}

void str_add_repeat(struct str *str, const char *text, size_t count)
{
    while (count-- > 0) {
        str_add(str, text);
    }
}

void str_addf(struct str *str, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(size >= 0);
    reserve(str, (size_t)size);
    vsnprintf(str->text + str->size, (size_t)size + 1, format, again);
    va_end(again);
    str->size += (size_t)size;
}

void str_add_u64(struct str *str, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    str_add_bytes(str, digits + at, sizeof digits - at);
}

void str_add_i64(struct str *str, int64_t number)
{
    if (number < 0) {
        str_add_char(str, '-');
        str_add_u64(str, 0 - (uint64_t)number);
    } else {
        str_add_u64(str, (uint64_t)number);
    }
}

void str_add_double(struct str *str, double number)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) {
            break;
        }
    }
    /* 1e-05 → 1e-5, the way JSON and people write it */
    char *exponent = strchr(text, 'e');
    if (exponent && (exponent[1] == '-' || exponent[1] == '+')) {
        char *digits = exponent + 2;
        while (digits[0] == '0' && digits[1] != '\0') {
            memmove(digits, digits + 1, strlen(digits));
        }
    }
    str_add(str, text);
}

void str_add_utf8(struct str *str, uint32_t character)
{
    if (character < 0x80) {
        str_add_char(str, (char)character);
        return;
    }
    int shift = character < 0x800 ? 6 : character < 0x10000 ? 12 : 18;
    unsigned lead = shift == 6 ? 0xc0 : shift == 12 ? 0xe0 : 0xf0;
    str_add_char(str, (char)(lead | character >> shift));
    for (int left = shift; left > 0; left -= 6) {
        str_add_char(str, (char)(0x80 | (character >> (left - 6) & 0x3f)));
    }
}

int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

const char *str_text(const struct str *str)
{
    return str->text ? str->text : "";
}

char *str_take(struct str *str)
{
    reserve(str, 0);
    str->text[str->size] = '\0';
    char *text = str->text;
    *str = (struct str){0};
    return text;
}
