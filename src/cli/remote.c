#include "cli/remote.h"

#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "master/place.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 4096, PATIENCE_S = 30 };

static const char no_server[] =
    "there is no server here: drover serve --state DIR or drover up --on local starts one; "
    "--state DIR or DROVER_SERVER and DROVER_TOKEN name one that runs";

/* --- parts that need no server -------------------------------------------------------------- */

enum err_code remote_read_line(const char *file, struct str *out, struct err *err)
{
    enum err_code code = io_read_file(file, LINE_BYTES_MAX, out, err);
    if (code == ERR_OK) {
        out->size = strcspn(str_text(out), "\r\n");
        if (out->text) {
            out->text[out->size] = '\0';
        }
    }
    return code;
}

void remote_add_workflow(struct str *path, const char *workflow)
{
    str_add(path, "/api/v1/workflows/");
    client_add_encoded(path, workflow ? workflow : "newest");
}

void remote_add_where(struct str *out, const char *state)
{
    if (state) {
        str_addf(out, " --state %s", state);
    }
}

void remote_add_query(struct str *path, const char *key, const char *value)
{
    str_add_char(path, path->size > 0 && strchr(str_text(path), '?') ? '&' : '?');
    client_add_encoded(path, key);
    str_add_char(path, '=');
    client_add_encoded(path, value);
}

/* --- finding -------------------------------------------------------------------------------- */

enum err_code remote_default_folder(struct str *out, struct err *err)
{
    return place_server_folder(out, err);
}

bool remote_is_served(const char *folder)
{
    AUTO_STR struct str file = {0};
    str_addf(&file, "%s/api.url", folder);
    return access(str_text(&file), F_OK) == 0 && place_is_locked(folder);
}

/* Why a call failed on this side; EXIT_UNREACHABLE unless it is something else. */
static int say(struct remote *remote, int exit_code, const char *text)
{
    if (remote->quiet) {
        str_clear(&remote->trouble);
        str_add(&remote->trouble, text);
        return exit_code;
    }
    return cli_error(exit_code, "%s", text);
}

static int connect_to(struct remote *out, const char *url, const char *token, int patience_s)
{
    struct err err = {0};
    out->url = mem_strdup(url);
    out->token = mem_strdup(token);
    enum err_code code = client_open(url, token, patience_s, &out->client, &err);
    if (code == ERR_OK) {
        return EXIT_DONE;
    }
    return say(out, code == ERR_INVALID || code == ERR_DENIED ? EXIT_USAGE : EXIT_UNREACHABLE,
               err.text);
}

static int open_folder(struct remote *out, const char *folder)
{
    AUTO_STR struct str file = {0};
    AUTO_STR struct str url = {0};
    AUTO_STR struct str token = {0};
    struct err err = {0};
    AUTO_FREE char *real = realpath(folder, NULL);
    out->state = mem_strdup(real ? real : folder);
    str_addf(&file, "%s/api.url", folder);
    enum err_code code = remote_read_line(str_text(&file), &url, &err);
    if (code == ERR_OK) {
        str_clear(&file);
        str_addf(&file, "%s/admin.token", folder);
        code = remote_read_line(str_text(&file), &token, &err);
    }
    if (code != ERR_OK) {
        return say(out, EXIT_UNREACHABLE, err.text);
    }
    return connect_to(out, str_text(&url), str_text(&token), PATIENCE_S);
}

static int open_named(struct remote *out, const char *url)
{
    const char *token = getenv("DROVER_TOKEN");
    if (!token || !token[0]) {
        return cli_error(EXIT_USAGE,
                         "DROVER_SERVER is set, but not DROVER_TOKEN: set it to a token "
                         "of that server (drover token create)");
    }
    return connect_to(out, url, token, PATIENCE_S);
}

int remote_look(const char *state, struct remote *out, bool *found)
{
    *out = (struct remote){.quiet = out->quiet};
    *found = true;
    if (state) {
        *found = remote_is_served(state);
        return *found ? open_folder(out, state) : EXIT_DONE;
    }
    const char *url = getenv("DROVER_SERVER");
    if (url && url[0]) {
        return open_named(out, url);
    }
    AUTO_STR struct str folder = {0};
    *found = remote_default_folder(&folder, NULL) == ERR_OK && remote_is_served(str_text(&folder));
    out->defaulted = true;
    return *found ? open_folder(out, str_text(&folder)) : EXIT_DONE;
}

int remote_open(const char *state, struct remote *out)
{
    bool found = false;
    int code = remote_look(state, out, &found);
    if (code != EXIT_DONE || found) {
        return code;
    }
    if (state) {
        return cli_error(EXIT_UNREACHABLE,
                         "no server runs in %s: drover serve --state %s starts one", state, state);
    }
    return cli_error(EXIT_UNREACHABLE, "%s", no_server);
}

int remote_again(const struct remote *from, int patience_s, struct remote *out)
{
    *out = (struct remote){.defaulted = from->defaulted, .quiet = from->quiet};
    return connect_to(out, from->url, from->token, patience_s);
}

void remote_close(struct remote *remote)
{
    client_close(remote->client);
    if (remote->token) {
        explicit_bzero(remote->token, strlen(remote->token));
    }
    free(remote->token);
    free(remote->url);
    free(remote->state);
    str_release(&remote->trouble);
    *remote = (struct remote){0};
}

/* --- asking --------------------------------------------------------------------------------- */

void remote_tell(const struct remote *remote)
{
    const char *text = str_text(&remote->trouble);
    bool whole = strchr(text, '\n') != NULL; /* a refusal, ready to print */
    fflush(stdout);
    fprintf(stderr, "%s%s%s", whole ? "" : "drover: ", text, whole ? "" : "\n");
}

/* A refusal, told: prints or keeps it. */
static int refuse(struct remote *remote, const struct client_answer *answer)
{
    AUTO_STR struct str text = {0};
    int code = explain_problem(answer->status, str_text(&answer->body), answer->body.size, &text);
    if (remote->quiet) {
        str_clear(&remote->trouble);
        str_add(&remote->trouble, str_text(&text));
    } else {
        fflush(stdout);
        fputs(str_text(&text), stderr);
    }
    return code;
}

static int exchange(struct remote *remote, const struct client_request *request,
                    struct client_answer *answer, int *status)
{
    struct err err = {0};
    if (status) {
        *status = 0;
    }
    if (client_call(remote->client, request, answer, &err) != ERR_OK) {
        return say(remote, EXIT_UNREACHABLE, err.text);
    }
    if (status) {
        *status = answer->status;
    }
    return answer->status >= 200 && answer->status < 300 ? EXIT_DONE : refuse(remote, answer);
}

int remote_call(struct remote *remote, const struct client_request *request, struct jread *answer,
                int *status)
{
    struct client_answer raw = {0};
    struct err err = {0};
    int code = exchange(remote, request, &raw, status);
    if (code == EXIT_DONE && raw.body.size > 0 &&
        jread_parse(answer, str_text(&raw.body), raw.body.size, &err) != ERR_OK) {
        AUTO_STR struct str text = {0};
        str_addf(&text, "%s: the answer is %s; is it a drover server?", remote->url, err.text);
        code = say(remote, EXIT_WORK_FAILED, str_text(&text));
    }
    client_answer_release(&raw);
    return code;
}

int remote_get(struct remote *remote, const char *path, struct jread *answer, int *status)
{
    struct client_request request = {.method = "GET", .path = path};
    return remote_call(remote, &request, answer, status);
}

int remote_post(struct remote *remote, const char *path, struct jread *answer, int *status)
{
    struct client_request request = {.method = "POST", .path = path};
    return remote_call(remote, &request, answer, status);
}

int remote_get_bytes(struct remote *remote, const char *path, struct str *out, int *status)
{
    struct client_request request = {.method = "GET", .path = path};
    struct client_answer raw = {0};
    int code = exchange(remote, &request, &raw, status);
    if (code == EXIT_DONE) {
        str_add_bytes(out, str_text(&raw.body), raw.body.size);
    }
    client_answer_release(&raw);
    return code;
}
