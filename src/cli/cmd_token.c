#include "base/json.h"
#include "cli/cli.h"
#include "cli/pages.h"

#include <getopt.h>
#include <string.h>

struct token_options {
    const char *state;
    const char *role;
    bool as_json;
};

static int parse(struct token_options *token, int argc, char **argv)
{
    static const struct option options[] = {{"state", required_argument, NULL, 'd'},
                                            {"role", required_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'd') {
            token->state = optarg;
        } else if (option == 'r') {
            token->role = optarg;
        } else if (option == 'j') {
            token->as_json = true;
        } else {
            return cli_bad_option(&cmd_token, option, argv);
        }
    }
    return -1;
}

static int create(const struct token_options *token, struct remote *remote, const char *name)
{
    AUTO_STR struct str body = {0};
    AUTO_STR struct str out = {0};
    struct json json = {.out = &body};
    struct jread answer = {0};
    json_object(&json);
    json_key(&json, "name");
    json_text(&json, name);
    json_key(&json, "role");
    json_text(&json, token->role ? token->role : "user");
    json_end(&json);
    struct client_request request = {.method = "POST",
                                     .path = "/api/v1/tokens",
                                     .content_type = "application/json",
                                     .body = str_text(&body),
                                     .body_size = body.size};
    int code = remote_call(remote, &request, &answer, NULL);
    if (code == EXIT_DONE && token->as_json) {
        jread_add(&out, answer.root);
        str_add_char(&out, '\n');
    } else if (code == EXIT_DONE) {
        str_addf(&out, "%s\n", jread_text(answer.root, "token", "?"));
        fputs("this is shown once; whoever is to use it sets DROVER_TOKEN to it, and DROVER_SERVER "
              "to ",
              stderr);
        fprintf(stderr, "%s\n", remote->url);
    }
    cli_write(&out);
    jread_release(&answer);
    return code;
}

static int list(const struct token_options *token, struct remote *remote)
{
    struct pages pages = {.path = "/api/v1/tokens?limit=1000"};
    const struct jnode *items = NULL;
    int code = EXIT_DONE;
    while ((code = pages_next(remote, &pages, &items)) == EXIT_DONE && items) {
        AUTO_STR struct str out = {0};
        for (const struct jnode *item = jread_first(items); item; item = item->next) {
            AUTO_STR struct str name = {0};
            if (token->as_json) {
                jread_add(&out, item);
                str_add_char(&out, '\n');
                continue;
            }
            jread_add_clean(&name, jread_text(item, "name", "?"));
            str_addf(&out, "%-32s %.20s\n", str_text(&name), jread_text(item, "role", "?"));
        }
        cli_write(&out);
    }
    pages_release(&pages);
    return code;
}

static int remove_token(const struct token_options *token, struct remote *remote, const char *name)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str out = {0};
    struct jread answer = {0};
    str_add(&path, "/api/v1/tokens/");
    client_add_encoded(&path, name);
    struct client_request request = {.method = "DELETE", .path = str_text(&path)};
    int code = remote_call(remote, &request, &answer, NULL);
    if (code == EXIT_DONE && token->as_json) {
        jread_add(&out, answer.root);
        str_add_char(&out, '\n');
    } else if (code == EXIT_DONE) {
        str_addf(&out, "%s is worth nothing any more\n", name);
    }
    cli_write(&out);
    jread_release(&answer);
    return code;
}

static int run(int argc, char **argv)
{
    struct token_options token = {0};
    struct remote remote = {0};
    int code = parse(&token, argc, argv);
    if (code >= 0) {
        return code;
    }
    const char *verb = optind < argc ? argv[optind] : "";
    const char *name = optind + 1 < argc ? argv[optind + 1] : NULL;
    bool creates = strcmp(verb, "create") == 0;
    bool removes = strcmp(verb, "rm") == 0;
    bool lists = strcmp(verb, "list") == 0;
    if (!creates && !removes && !lists) {
        return cli_usage_error(&cmd_token, "create NAME, list or rm NAME?");
    }
    if (argc - optind != (lists ? 1 : 2)) {
        return cli_usage_error(&cmd_token, "%s takes %s", verb, lists ? "no name" : "one name");
    }
    if (token.role &&
        (!creates || (strcmp(token.role, "admin") != 0 && strcmp(token.role, "user") != 0 &&
                      strcmp(token.role, "reader") != 0))) {
        return cli_usage_error(&cmd_token,
                               "--role goes with create, and takes admin, user or reader");
    }
    code = remote_open(token.state, &remote);
    if (code == EXIT_DONE) {
        code = creates   ? create(&token, &remote, name)
               : removes ? remove_token(&token, &remote, name)
                         : list(&token, &remote);
    }
    remote_close(&remote);
    return code;
}

const struct cli_command cmd_token = {
    .name = "token",
    .arguments = "create NAME [--role R] | list | rm NAME [--state DIR] [--json]",
    .summary = "who may use a server: make, list and remove tokens",
    .help =
        "  create NAME   make a token and print it; the server keeps only its hash\n"
        "    --role R    admin: everything; user (default): submit, cancel, drain; reader: look\n"
        "  list          names and roles\n"
        "  rm NAME       the token is worth nothing any more, at once\n"
        "  --state DIR   the server of this folder\n"
        "  --json        one object a token\n\n"
        "Examples:\n"
        "  drover token create alice >alice.token\n"
        "  drover token create dashboard --role reader --json\n"
        "  drover token rm alice\n",
    .run = run,
};
