#include "metrics/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(const char *text, size_t size, size_t at)
{
    return at < size && text[at] >= '0' && text[at] <= '9';
}

static size_t skip_digits(const char *text, size_t size, size_t at)
{
    while (is_digit(text, size, at)) {
        at++;
    }
    return at;
}

static size_t read_word(const char *text, size_t size, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"infinity", INFINITY}, {"inf", INFINITY}, {"nan", NAN}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        if (size >= length && strncasecmp(text, words[i].word, length) == 0) {
            *out = words[i].value;
            return length;
        }
    }
    return 0;
}

/* Where the decimal number that begins at `at` ends; `at` itself if none does. */
static size_t decimal_end(const char *text, size_t size, size_t at)
{
    size_t end = skip_digits(text, size, at);
    if (end < size && text[end] == '.' && is_digit(text, size, end + 1)) {
        end = skip_digits(text, size, end + 1);
    }
    if (end == at || end >= size || (text[end] != 'e' && text[end] != 'E')) {
        return end;
    }
    size_t exponent = end + 1;
    if (exponent < size && (text[exponent] == '+' || text[exponent] == '-')) {
        exponent++;
    }
    return is_digit(text, size, exponent) ? skip_digits(text, size, exponent) : end;
}

size_t number_read(const char *text, size_t size, double *out)
{
    char copy[NUMBER_CHARS_MAX + 1];
    size =
        size > NUMBER_CHARS_MAX + 1 ? NUMBER_CHARS_MAX + 1 : size; /* whatever comes, little work */
    size_t sign = size > 0 && (text[0] == '-' || text[0] == '+');
    size_t end = decimal_end(text, size, sign);
    if (end == sign) {
        size_t length = read_word(text + sign, size - sign, out);
        if (length > 0 && text[0] == '-') {
            *out = -*out;
        }
        return length > 0 ? sign + length : 0;
    }
    if (end > NUMBER_CHARS_MAX) {
        return 0;
    }
    memcpy(copy, text, end);
    copy[end] = '\0';
    *out = strtod(copy, NULL); /* the program never sets LC_NUMERIC */
    return end;
}

bool number_parse(const char *text, size_t size, double *out)
{
    size_t length = number_read(text, size, out);
    if (length > 0 && length + 1 == size && text[length] == '%') {
        *out /= 100;
        return true;
    }
    return length > 0 && length == size;
}
