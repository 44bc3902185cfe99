#include "master/tokens.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#define HEADING "drover-tokens 1\n"

enum { RANDOM_BYTES = 32, TEXT_MAX = 256 };

const char *token_role_name(enum token_role role)
{
    static const char *const names[] = {
        [TOKEN_NONE] = "none",
        [TOKEN_READER] = "reader",
        [TOKEN_USER] = "user",
        [TOKEN_ADMIN] = "admin",
    };
    return names[role];
}

bool token_role_read(const char *name, enum token_role *out)
{
    for (int role = TOKEN_READER; role <= TOKEN_ADMIN; role++) {
        if (strcmp(name, token_role_name((enum token_role)role)) == 0) {
            *out = (enum token_role)role;
            return true;
        }
    }
    return false;
}

void tokens_release(struct tokens *tokens)
{
    free(tokens->items);
    *tokens = (struct tokens){0};
}

/* 1 if equal, else 0, in the same time. */
static unsigned equal_hashes(const uint8_t *a, const uint8_t *b)
{
    unsigned difference = 0;
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        difference |= (unsigned)(a[i] ^ b[i]);
    }
    return (difference - 1U) >> 31;
}

const struct token *tokens_check(const struct tokens *tokens, const char *text)
{
    uint8_t hash[SHA256_BYTES];
    size_t size = strnlen(text, TEXT_MAX);
    size_t found = 0; /* index + 1 */
    if (size == 0 || size == TEXT_MAX) {
        return NULL;
    }
    sha256_of(text, size, hash);
    for (size_t i = 0; i < tokens->count; i++) {
        found |= (i + 1) * equal_hashes(hash, tokens->items[i].hash);
    }
    explicit_bzero(hash, sizeof hash);
    return found ? &tokens->items[found - 1] : NULL;
}

const struct token *tokens_find(const struct tokens *tokens, const char *name)
{
    for (size_t i = 0; i < tokens->count; i++) {
        if (strcmp(tokens->items[i].name, name) == 0) {
            return &tokens->items[i];
        }
    }
    return NULL;
}

size_t tokens_count_role(const struct tokens *tokens, enum token_role role)
{
    size_t count = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        count += tokens->items[i].role == role;
    }
    return count;
}

static bool is_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return size > 0 && size <= TOKEN_NAME_MAX && name[size] == '\0' && name[0] != '.';
}

/* 32 bytes as 43 characters of base64url, without padding. */
static void add_base64url(const uint8_t bytes[RANDOM_BYTES], char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < RANDOM_BYTES; i++) {
        bits = bits << 8 | bytes[i];
        for (held += 8; held >= 6; held -= 6) {
            *out++ = digits[bits >> (held - 6) & 63];
        }
    }
    *out++ = digits[bits << (6 - held) & 63];
    *out = '\0';
}

static enum err_code draw_text(char text[TOKEN_CHARS + 1], struct err *err)
{
    uint8_t bytes[RANDOM_BYTES];
    size_t got = 0;
    while (got < sizeof bytes) {
        ssize_t more = getrandom(bytes + got, sizeof bytes - got, 0);
        if (more < 0 && errno != EINTR) {
            return err_errno(err, errno, "randomness for a token");
        }
        got += more > 0 ? (size_t)more : 0;
    }
    memcpy(text, "drv_", 4);
    add_base64url(bytes, text + 4);
    explicit_bzero(bytes, sizeof bytes);
    return ERR_OK;
}

enum err_code tokens_add(struct tokens *tokens, const char *name, enum token_role role,
                         int64_t now_ms, char text[TOKEN_CHARS + 1], struct err *err)
{
    CHECK(role != TOKEN_NONE);
    if (!is_name(name)) {
        return err_set(err, ERR_INVALID,
                       "a token's name is 1 to %d letters, digits, '_', '-' and '.'",
                       TOKEN_NAME_MAX);
    }
    if (tokens_find(tokens, name)) {
        return err_set(err, ERR_EXISTS, "there is a token '%s' already", name);
    }
    if (tokens->count >= TOKENS_MAX) {
        return err_set(err, ERR_QUOTA, "there are %d tokens already; remove some", TOKENS_MAX);
    }
    enum err_code code = draw_text(text, err);
    if (code != ERR_OK) {
        return code;
    }
    struct token token = {.role = role, .created_ms = now_ms};
    memcpy(token.name, name, strlen(name) + 1);
    sha256_of(text, TOKEN_CHARS, token.hash);
    VEC_PUSH(tokens->items, tokens->count, tokens->cap) = token;
    return ERR_OK;
}

bool tokens_remove(struct tokens *tokens, const char *name)
{
    const struct token *token = tokens_find(tokens, name);
    if (!token) {
        return false;
    }
    size_t index = (size_t)(token - tokens->items);
    memmove(tokens->items + index, tokens->items + index + 1,
            (tokens->count - index - 1) * sizeof *token);
    tokens->count--;
    return true;
}

/* One line a token: ROLE HASH CREATED NAME. */
void tokens_write(const struct tokens *tokens, struct str *document)
{
    str_add(document, HEADING);
    for (size_t i = 0; i < tokens->count; i++) {
        const struct token *token = &tokens->items[i];
        char hex[SHA256_HEX_CHARS + 1];
        sha256_hex(token->hash, hex);
        str_addf(document, "%s %s %" PRId64 " %s\n", token_role_name(token->role), hex,
                 token->created_ms, token->name);
    }
}

static bool read_hash(const char *hex, uint8_t hash[SHA256_BYTES])
{
    if (strlen(hex) != SHA256_HEX_CHARS || strspn(hex, "0123456789abcdef") != SHA256_HEX_CHARS) {
        return false;
    }
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        hash[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static bool read_line(char *line, struct token *out)
{
    char *rest = NULL;
    const char *role = strtok_r(line, " ", &rest);
    const char *hash = strtok_r(NULL, " ", &rest);
    const char *created = strtok_r(NULL, " ", &rest);
    const char *name = strtok_r(NULL, " ", &rest);
    const char *more = strtok_r(NULL, " ", &rest);
    if (!name || more || !is_name(name) || !token_role_read(role, &out->role) ||
        !read_hash(hash, out->hash)) {
        return false;
    }
    char *end = NULL;
    errno = 0;
    out->created_ms = strtoll(created, &end, 10);
    memcpy(out->name, name, strlen(name) + 1);
    return errno == 0 && *end == '\0' && out->created_ms >= 0;
}

enum err_code tokens_read(struct tokens *tokens, const char *text, size_t size, struct err *err)
{
    struct tokens read = {0};
    CHECK(tokens->count == 0);
    AUTO_FREE char *copy = mem_strndup(text, size);
    bool sound = strncmp(copy, HEADING, strlen(HEADING)) == 0 && strlen(copy) == size;
    char *rest = NULL;
    char *line = sound ? strtok_r(copy + strlen(HEADING), "\n", &rest) : NULL;
    while (sound && line) {
        struct token token = {0};
        sound =
            read.count < TOKENS_MAX && read_line(line, &token) && !tokens_find(&read, token.name);
        if (sound) {
            VEC_PUSH(read.items, read.count, read.cap) = token;
        }
        line = strtok_r(NULL, "\n", &rest);
    }
    if (!sound) {
        tokens_release(&read);
        return err_set(err, ERR_CORRUPT, "the list of tokens is damaged");
    }
    free(tokens->items);
    *tokens = read;
    return ERR_OK;
}
