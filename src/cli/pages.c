#include "cli/pages.h"

#include "cli/cli.h"

int pages_next(struct remote *remote, struct pages *pages, const struct jnode **items)
{
    *items = NULL;
    jread_release(&pages->page);
    if (pages->over) {
        return EXIT_DONE;
    }
    AUTO_STR struct str path = {0};
    str_add(&path, pages->path);
    if (pages->begun) {
        remote_add_query(&path, "after", str_text(&pages->next));
    }
    int code = remote_get(remote, str_text(&path), &pages->page, NULL);
    if (code != EXIT_DONE) {
        return code;
    }
    pages->begun = true;
    str_clear(&pages->next);
    str_add(&pages->next, jread_text(pages->page.root, "next", ""));
    pages->over = pages->next.size == 0;
    *items = jread_get(pages->page.root, "items");
    return *items ? EXIT_DONE
                  : cli_error(EXIT_WORK_FAILED, "%s: the answer is not a list", remote->url);
}

void pages_release(struct pages *pages)
{
    jread_release(&pages->page);
    str_release(&pages->next);
}
