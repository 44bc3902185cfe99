#include "cli/trial_source.h"

#include "cli/task_name.h"
#include "master/trials_json.h"

#include <string.h>

static int read_folder(struct trial_source *source, const struct look *look, const char *experiment)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    int code = look_read(look, look->run, &source->session);
    if (code != EXIT_DONE) {
        return code;
    }
    source->has_session = true;
    const struct flow *flow = source->session.flow;
    if (experiment && look_experiment(&source->session, experiment) < 0) {
        return cli_error(EXIT_USAGE, "%s has no experiment '%s'", flow->id, experiment);
    }
    struct trials_json_options options = {.experiment = experiment,
                                          .bytes_max = TRIALS_JSON_READ_MAX};
    if (trials_json_write(flow, source->session.core, &options, &text, &err) != ERR_OK ||
        jread_parse(&source->answer, str_text(&text), text.size, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return EXIT_DONE;
}

/* A search that is too large for the server to answer is read from its folder, if that is here. */
static int ask(struct trial_source *source, const char *workflow, const char *experiment)
{
    AUTO_STR struct str path = {0};
    int status = 0;
    remote_add_workflow(&path, workflow);
    str_add(&path, "/trials");
    if (experiment) {
        remote_add_query(&path, "experiment", experiment);
    }
    source->remote.quiet = true;
    int code = remote_get(&source->remote, str_text(&path), &source->answer, &status);
    source->remote.quiet = false;
    if (code != EXIT_DONE && status == 503 && source->remote.state) {
        struct look look = {.state = source->remote.state, .run = workflow};
        source->served = false;
        return read_folder(source, &look, experiment);
    }
    if (code != EXIT_DONE) {
        remote_tell(&source->remote);
    }
    return code;
}

static int no_search(const struct trial_set *set, const char *experiment)
{
    if (experiment) {
        return cli_error(EXIT_USAGE, "%s: experiment '%s' has no search:", set->workflow,
                         experiment);
    }
    return cli_error(EXIT_USAGE, "%s has no experiment with search:", set->workflow);
}

int trial_source_open(struct trial_source *source, const char *state, const char *workflow,
                      const char *experiment)
{
    bool is_folder = workflow && strchr(workflow, '/');
    struct look look = {.state = is_folder ? workflow : state, .run = is_folder ? NULL : workflow};
    int code = look_for_server(&look, look.run, &source->remote, &source->served);
    if (code == EXIT_DONE) {
        code = source->served ? ask(source, look.run, experiment)
                              : read_folder(source, &look, experiment);
    }
    if (code != EXIT_DONE) {
        return code;
    }
    trial_set_read(source->answer.root, &source->set);
    return source->set.count > 0 ? EXIT_DONE : no_search(&source->set, experiment);
}

void trial_source_close(struct trial_source *source)
{
    trial_set_release(&source->set);
    jread_release(&source->answer);
    if (source->has_session) {
        session_release(&source->session);
    }
    remote_close(&source->remote);
    *source = (struct trial_source){0};
}

static int read_plan(struct trial_source *source, const char *experiment, uint64_t task,
                     struct jread *out)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    const struct flow *flow = source->session.flow;
    int number = look_experiment(&source->session, experiment);
    if (number < 0 || task >= flow->recipe->experiments[number].task_count) {
        return cli_error(EXIT_WORK_FAILED, "%s has no task %s/%llu", flow->id, experiment,
                         (unsigned long long)task);
    }
    if (trials_json_plan(flow, (uint32_t)number, task, &text, &err) != ERR_OK ||
        jread_parse(out, str_text(&text), text.size, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return EXIT_DONE;
}

int trial_source_plan(struct trial_source *source, const char *experiment, uint64_t task,
                      struct jread *out)
{
    if (!source->served) {
        return read_plan(source, experiment, task, out);
    }
    AUTO_STR struct str path = {0};
    struct task_name name = {.experiment = experiment, .index = task};
    remote_add_workflow(&path, source->set.workflow);
    task_name_add_path(&path, &name);
    str_add(&path, "/plan");
    return remote_get(&source->remote, str_text(&path), out, NULL);
}

size_t trial_source_goal(const struct trial_search *search, const char *metric)
{
    if (!metric) {
        return 0;
    }
    for (size_t i = 0; i < search->goal_count; i++) {
        if (strcmp(search->metrics[i], metric) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}
