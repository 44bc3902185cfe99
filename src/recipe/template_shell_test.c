/* Templates put before real shells: what a command prints must be the values, byte for byte, and
 * no value may ever be run. DROVER_TEST_ROUNDS and DROVER_TEST_SEED set how much and which. */
#include "recipe/template.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOTS = 6, SHELL_TIMEOUT_MS = 20000 };

static const char *const SHELLS[] = {"sh", "bash"};

static struct rng rng;
static char folder[] = "/tmp/drover-template-XXXXXX";

/* fail_msg cuts long texts. */
PRINTF_LIKE(1, 2) static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fail();
}

static size_t pick(size_t limit)
{
    return (size_t)rng_below(&rng, limit);
}

static bool one_in(size_t n)
{
    return pick(n) == 0;
}

static uint64_t rounds_or(uint64_t rounds)
{
    const char *text = getenv("DROVER_TEST_ROUNDS");
    return text ? strtoull(text, NULL, 10) : rounds;
}

/* The slots are named v0, v1, ... */
static int resolve(void *context, const char *name, const char **suggestion)
{
    (void)context;
    (void)suggestion;
    return name[0] == 'v' ? name[1] - '0' : -1;
}

struct values {
    struct value items[SLOTS];
    struct str texts[SLOTS];
};

static void values_release(struct values *values)
{
    for (size_t i = 0; i < SLOTS; i++) {
        str_release(&values->texts[i]);
    }
}

static void value_set(struct values *values, size_t slot, bool absent)
{
    values->items[slot] = (struct value){.kind = absent ? VALUE_ABSENT : VALUE_TEXT,
                                         .text = str_text(&values->texts[slot]),
                                         .size = values->texts[slot].size};
}

static int spawn_shell(const char *shell, const char *script, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    char *argv[] = {mem_strdup(shell), mem_strdup("-c"), mem_strdup(script), NULL};
    char path[] = "PATH=/usr/bin:/bin";
    char lang[] = "LANG=C.UTF-8";
    char *env[] = {path, one_in(2) ? lang : NULL, NULL};
    int failure = posix_spawnp(pid, shell, &actions, NULL, argv, env);
    for (size_t i = 0; argv[i]; i++) {
        free(argv[i]);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

/* Runs the script in the empty folder; what it printed is appended to out. False: no such shell. */
static bool run_shell(const char *shell, const char *script, struct str *out)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = -1;
    int failure = spawn_shell(shell, script, fds[1], &pid);
    close(fds[1]);
    if (failure == ENOENT) {
        close(fds[0]);
        return false;
    }
    assert_int_equal(failure, 0);
    for (;;) {
        char bytes[4096];
        struct pollfd ready = {.fd = fds[0], .events = POLLIN};
        if (poll(&ready, 1, SHELL_TIMEOUT_MS) == 0) {
            kill(pid, SIGKILL);
            complain("%s hangs:\n%s\n", shell, script);
        }
        ssize_t got = read(fds[0], bytes, sizeof bytes);
        if (got <= 0) {
            break;
        }
        str_add_bytes(out, bytes, (size_t)got);
    }
    close(fds[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return true;
}

static bool was_pwned(void)
{
    char path[sizeof folder + 8];
    snprintf(path, sizeof path, "%s/pwned", folder);
    return access(path, F_OK) == 0;
}

static void add_hostile(struct str *out)
{
    static const char *const pieces[] = {
        "'",
        "\"",
        "`",
        "$",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ";",
        "&",
        "|",
        "<",
        ">",
        "#",
        "*",
        "?",
        "~",
        "!",
        "\\",
        "\n",
        "\t",
        " ",
        "-",
        "=",
        "a",
        "0.5",
        "if",
        "-n",
        "a=b",
        "E",
        "esac",
        "\x01",
        "\x7f",
        "\x81",
        "\x88",
        "\xc3\xa9",
        "\xff",
        "\r",
        "%s",
        "\\n",
        "${x}",
        "$(:>pwned)",
        "`:>pwned`",
        ";:>pwned;",
        "\n:>pwned\n",
        "';:>pwned;'",
        "\";:>pwned;\"",
        "\nE\n:>pwned\n",
        ")\n:>pwned\n(",
        "a[$(:>pwned)]",
        "x[$(:>pwned)]",
        "}:>pwned;",
        "))\n:>pwned\n",
        "esac\n:>pwned\n",
        "fi",
        "1",
        "/",
        ".",
        ",",
        "@",
        "+",
        ":",
        "_",
    };
    size_t count = pick(5);
    for (size_t i = 0; i < count; i++) {
        str_add(out, pieces[pick(sizeof pieces / sizeof pieces[0])]);
    }
}

static void values_draw(struct values *values)
{
    *values = (struct values){0};
    for (size_t i = 0; i < SLOTS; i++) {
        bool absent = one_in(8);
        if (!absent) {
            add_hostile(&values->texts[i]);
        }
        value_set(values, i, absent);
    }
}

/* A script under construction, and what it must print. */
struct script {
    struct str text;
    struct str want;
    const struct values *values;
    bool bash;
};

static void add_hole(struct script *script, struct str *want, bool *present)
{
    size_t slot = pick(SLOTS);
    str_addf(&script->text, "{{v%zu}}", slot);
    const struct value *value = &script->values->items[slot];
    str_add_bytes(want, value->text, value->size);
    *present = *present || value->kind != VALUE_ABSENT;
}

static void add_double_quoted(struct script *script, struct str *want)
{
    bool present = false;
    switch (pick(5)) {
    case 0:
        str_add(&script->text, "$y");
        str_add(want, "why");
        break;
    case 1:
        str_add(&script->text, "it's \\$ ");
        str_add(want, "it's $ ");
        break;
    case 2:
        str_add(&script->text, "$(printf '%s|' ");
        add_hole(script, want, &present);
        str_add(&script->text, " '' )");
        str_add(want, present ? "||" : "|");
        return;
    case 3:
        str_add(&script->text, "${y}$(printf '%s|' \"$(printf '%s|' 'a");
        str_add(want, "whya");
        add_hole(script, want, &present);
        str_add(&script->text, "')\")");
        str_add(want, "||");
        return;
    default:
        break;
    }
    add_hole(script, want, &present);
}

/* One piece of a word; *present when the word exists whatever else is in it. */
static void add_piece(struct script *script, struct str *want, bool *present)
{
    static const char *const plain[] = {"a", "-", "x=", "b/", ":", "i", "_", "a#", "\\;", "1", "%"};
    const char *text = plain[pick(sizeof plain / sizeof plain[0])];
    switch (pick(6)) {
    case 0:
        str_add(&script->text, text);
        str_add(want, text[0] == '\\' ? text + 1 : text);
        *present = true;
        break;
    case 1:
        *present = true;
        str_add(&script->text, "'\\$\"");
        str_add(want, "\\$\"");
        add_hole(script, want, present);
        str_add(&script->text, "'");
        break;
    case 2:
    case 3:
        *present = true;
        str_add(&script->text, "\"");
        add_double_quoted(script, want);
        str_add(&script->text, "\"");
        break;
    default:
        add_hole(script, want, present);
        break;
    }
}

/* A word; true if it exists (it does not when it is made of absent values only). */
static bool add_word(struct script *script, struct str *want)
{
    bool present = false;
    size_t count = 1 + pick(3);
    for (size_t i = 0; i < count; i++) {
        add_piece(script, want, &present);
    }
    return present;
}

static void add_printf(struct script *script)
{
    str_add(&script->text, "printf '<%s>' -");
    str_add(&script->want, "<->");
    size_t count = 1 + pick(3);
    for (size_t i = 0; i < count; i++) {
        struct str want = {0};
        str_add(&script->text, " ");
        if (add_word(script, &want)) {
            str_addf(&script->want, "<");
            str_add_bytes(&script->want, str_text(&want), want.size);
            str_addf(&script->want, ">");
        }
        str_release(&want);
    }
}

static void add_assignment(struct script *script)
{
    struct str want = {0};
    str_add(&script->text, "x='");
    bool present = true;
    add_hole(script, &want, &present);
    str_add(&script->text, "'\"");
    add_double_quoted(script, &want);
    str_add(&script->text, "\"; printf '<%s>' \"$x\"");
    str_add(&script->want, "<");
    str_add_bytes(&script->want, str_text(&want), want.size);
    str_add(&script->want, ">");
    str_release(&want);
}

static void add_here_string(struct script *script)
{
    struct str want = {0};
    bool present = false;
    str_add(&script->text, "cat <<<");
    add_hole(script, &want, &present);
    str_add(&script->text, "\"\"");
    str_add_bytes(&script->want, str_text(&want), want.size);
    str_add(&script->want, "\n");
    str_release(&want);
}

static void add_statement(struct script *script)
{
    static const char *const around[][2] = {
        {"( ", " )"},
        {"{ ", "; }"},
        {"true && ", ""},
        {"", " # it's \" a comment"},
        {"if true; then ", "; fi"},
        {"case a in a) ", ";; esac"},
        {"case a in (b|a) ", " ;;\nesac"},
        {"", " 2>/dev/null"},
        {"cat <<E >/dev/null\nit's \" $y\nE\n", ""},
        {"", " <<-'E' <<F\nit's `\n\tE\nits $(echo '')\nF"},
        {"for w in a; do ", "; done"},
        {"false || ", ""},
        {": `echo \"it's\"`; ", "; : $((1<<2)) ${y#w} ${#y}"},
        {"", " | cat"},
        {"x=$(", "); printf '%s' \"$x\"; x="},
        {"", " \\\n \\\n"},
    };
    enum { AROUND = sizeof around / sizeof around[0] };
    size_t which = pick(AROUND + 4);
    const char *before = which < AROUND ? around[which][0] : "";
    const char *after = which < AROUND ? around[which][1] : "";
    bool strips = strchr(after, 'x'); /* $( ) drops newlines at the end: end in > */
    str_add(&script->text, before);
    switch (pick(strips || strstr(after, "<<") ? 1 : 6)) {
    case 0:
    case 1:
    case 2:
        add_printf(script);
        break;
    case 3:
        add_assignment(script);
        break;
    default:
        if (script->bash) {
            add_here_string(script);
        } else {
            add_printf(script);
        }
        break;
    }
    str_add(&script->text, after);
    str_add(&script->text, "\n");
}

static void add_printed(struct str *out, const struct str *bytes)
{
    for (size_t i = 0; i < bytes->size; i++) {
        unsigned char c = (unsigned char)bytes->text[i];
        str_addf(out, c >= 32 && c < 127 ? "%c" : "\\x%02x", c);
    }
}

static void check_script(const char *shell, struct script *script)
{
    struct arena arena = {0};
    struct diag_list diags = {.file = "f"};
    struct template *tmpl = template_compile(&arena, TEMPLATE_SHELL, str_text(&script->text), 1, 1,
                                             resolve, NULL, &diags);
    struct str line = {0};
    struct str got = {0};
    if (!tmpl) {
        diag_print(&diags, &line);
        complain("%s\n%s\n", str_text(&script->text), str_text(&line));
    }
    template_render(tmpl, script->values->items, &line);
    if (run_shell(shell, str_text(&line), &got)) {
        bool same = got.size == script->want.size &&
                    memcmp(str_text(&got), str_text(&script->want), got.size) == 0;
        if (!same || was_pwned()) {
            struct str shown = {0};
            str_addf(&shown, "\ngot  ");
            add_printed(&shown, &got);
            str_addf(&shown, "\nwant ");
            add_printed(&shown, &script->want);
            complain("%s%s:\n%s\n%s%s\n", was_pwned() ? "A VALUE WAS RUN BY " : "", shell,
                     str_text(&script->text), str_text(&line), str_text(&shown));
        }
    }
    str_release(&got);
    str_release(&line);
    diag_release(&diags);
    arena_release(&arena);
}

static void test_shells_print_exactly_the_values(void **state)
{
    (void)state;
    uint64_t rounds = rounds_or(150);
    for (uint64_t round = 0; round < rounds; round++) {
        struct values values;
        values_draw(&values);
        struct script script = {.values = &values, .bash = round % 2 == 1};
        str_add(&script.text, "y=why\n");
        for (int i = 0; i < 10; i++) {
            add_statement(&script);
        }
        check_script(SHELLS[round % 2], &script);
        str_release(&script.text);
        str_release(&script.want);
        values_release(&values);
    }
}

/* Text that need not make sense. No loops and no empty (), so that it can neither hang nor define a
 * function that calls itself. */
static void add_soup(struct str *out, int depth)
{
    static const char *const tokens[] = {
        " ",          "\n",
        "'",          "\"",
        "\\",         "`",
        "$(",         "( echo ",
        ")",          "${x",
        "}",          "$((",
        "))",         "(( 1",
        "#",          " # ",
        "<<E",        "<<-E",
        "<<'E'",      "\nE\n",
        "E",          "<<<",
        "<",          ">/dev/null",
        ">",          "&",
        "&&",         "|",
        ";",          ";;",
        "case a in ", " esac",
        "\nesac\n",   "a)",
        "(a)",        "x=",
        "x=( a",      "[",
        "]",          "[[ ",
        " ]]",        "$x",
        "$",          "$'",
        "$\"",        "echo a",
        "a",          "echo ",
        "=",          "!",
        "*",          "?",
        "@( a",       "\\\n",
        " if ",       "1",
        " -eq ",      "let ",
        "x[",         "<( a",
        "\t",         "{",
        "~",          "\nfi\n",
        "in",         "\\'",
        "\\\"",       "\\\\",
        "$$",         "$[",
        ">&",         "<&",
        "&>",         "declare -i x=",
        "printf -v ", "test -v ",
        "read ",      "x+=( a",
        "export ",    "exec ",
        "\r",         "?( a",
        "command ",   "time ",
        "for x in ",  "; do echo ",
        "; done ",    "[ ",
        "sh -c ",     "esac",
        "-",          ",",
    };
    static const char *const pairs[][2] = {
        {"$(", ")"},
        {"'", "'"},
        {"\"", "\""},
        {"( echo ", ")"},
        {"`", "`"},
        {"${x:-", "}"},
        {"$((", "))"},
        {"[[ a == ", " ]]"},
        {"\ncat <<E\n", "\nE\n"},
        {"case a in a) ", ";;\nesac\n"},
        {"case a in (a) ", ";; esac"},
        {"echo ", "\n"},
        {"echo \"$(echo ", ")\"\n"},
        {"x=( ", ")\n"},
        {"x[", "]=1"},
        {"echo ", " # it's\n"},
        {"\"${x}", "\""},
        {"if :; then echo ", "\nfi\n"},
        {"{ echo ", "; }"},
        {"$'", "'"},
        {"<( echo ", ")"},
        {"echo <<E ", "\nE\n"},
        {"eval ", "\n"},
    };
    size_t count = 1 + pick(4);
    for (size_t i = 0; i < count; i++) {
        size_t which = pick(10);
        if (which < 3) {
            str_addf(out, "{{v%zu}}", pick(SLOTS));
        } else if (which < 6 || depth == 0) {
            str_add(out, tokens[pick(sizeof tokens / sizeof tokens[0])]);
        } else {
            const char *const *pair = pairs[pick(sizeof pairs / sizeof pairs[0])];
            str_add(out, pair[0]);
            add_soup(out, depth - 1);
            str_add(out, one_in(12) ? "" : pair[1]);
        }
    }
}

static bool check_soup(const char *text)
{
    struct arena arena = {0};
    struct diag_list diags = {.file = "f"};
    struct template *tmpl =
        template_compile(&arena, TEMPLATE_SHELL, text, 1, 1, resolve, NULL, &diags);
    diag_release(&diags);
    if (tmpl) {
        struct values values;
        struct str line = {0};
        values_draw(&values);
        template_render(tmpl, values.items, &line);
        for (size_t i = 0; i < 2; i++) {
            struct str got = {0};
            run_shell(SHELLS[i], str_text(&line), &got);
            str_release(&got);
            if (was_pwned()) {
                complain("A VALUE WAS RUN BY %s:\n%s\n---\n%s\n---\n", SHELLS[i], text,
                         str_text(&line));
            }
        }
        str_release(&line);
        values_release(&values);
    }
    arena_release(&arena);
    return tmpl;
}

static void test_no_value_is_run_whatever_the_template(void **state)
{
    (void)state;
    uint64_t rounds = rounds_or(300);
    uint64_t accepted = 0;
    while (accepted < rounds) {
        struct str text = {0};
        add_soup(&text, 3);
        if (strstr(str_text(&text), "{{v") && check_soup(str_text(&text))) {
            accepted++;
        }
        str_release(&text);
    }
}

/* Each was tried by hand, or found by the test above, to make a shell run a value. They may be
 * refused or not; they must do no harm. */
static void test_no_value_is_run_in_templates_made_to_break_it(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "x=( ';;let 'case a in (a) \\\\{{v5}}\\x=( $$)\n)\n",
        "\\eval {{v4}}",
        "\"eval\" {{v4}}",
        "[[ 1 -eq {{v0}} ]]",
        "x[{{v0}}]=1",
        "x[ {{v0}} ]=1",
        "x=([{{v0}}]=1)",
        "x=(a;{{v0}})\n{{v1}}",
        "declare -a x=(a ; {{v0}})\n{{v1}}",
        "{{v0}}#'\n{{v1}}",
        "echo a{{v0}}#'\n{{v1}}'",
        "<{{v0}}<E {{v1}}\n{{v2}}\nE\n",
        "echo \"$( '{{v0}}' )\"",
        "echo \"$(echo \"$(echo '{{v0}}')\" {{v1}})\"{{v2}}",
        "x=$(cat <<E\nit's\nE\n) ; echo {{v0}}",
        "x=$(cat <<E\nit's\nE)\necho {{v0}}\nE\n)",
        "x=\"$(cat <<'E'\nit's\nE\n)\" ; echo {{v0}}",
        "echo $(case a in a) echo ' ;; esac) {{v0}} '",
        "echo $(case a in (a) echo ;; esac; echo {{v0}}) '{{v0}}'",
        "echo $(echo esac; case a in (a) echo {{v0}} ;;\nesac; echo {{v1}}) \"{{v0}}\"",
        "(case a in (a) x=(b) esac ;; b) {{v0}} ' ) ' {{v1}} ' ;; \nesac)",
        "echo ${#x}{{v0}} ${x#'}'} {{v1}} ${x%\\}}{{v2}}",
        "echo \"${x:-'}{{v0}}'}\" '{{v1}}'",
        "echo ${x:-{{{{}}{{v0}}",
        "echo $(( 1 + $(echo {{v0}}) ))",
        "echo $((1)){{v0}} $( (echo a) ){{v1}}",
        "echo `echo \\` {{v0}} \\` ` {{v1}}",
        "echo $'\\\\' {{v0}} $'a' {{v1}} \"$'\" {{v2}}",
        "echo \"a$\"{{v0}} 'a$'{{v1}}$'b'{{v2}}",
        "echo \\\n{{v0}}\\\n#'\n{{v1}}",
        "# it's \\\n{{v0}}",
        "f() { echo {{v0}} \"$1\"; }; f {{v1}}",
        "for x in {{v0}} {{v1}}; do echo \"$x\" \"{{v2}}\"; done",
        "case {{v0}} in {{v1}}) echo {{v2}};; ({{v3}}|{{v4}}) echo;; *) echo {{v5}};; esac",
        "if [ {{v0}} = {{v1}} ]; then echo; elif test {{v2}}; then {{v3}}; fi",
        "cat <<E {{v0}} >/dev/null\n$x\nE\n{{v1}}",
        "cat <<E; cat <<-F; echo {{v0}}\na\nE\n\tb\n\tF\necho {{v1}}",
        "(cat <<E)\nit's\nE\n{{v1}}",
        "echo {a,{{v0}}}{1..{{v1}}} ~{{v2}} [{{v3}}-z] *{{v4}}* !{{v5}}",
        "echo {{v0}}{{v1}}{{v2}} i{{v3}} {{v4}}f",
        "{{v0}}",
        "{{v0}} {{v1}}; {{v2}} & {{v3}} | {{v4}} || {{v5}}",
        "{{v0}}={{v1}} {{v2}}_a={{v3}}; x={{v4}} y=\"{{v5}}\"; echo $x \"$y\"",
        "time {{v0}}; ! {{v1}}; exec 3>&1 {{v2}}",
        "echo a >&{{v0}}",
        "echo a 2>{{v1}}/x <{{v2}} &>{{v3}} &>>{{v4}}",
        "echo a >&1 {{v0}} <&'{{v1}}'",
        "coproc {{v0}} { echo; }",
        "function {{v0}} { echo; }",
        "select {{v0}} in a; do break; done </dev/null",
        "for {{v0}} in {{v1}}; do echo; done",
        "trap '{{v0}}' EXIT; bash -c {{v1}}; sh -c 'echo \"$1\"' _ {{v2}}",
        "declare -i n={{v0}}; printf -v {{v1}} a; read {{v2}} <<<a; unset {{v3}}",
        "export {{v0}} x={{v1}}; readonly {{v2}}; local {{v3}}",
        "shopt -s extglob\necho @({{v0}}|b) !(#'){{v1}}'",
        "[[ {{v0}} =~ ({{v1}}) ]] || [[ a < {{v2}} ]]",
        "echo ((1)) {{v0}}\n{{v1}}",
        "a b c ( {{v0}} )\n{{v1}}",
        "}\n{{v0}}",
        "fi; {{v0}}\n{{v1}}",
        "echo \"$(if)\" {{v0}}\n{{v1}}",
        "echo $(for) {{v0}}",
        "echo <(if {{v0}}) {{v1}}",
        "x+=({{v0}} [1]={{v1}} \"{{v2}}\")",
        "x=({{v0}} # it's {\n{{v1}})",
        "x=(a) y=({{v0}}) {{v1}}",
        "x=( $(echo {{v0}} ) <(echo {{v1}}) )",
    };
    uint64_t rounds = rounds_or(1) / 1000 + 1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (uint64_t round = 0; round < rounds; round++) {
            check_soup(texts[i]);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    const char *seed = getenv("DROVER_TEST_SEED");
    rng.state = seed ? strtoull(seed, NULL, 10) : rng_seed_from_system();
    printf("DROVER_TEST_SEED=%" PRIu64 "\n", rng.state);
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shells_print_exactly_the_values),
        cmocka_unit_test(test_no_value_is_run_whatever_the_template),
        cmocka_unit_test(test_no_value_is_run_in_templates_made_to_break_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
