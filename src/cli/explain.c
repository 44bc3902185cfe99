#include "cli/explain.h"

#include "base/jread.h"
#include "cli/cli.h"

#include <inttypes.h>

enum { ERRORS_SHOWN = 50 };

static int exit_code_of(int status)
{
    return status >= 400 && status < 500 && status != 408 && status != 429 ? EXIT_USAGE
                                                                           : EXIT_WORK_FAILED;
}

static bool add_recipe_errors(struct str *out, const struct jnode *errors)
{
    size_t shown = 0;
    for (const struct jnode *item = jread_first(errors); item && shown < ERRORS_SHOWN;
         item = item->next) {
        jread_add_clean(out, jread_text(item, "file", "recipe"));
        uint64_t line = jread_u64(item, "line", 0);
        if (line > 0) {
            str_addf(out, ":%" PRIu64 ":%" PRIu64, line, jread_u64(item, "column", 0));
        }
        str_add(out, ": ");
        jread_add_clean(out, jread_text(item, "message", "it is wrong"));
        str_add_char(out, '\n');
        shown++;
    }
    return shown > 0;
}

int explain_problem(int status, const char *body, size_t size, struct str *out)
{
    struct jread problem = {0};
    bool read = jread_parse(&problem, body, size, NULL) == ERR_OK;
    const char *detail = jread_text(problem.root, "detail", "");
    const char *title = jread_text(problem.root, "title", "");
    if (!add_recipe_errors(out, jread_get(problem.root, "errors"))) {
        str_add(out, "drover: ");
        if (detail[0] || title[0]) {
            jread_add_clean(out, detail[0] ? detail : title);
        } else {
            str_addf(out, "the server answered %d%s", status,
                     read ? "" : " with something that is not JSON; is it a drover server?");
        }
        if (status == 401) {
            str_add(out, " (the token is not one of this server's: DROVER_TOKEN, or admin.token in "
                         "the folder --state names)");
        } else if (status == 403) {
            str_add(out, " (this token's role does not allow it; drover token list)");
        }
        str_add_char(out, '\n');
    }
    jread_release(&problem);
    return exit_code_of(status);
}
