/* A list of tokens as the store might give it back, damaged or not; and texts that claim to be one.
 */
#include "master/tokens.h"

#include "base/mem.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tokens tokens = {0};
    struct tokens again = {0};
    struct err err = {0};
    if (tokens_read(&tokens, (const char *)data, size, &err) == ERR_OK) {
        AUTO_STR struct str document = {0};
        tokens_write(&tokens, &document);
        CHECK(tokens_read(&again, str_text(&document), document.size, &err) == ERR_OK);
        CHECK(again.count == tokens.count);
    }
    char text[TOKEN_CHARS + 1];
    CHECK(tokens.count >= TOKENS_MAX || tokens_find(&tokens, "fuzz") ||
          tokens_add(&tokens, "fuzz", TOKEN_USER, 0, text, &err) == ERR_OK);
    AUTO_FREE char *claim = mem_strndup((const char *)data, size);
    const struct token *known = tokens_check(&tokens, claim);
    CHECK(!known); /* nobody guesses one */
    tokens_release(&tokens);
    tokens_release(&again);
    return 0;
}
