#include "cli/pick.h"

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/pages.h"

#include <stdlib.h>
#include <string.h>

enum { LABELS_MAX = 256 };

static void pick_one(const struct jnode *node, const struct selector *selector, struct picked *out)
{
    const char *labels[LABELS_MAX];
    size_t count = 0;
    const char *name = jread_text(node, "name", "");
    const char *state = jread_text(node, "state", "");
    for (const struct jnode *label = jread_first(jread_get(node, "labels"));
         label && count < LABELS_MAX; label = label->next) {
        labels[count++] = label->text;
    }
    if (strcmp(state, "left") == 0 || strcmp(state, "revoked") == 0 ||
        !selector_matches(selector, name, labels, count)) {
        return;
    }
    if (strcmp(state, "here") == 0) {
        VEC_PUSH(out->here, out->here_count, out->here_cap) = mem_strdup(name);
    } else {
        struct str text = {0};
        jread_add_clean(&text, name);
        str_addf(&text, " is %.20s", state);
        VEC_PUSH(out->away, out->away_count, out->away_cap) = str_take(&text);
    }
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

int pick_nodes(struct remote *remote, const struct selector *selector, struct picked *out)
{
    struct pages pages = {.path = "/api/v1/nodes?limit=1000"};
    const struct jnode *items = NULL;
    int code = EXIT_DONE;
    *out = (struct picked){0};
    while ((code = pages_next(remote, &pages, &items)) == EXIT_DONE && items) {
        for (const struct jnode *node = jread_first(items); node; node = node->next) {
            pick_one(node, selector, out);
        }
    }
    pages_release(&pages);
    if (out->here_count > 1) {
        qsort(out->here, out->here_count, sizeof *out->here, compare_names);
    }
    if (code == EXIT_DONE && out->here_count == 0) {
        for (size_t i = 0; i < out->away_count; i++) {
            fprintf(stderr, "drover: %s\n", out->away[i]);
        }
        code = cli_error(EXIT_WORK_FAILED, "no node %s can take work now (drover nodes)",
                         selector->count > 0 ? "that --on names" : "of this server");
    }
    return code;
}

void picked_release(struct picked *picked)
{
    for (size_t i = 0; i < picked->here_count; i++) {
        free(picked->here[i]);
    }
    for (size_t i = 0; i < picked->away_count; i++) {
        free(picked->away[i]);
    }
    free(picked->here);
    free(picked->away);
    *picked = (struct picked){0};
}
