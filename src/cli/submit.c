#include "cli/submit.h"

#include "base/rng.h"
#include "cli/cli.h"
#include "cli/code_sync.h"

#include <inttypes.h>
#include <unistd.h>

enum { TRIES = 4, FIRST_REST_US = 250000 };

static void draw_key(char out[33])
{
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, rng_seed_from_system(), rng_seed_from_system());
}

static void show_progress(void *context, uint64_t sent_bytes, uint64_t all_bytes)
{
    (void)context;
    fprintf(stderr, "\r\033[Ksending the folder: %.1f of %.1f MB", (double)sent_bytes / 1e6,
            (double)all_bytes / 1e6);
}

/* The version of the folder on the server, in code. */
static int sync_folder(struct remote *remote, const struct submit *submit, struct str *code)
{
    struct err err = {0};
    struct code_sync_result result = {0};
    bool lively = submit->say_sync && isatty(STDERR_FILENO) == 1;
    struct code_sync_options options = {
        .folder = submit->folder, .server = remote->url, .progress = lively ? show_progress : NULL};
    enum err_code failed = code_sync_with(remote->client, &options, &result, &err);
    if (lively) {
        fputs("\r\033[K", stderr);
    }
    if (failed != ERR_OK) {
        return cli_error(failed == ERR_IO || failed == ERR_TIMEOUT          ? EXIT_UNREACHABLE
                         : failed == ERR_INVALID || failed == ERR_NOT_FOUND ? EXIT_USAGE
                                                                            : EXIT_WORK_FAILED,
                         "%s (--no-sync submits without sending the folder)", err.text);
    }
    str_add(code, result.version);
    if (submit->say_sync && result.sent_bytes >= 100000) {
        fprintf(stderr, "sent %.1f MB of the recipe's folder (%" PRIu64 " file%s, %.1f MB)\n",
                (double)result.sent_bytes / 1e6, result.file_count,
                result.file_count == 1 ? "" : "s", (double)result.file_bytes / 1e6);
    }
    return EXIT_DONE;
}

static int post(struct remote *remote, const struct client_request *request, struct jread *answer)
{
    useconds_t rest_us = FIRST_REST_US;
    bool quiet = remote->quiet;
    int status = 0;
    for (int i = 1; i < TRIES; i++) {
        remote->quiet = true;
        int code = remote_call(remote, request, answer, &status);
        remote->quiet = quiet;
        if (code != EXIT_UNREACHABLE) {
            if (code != EXIT_DONE && !quiet) {
                remote_tell(remote);
            }
            return code;
        }
        usleep(rest_us);
        rest_us *= 2;
    }
    return remote_call(remote, request, answer, &status);
}

int submit_send(struct remote *remote, const struct submit *submit, struct jread *answer)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str code = {0};
    char key[33];
    if (submit->sync) {
        int failed = sync_folder(remote, submit, &code);
        if (failed != EXIT_DONE) {
            return failed;
        }
    }
    draw_key(key);
    submit_add_path(&path, submit, str_text(&code));
    struct client_request request = {.method = "POST",
                                     .path = str_text(&path),
                                     .content_type = "application/yaml",
                                     .body = submit->recipe,
                                     .body_size = submit->recipe_size,
                                     .idempotency_key = submit->key ? submit->key : key};
    return post(remote, &request, answer);
}

void submit_note_waiting(struct remote *remote, const char *id)
{
    AUTO_STR struct str path = {0};
    struct jread status = {0};
    remote_add_workflow(&path, id);
    bool quiet = remote->quiet;
    remote->quiet = true; /* it is a courtesy, no more */
    if (remote_get(remote, str_text(&path), &status, NULL) == EXIT_DONE) {
        const char *lack = jread_text(status.root, "waiting_for", "");
        AUTO_STR struct str text = {0};
        jread_add_clean(&text, lack);
        if (lack[0]) {
            fprintf(stderr, "note: it waits for: %s\n", str_text(&text));
        }
    }
    remote->quiet = quiet;
    jread_release(&status);
}
