#include "cli/search.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/pages.h"
#include "master/place.h"

#include <inttypes.h>
#include <string.h>

struct found {
    const struct look *look;
    uint64_t count;
};

static bool is_enough(const struct found *found)
{
    return found->look->limit > 0 && found->count >= found->look->limit;
}

static bool print_hit(void *context, const struct search_hit *hit)
{
    struct found *found = context;
    AUTO_STR struct str out = {0};
    if (found->look->as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        json_key(&json, "experiment");
        json_text(&json, hit->experiment);
        json_key(&json, "task");
        json_u64(&json, hit->task);
        json_key(&json, "attempt");
        json_u64(&json, hit->attempt);
        json_key(&json, "line");
        json_u64(&json, hit->line);
        json_key(&json, "text");
        json_bytes(&json, hit->text, hit->size);
        json_end(&json);
    } else {
        AUTO_FREE char *text = mem_strndup(hit->text, strnlen(hit->text, hit->size));
        str_addf(&out, "%s/%" PRIu64 ".%" PRIu32 ":%" PRIu64 ": ", hit->experiment, hit->task,
                 hit->attempt, hit->line);
        jread_add_clean(&out, text);
    }
    str_add_char(&out, '\n');
    cli_write(&out);
    found->count++;
    return !is_enough(found);
}

/* --- in a folder ---------------------------------------------------------------------------- */

static bool search_attempt(struct found *found, const struct search_pattern *pattern,
                           const char *folder, const struct search_hit *of)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str older = {0};
    uint64_t lines = 0;
    place_add_log(&path, folder, of->experiment, of->task, of->attempt);
    str_addf(&older, "%s.1", str_text(&path));
    return search_file(str_text(&older), pattern, *of, &lines, print_hit, found) &&
           search_file(str_text(&path), pattern, *of, &lines, print_hit, found);
}

static void search_experiment(struct found *found, const struct search_pattern *pattern,
                              const struct session *session, uint32_t number)
{
    const struct experiment *experiment = &session->flow->recipe->experiments[number];
    struct search_hit of = {.experiment = experiment->name};
    bool go_on = true;
    for (; of.task < experiment->task_count && go_on; of.task++) {
        struct core_task_view task;
        core_task_view(session->core, session->flow->number, number, of.task, &task);
        for (of.attempt = 1; of.attempt <= task.attempt && go_on; of.attempt++) {
            go_on = search_attempt(found, pattern, session->flow->folder, &of);
        }
    }
}

static int search_folder(const struct look *look, struct found *found)
{
    struct session session;
    struct search_pattern *pattern = NULL;
    struct err err = {0};
    if (search_pattern_create(look->grep, look->regex, &pattern, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    int code = look_read(look, look->run, &session);
    if (code == EXIT_DONE) {
        const struct recipe *recipe = session.flow->recipe;
        int only = look->experiment ? look_experiment(&session, look->experiment) : -1;
        if (look->experiment && only < 0) {
            code = cli_error(EXIT_USAGE, "there is no experiment '%s'", look->experiment);
        }
        for (size_t i = 0; i < recipe->experiment_count && code == EXIT_DONE; i++) {
            uint32_t number = recipe_order(recipe)[i];
            if (!is_enough(found) && (only < 0 || only == (int)number)) {
                search_experiment(found, pattern, &session, number);
            }
        }
        session_release(&session);
    }
    search_pattern_destroy(pattern);
    return code;
}

/* --- on a server ---------------------------------------------------------------------------- */

static void print_items(struct found *found, const struct jnode *items)
{
    for (const struct jnode *item = jread_first(items); item && !is_enough(found);
         item = item->next) {
        AUTO_STR struct str experiment = {0};
        const char *text = jread_text(item, "text", "");
        jread_add_clean(&experiment, jread_text(item, "experiment", "?"));
        struct search_hit hit = {.experiment = str_text(&experiment),
                                 .task = jread_u64(item, "task", 0),
                                 .attempt = (uint32_t)jread_u64(item, "attempt", 0),
                                 .line = jread_u64(item, "line", 0),
                                 .text = text,
                                 .size = strlen(text)};
        print_hit(found, &hit);
    }
}

static int search_server(struct found *found, struct remote *remote)
{
    const struct look *look = found->look;
    AUTO_STR struct str path = {0};
    struct jread status = {0};
    remote_add_workflow(&path, look->run);
    int code = remote_get(remote, str_text(&path), &status, NULL);
    if (code == EXIT_DONE) {
        struct pages pages = {0};
        const struct jnode *items = NULL;
        str_clear(&path);
        remote_add_workflow(&path, jread_text(status.root, "id", look->run));
        str_add(&path, "/logs/search?limit=1000");
        remote_add_query(&path, "text", look->grep);
        if (look->regex) {
            remote_add_query(&path, "regex", "1");
        }
        if (look->experiment) {
            remote_add_query(&path, "experiment", look->experiment);
        }
        pages.path = str_text(&path);
        while (!is_enough(found) && (code = pages_next(remote, &pages, &items)) == EXIT_DONE &&
               items) {
            print_items(found, items);
        }
        pages_release(&pages);
    }
    jread_release(&status);
    return code;
}

int search_logs(const struct look *look)
{
    struct found found = {.look = look};
    struct remote remote = {0};
    bool has_server = false;
    int code = look_for_server(look, look->run, &remote, &has_server);
    if (code == EXIT_DONE) {
        code = has_server ? search_server(&found, &remote) : search_folder(look, &found);
    }
    remote_close(&remote);
    return code == EXIT_DONE && found.count == 0 ? EXIT_WORK_FAILED : code;
}
