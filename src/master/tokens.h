/* tokens.h - who may use the HTTP API: named bearer tokens with a role, kept as hashes.
 *
 * A token is "drv_" and 256 random bits in base64url; only its SHA-256 is kept, so neither the
 * state folder nor a core dump of an old master gives one away. With 256 bits there is nothing to
 * guess, so hashes need no salt and failures no delay; comparing takes the same time for any text.
 * One thread.
 */
#ifndef MASTER_TOKENS_H
#define MASTER_TOKENS_H

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKENS_MAX = 1000,
    TOKEN_NAME_MAX = 64, /* letters, digits, "_", "-" and "."; not beginning with a dot */
    TOKEN_CHARS = 4 + 43,
};

/* Each may do what those before it may. */
enum token_role { TOKEN_NONE, TOKEN_READER, TOKEN_USER, TOKEN_ADMIN };

const char *token_role_name(enum token_role role); /* "none", "reader", "user", "admin" */
bool token_role_read(const char *name, enum token_role *out); /* never TOKEN_NONE */

struct token {
    char name[TOKEN_NAME_MAX + 1];
    enum token_role role;
    int64_t created_ms;
    uint8_t hash[SHA256_BYTES];
};

/* Zeroed memory holds none. */
struct tokens {
    struct token *items; /* in the order made */
    size_t count;
    size_t cap;
};

void tokens_release(struct tokens *tokens);

/* The token of this text, or NULL. The time does not depend on which, or how nearly. */
const struct token *tokens_check(const struct tokens *tokens, const char *text);

const struct token *tokens_find(const struct tokens *tokens, const char *name);
size_t tokens_count_role(const struct tokens *tokens, enum token_role role);

/* Makes a token; its text is given once, here, and is the caller's to wipe. ERR_INVALID: the name;
 * ERR_EXISTS: it is taken; ERR_QUOTA: too many; ERR_IO: the system gives no randomness. */
MUST_USE enum err_code tokens_add(struct tokens *tokens, const char *name, enum token_role role,
                                  int64_t now_ms, char text[TOKEN_CHARS + 1], struct err *err);
bool tokens_remove(struct tokens *tokens, const char *name); /* false: there is none */

/* As a document, and back into an empty list. ERR_CORRUPT: it is not one; nothing was read. */
void tokens_write(const struct tokens *tokens, struct str *document);
MUST_USE enum err_code tokens_read(struct tokens *tokens, const char *text, size_t size,
                                   struct err *err);

#endif
