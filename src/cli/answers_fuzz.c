/* Whatever a server answers: JSON read, printed again, made into tables and messages; event streams
 * cut into pieces. The first byte says which. */
#include "base/check.h"
#include "cli/events.h"
#include "cli/explain.h"
#include "cli/nodes_table.h"
#include "cli/standing.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_json(const char *text, size_t size)
{
    struct jread doc = {0};
    struct str out = {0};
    if (jread_parse(&doc, text, size, NULL) == ERR_OK) {
        struct jread again = {0};
        struct str second = {0};
        jread_add(&out, doc.root);
        CHECK(jread_parse(&again, str_text(&out), out.size, NULL) == ERR_OK);
        jread_add(&second, again.root);
        CHECK(out.size == second.size && memcmp(str_text(&out), str_text(&second), out.size) == 0);
        jread_release(&again);
        str_release(&second);

        str_clear(&out);
        standing_add_line(&out, doc.root);
        standing_add_text(&out, doc.root, jread_get(doc.root, "items"), 5, "s");
        standing_add_task(&out, doc.root, standing_name_columns(doc.root));
        struct nodes_table table = {.now_ms = 1};
        nodes_table_add(&table, doc.root);
        nodes_table_print(&table, &out);
        nodes_table_release(&table);
        CHECK(!memchr(str_text(&out), '\033', out.size));
    }
    jread_release(&doc);
    str_release(&out);
}

static bool take(void *context, const char *kind, const char *data)
{
    struct str *out = context;
    str_addf(out, "%zu.%zu ", strlen(kind), strlen(data));
    return true;
}

/* In one piece and byte by byte it is the same. */
static void read_events(const char *text, size_t size)
{
    struct str whole = {0};
    struct str pieces = {0};
    struct events one = {.fn = take, .context = &whole};
    struct events many = {.fn = take, .context = &pieces};
    events_feed(&one, text, size);
    for (size_t i = 0; i < size; i++) {
        events_feed(&many, text + i, 1);
    }
    CHECK(strcmp(str_text(&whole), str_text(&pieces)) == 0);
    CHECK(strcmp(str_text(&one.last_id), str_text(&many.last_id)) == 0);
    events_release(&one);
    events_release(&many);
    str_release(&whole);
    str_release(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    if (data[0] % 4 == 0) {
        read_events(text, size - 1);
    } else if (data[0] % 4 == 1) {
        struct str out = {0};
        int code = explain_problem(400 + data[0], text, size - 1, &out);
        CHECK(code == 1 || code == 2);
        CHECK(out.size > 0 && !memchr(str_text(&out), '\033', out.size));
        str_release(&out);
    } else {
        read_json(text, size - 1);
    }
    return 0;
}
