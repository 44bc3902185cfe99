#include "node/launch.h"

#include "base/mem.h"
#include "node/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Nothing longer is put together, as overridden variables may still fall out of it. */
enum { LAUNCH_STRINGS_BYTES_MAX = 4 * REAPER_PACKET_BYTES_MAX };

extern char **environ;

/* --- tokens ---------------------------------------------------------------------------------- */

/* The size of the token that stands here, 0: another or none. */
static size_t token_size(const char *at, size_t size, const char *token, const char *nonce)
{
    const char *const parts[] = {token, nonce ? nonce : "", WIRE_TOKEN_BYTE};
    size_t taken = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t part_size = strlen(parts[i]);
        if (size - taken < part_size || memcmp(at + taken, parts[i], part_size) != 0) {
            return 0;
        }
        taken += part_size;
    }
    return taken;
}

/* The same for the token of a volume, which has its name in it. */
static bool expand_volume(struct str *out, const char *at, size_t left,
                          const struct launch_place *place, size_t *taken)
{
    size_t before = strlen(WIRE_TOKEN_VOLUME);
    if (left <= before || memcmp(at, WIRE_TOKEN_VOLUME, before) != 0) {
        return false;
    }
    for (size_t i = 0; i < place->volume_count; i++) {
        const struct launch_volume *volume = &place->volumes[i];
        size_t size = token_size(at + before, left - before, volume->name, place->nonce);
        if (size > 0) {
            str_add(out, volume->folder);
            *taken = before + size;
            return true;
        }
    }
    return false;
}

/* Appends the folder whose token stands here, if one does: *taken is the token's size, or 0. */
static enum err_code expand_token(struct str *out, const char *at, size_t left,
                                  const struct launch_place *place, size_t *taken, struct err *err)
{
    const struct {
        const char *token;
        const char *folder;
        const char *name;
    } tokens[] = {
        {WIRE_TOKEN_OUTPUT, place->output, "output"},
        {WIRE_TOKEN_CHECKPOINT, place->checkpoint, "checkpoint"},
        {WIRE_TOKEN_LOCAL, place->local, "local"},
        {WIRE_TOKEN_CODE, place->code, "code"},
        {WIRE_TOKEN_OUTPUTS, place->inputs, "inputs"},
    };
    *taken = 0;
    if (expand_volume(out, at, left, place, taken)) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        *taken = token_size(at, left, tokens[i].token, place->nonce);
        if (*taken > 0 && !tokens[i].folder) {
            return err_set(err, ERR_INVALID, "names the %s folder, and there is none",
                           tokens[i].name);
        }
        if (*taken > 0) {
            str_add(out, tokens[i].folder);
            return ERR_OK;
        }
    }
    return ERR_OK;
}

enum err_code launch_expand(struct str *out, const ProtobufCBinaryData *bytes,
                            const struct launch_place *place, struct err *err)
{
    const char *at = (const char *)bytes->data;
    size_t left = bytes->len;
    if (left > 0 && memchr(at, '\0', left)) {
        return err_set(err, ERR_INVALID, "holds a NUL byte");
    }
    while (left > 0) {
        if (out->size > LAUNCH_STRINGS_BYTES_MAX) {
            return err_set(err, ERR_QUOTA, "command and environment are larger than %d KiB",
                           REAPER_PACKET_BYTES_MAX / 1024);
        }
        const char *mark = memchr(at, WIRE_TOKEN_BYTE[0], left);
        size_t plain = mark ? (size_t)(mark - at) : left;
        str_add_bytes(out, at, plain);
        at += plain;
        left -= plain;
        if (left == 0) {
            break;
        }
        size_t taken = 0;
        enum err_code code = expand_token(out, at, left, place, &taken, err);
        if (code != ERR_OK) {
            return code;
        }
        if (taken == 0) {
            str_add_char(out, *at);
            taken = 1;
        }
        at += taken;
        left -= taken;
    }
    return ERR_OK;
}

/* --- the environment ------------------------------------------------------------------------- */

/* Variables are collected in launcher->strings, each with its NUL. */
struct variables {
    struct launcher *launcher;
    size_t count;
};

static size_t name_size(const char *variable)
{
    return strcspn(variable, "=");
}

/* Ends the variable begun at `start` of strings. Past the limit it is only counted. */
static void end_variable(struct variables *variables, size_t start)
{
    struct launcher *launcher = variables->launcher;
    str_add_char(&launcher->strings, '\0');
    if (variables->count < REAPER_STRINGS_MAX) {
        launcher->offsets[variables->count] = start;
    }
    variables->count++;
}

static void add_variable(struct variables *variables, const char *name, const char *value)
{
    size_t start = variables->launcher->strings.size;
    str_add(&variables->launcher->strings, name);
    str_add_char(&variables->launcher->strings, '=');
    str_add(&variables->launcher->strings, value);
    end_variable(variables, start);
}

static void add_own(struct variables *variables, bool inherit)
{
    if (inherit) {
        for (char **variable = environ; *variable; variable++) {
            size_t start = variables->launcher->strings.size;
            str_add(&variables->launcher->strings, *variable);
            end_variable(variables, start);
        }
    }
    static const struct {
        const char *name;
        const char *fallback;
    } own[] = {{"PATH", PATH_DEFAULT}, {"HOME", "/"}, {"LANG", "C.UTF-8"}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *value = getenv(own[i].name);
        if (!value || !inherit) {
            add_variable(variables, own[i].name, value ? value : own[i].fallback);
        }
    }
}

static enum err_code add_given(struct variables *variables, const Drover__Run *run,
                               const struct launch_place *place, struct err *err)
{
    struct str *strings = &variables->launcher->strings;
    for (size_t i = 0; i < run->n_env; i++) {
        size_t start = strings->size;
        struct err why = {0};
        enum err_code code = launch_expand(strings, &run->env[i], place, &why);
        const char *text = strings->size > start ? strings->text + start : "";
        if (code == ERR_OK && (!strchr(text, '=') || text[0] == '=')) {
            code = err_set(&why, ERR_INVALID, "is not NAME=VALUE");
        }
        if (code != ERR_OK) { /* without its value, which may be meant for few */
            int shown = (int)(strchr(text, '=') ? name_size(text) : 0);
            return err_set(err, code, "environment variable %zu %.*s: %s", i + 1, shown, text,
                           why.text);
        }
        end_variable(variables, start);
    }
    return ERR_OK;
}

static enum err_code read_secret(const char *path, struct str *out, struct err *err)
{
    /* Not blocking: a pipe in its place must not hold up the agent. */
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0) {
        return err_errno(err, errno, "cannot be read");
    }
    if (!S_ISREG(stat.st_mode)) {
        return err_set(err, ERR_INVALID, "is not a regular file");
    }
    size_t start = out->size;
    for (;;) {
        char bytes[4096];
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got > 0) {
            str_add_bytes(out, bytes, (size_t)got);
        }
        explicit_bzero(bytes, sizeof bytes);
        if (got < 0 && errno != EINTR) {
            return err_errno(err, errno, "cannot be read");
        }
        if (out->size - start > LAUNCH_SECRET_BYTES_MAX) {
            return err_set(err, ERR_QUOTA, "is larger than %d bytes", (int)LAUNCH_SECRET_BYTES_MAX);
        }
        if (got == 0) {
            break;
        }
    }
    if (out->size > start && out->text[out->size - 1] == '\n') {
        out->text[--out->size] = '\0';
    }
    if (out->size > start && memchr(out->text + start, '\0', out->size - start)) {
        return err_set(err, ERR_INVALID, "holds a NUL byte");
    }
    return ERR_OK;
}

static enum err_code add_secrets(struct variables *variables, const Drover__Run *run,
                                 struct err *err)
{
    struct str *strings = &variables->launcher->strings;
    for (size_t i = 0; i < run->n_secrets; i++) {
        const Drover__Secret *secret = run->secrets[i];
        size_t start = strings->size;
        str_add(strings, secret->name);
        str_add_char(strings, '=');
        AUTO_FREE char *path = mem_strndup((const char *)secret->file.data, secret->file.len);
        struct err why = {0};
        enum err_code code = read_secret(path, strings, &why);
        if (code != ERR_OK) {
            return err_set(err, code, "secret %s: %s", secret->name, why.text);
        }
        end_variable(variables, start);
    }
    return ERR_OK;
}

static enum err_code collect(struct variables *variables, const Drover__Run *run,
                             const struct launch_place *place, struct err *err)
{
    add_own(variables, run->inherit_env);
    enum err_code code = add_given(variables, run, place, err);
    if (code != ERR_OK) {
        return code;
    }
    add_variable(variables, "DROVER_OUTPUT", place->output);
    if (place->checkpoint) {
        add_variable(variables, "DROVER_CHECKPOINT", place->checkpoint);
    }
    if (place->gpus) {
        add_variable(variables, "CUDA_VISIBLE_DEVICES", place->gpus);
    }
    return add_secrets(variables, run, err);
}

/* Whether a later variable of the same name takes this one's place. */
static bool is_overridden(const struct variables *variables, size_t index)
{
    const char *texts = variables->launcher->strings.text;
    const char *variable = texts + variables->launcher->offsets[index];
    size_t size = name_size(variable) + 1; /* with the = */
    for (size_t later = index + 1; later < variables->count; later++) {
        const char *other = texts + variables->launcher->offsets[later];
        if (other[0] == variable[0] && strncmp(other, variable, size) == 0) {
            return true;
        }
    }
    return false;
}

/* --- the program ----------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat stat;
    return access(path, X_OK) == 0 && fstatat(AT_FDCWD, path, &stat, 0) == 0 &&
           S_ISREG(stat.st_mode);
}

static const char *find_known(struct launcher *launcher, const char *name, const char *variable)
{
    for (size_t i = 0; i < LAUNCH_LOOKUPS; i++) {
        const struct launch_lookup *lookup = &launcher->lookups[i];
        if (lookup->name && strcmp(lookup->name, name) == 0 &&
            strcmp(lookup->path_variable, variable) == 0) {
            return access(lookup->program, X_OK) == 0 ? lookup->program : NULL;
        }
    }
    return NULL;
}

static void forget_lookup(struct launch_lookup *lookup)
{
    free(lookup->name);
    free(lookup->path_variable);
    free(lookup->program);
    *lookup = (struct launch_lookup){0};
}

static void remember(struct launcher *launcher, const char *name, const char *variable,
                     const char *program)
{
    struct launch_lookup *lookup = &launcher->lookups[launcher->next_lookup++ % LAUNCH_LOOKUPS];
    forget_lookup(lookup);
    *lookup = (struct launch_lookup){mem_strdup(name), mem_strdup(variable), mem_strdup(program)};
}

/* Appends the file that `name` means with this PATH; folders in it that are not absolute are below
 * the folder the task starts in, and are not remembered. */
static bool find_program(struct launcher *launcher, const char *name, const char *variable,
                         const char *folder, struct str *out)
{
    const char *known = find_known(launcher, name, variable);
    if (known) {
        str_add(out, known);
        return true;
    }
    size_t start = out->size;
    for (const char *at = variable;; at++) {
        size_t size = strcspn(at, ":");
        bool is_absolute = size > 0 && at[0] == '/';
        out->size = start;
        if (!is_absolute) {
            str_add(out, folder);
            str_add_char(out, '/');
        }
        str_add_bytes(out, at, size);
        str_add_char(out, '/');
        str_add(out, name);
        if (is_program(out->text + start)) {
            if (is_absolute) {
                remember(launcher, name, variable, out->text + start);
            }
            return true;
        }
        at += size;
        if (*at == '\0') {
            return false;
        }
    }
}

static const char *variable_value(const struct variables *variables, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = variables->count; i-- > 0;) {
        const char *text = variables->launcher->strings.text + variables->launcher->offsets[i];
        if (strncmp(text, name, size) == 0 && text[size] == '=') {
            return text + size + 1;
        }
    }
    return "";
}

/* --- the packet ------------------------------------------------------------------------------ */

/* Expands bytes into scratch. */
static enum err_code expand_alone(struct launcher *launcher, const ProtobufCBinaryData *bytes,
                                  const struct launch_place *place, const char *what,
                                  struct err *err)
{
    struct err why = {0};
    str_clear(&launcher->scratch);
    enum err_code code = launch_expand(&launcher->scratch, bytes, place, &why);
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%s: %s", what, why.text);
}

/* Program, folder and log file. */
static enum err_code add_places(struct launcher *launcher, const Drover__Run *run,
                                const struct launch_place *place, const struct variables *variables,
                                struct err *err)
{
    struct str *packet = &launcher->packet;
    enum err_code code = expand_alone(launcher, &run->workdir, place, "workdir", err);
    if (code != ERR_OK) {
        return code;
    }
    if (str_text(&launcher->scratch)[0] != '/') {
        return err_set(err, ERR_INVALID, "workdir %.200s: is not an absolute path",
                       str_text(&launcher->scratch));
    }
    AUTO_FREE char *folder = str_take(&launcher->scratch);
    code = expand_alone(launcher, &run->argv[0], place, "program", err);
    if (code != ERR_OK) {
        return code;
    }
    const char *name = str_text(&launcher->scratch);
    if (strchr(name, '/')) {
        str_add(packet, name);
    } else if (!find_program(launcher, name, variable_value(variables, "PATH"), folder, packet)) {
        return err_set(err, ERR_NOT_FOUND, "%.200s: no such program in PATH", name);
    }
    str_add_char(packet, '\0');
    str_add_bytes(packet, folder, strlen(folder) + 1);
    str_add_bytes(packet, place->log, strlen(place->log) + 1);
    return ERR_OK;
}

static enum err_code add_arguments(struct launcher *launcher, const Drover__Run *run,
                                   const struct launch_place *place, struct err *err)
{
    for (size_t i = 0; i < run->n_argv; i++) {
        struct err why = {0};
        enum err_code code = launch_expand(&launcher->packet, &run->argv[i], place, &why);
        if (code != ERR_OK) {
            return err_set(err, code, "argument %zu: %s", i, why.text);
        }
        str_add_char(&launcher->packet, '\0');
    }
    return ERR_OK;
}

/* Appends the variables that count, and returns how many. */
static uint32_t add_variables(struct launcher *launcher, const struct variables *variables)
{
    uint32_t count = 0;
    for (size_t i = 0; i < variables->count; i++) {
        if (!is_overridden(variables, i)) {
            const char *text = launcher->strings.text + launcher->offsets[i];
            str_add_bytes(&launcher->packet, text, strlen(text) + 1);
            count++;
        }
    }
    return count;
}

enum err_code launch_build(struct launcher *launcher, const Drover__Run *run,
                           const struct launch_place *place, struct err *err)
{
    if (!launcher->offsets) {
        launcher->offsets = mem_array(REAPER_STRINGS_MAX, sizeof *launcher->offsets);
    }
    str_clear(&launcher->strings);
    str_clear(&launcher->packet);
    struct variables variables = {.launcher = launcher};
    enum err_code code = collect(&variables, run, place, err);
    if (code != ERR_OK) {
        return code;
    }
    if (run->n_argv > REAPER_STRINGS_MAX || variables.count > REAPER_STRINGS_MAX) {
        return err_set(err, ERR_QUOTA, "more than %d arguments or environment variables",
                       (int)REAPER_STRINGS_MAX);
    }
    struct reaper_run head;
    memset(&head, 0, sizeof head); /* the padding too: it is sent */
    head.request = REAPER_RUN;
    head.argument_count = (uint32_t)run->n_argv;
    head.serial = place->serial;
    head.timeout_ms = run->timeout_ms;
    head.grace_ms = run->grace_ms;
    head.log_limit_bytes = run->log_limit_bytes;
    str_add_bytes(&launcher->packet, &head, sizeof head);
    code = add_places(launcher, run, place, &variables, err);
    if (code == ERR_OK) {
        code = add_arguments(launcher, run, place, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    head.variable_count = add_variables(launcher, &variables);
    memcpy(launcher->packet.text, &head, sizeof head);
    if (launcher->packet.size > REAPER_PACKET_BYTES_MAX) {
        return err_set(err, ERR_QUOTA, "command and environment are larger than %d KiB",
                       REAPER_PACKET_BYTES_MAX / 1024);
    }
    return ERR_OK;
}

void launch_forget(struct launcher *launcher, const Drover__Run *run)
{
    struct str *wiped[] = {&launcher->packet, &launcher->strings};
    for (size_t i = 0; run->n_secrets > 0 && i < 2; i++) {
        if (wiped[i]->text) {
            explicit_bzero(wiped[i]->text, wiped[i]->cap);
        }
    }
}

void launch_release(struct launcher *launcher)
{
    if (!launcher) {
        return;
    }
    for (size_t i = 0; i < LAUNCH_LOOKUPS; i++) {
        forget_lookup(&launcher->lookups[i]);
    }
    str_release(&launcher->packet);
    str_release(&launcher->strings);
    str_release(&launcher->scratch);
    free(launcher->offsets);
    launcher->offsets = NULL;
}
