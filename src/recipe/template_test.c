#include "recipe/template.h"

#include "base/mem.h"
#include "base/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const NAMES[] = {"lr", "name", "prepare.output", "on", "n"};
enum { NAME_COUNT = sizeof NAMES / sizeof NAMES[0] };

static int resolve(void *context, const char *name, const char **suggestion)
{
    (void)context;
    for (int i = 0; i < NAME_COUNT; i++) {
        if (strcmp(NAMES[i], name) == 0) {
            return i;
        }
    }
    *suggestion = suggest_nearest(name, NAMES, NAME_COUNT);
    return -1;
}

static struct value text_value(const char *text)
{
    return (struct value){.kind = VALUE_TEXT, .text = text, .size = strlen(text)};
}

/* Every name has the same value; NULL is absent. The caller frees the result. */
static char *render(enum template_mode mode, const char *text, const char *value)
{
    struct arena arena = {0};
    struct diag_list diags = {.file = "f"};
    struct template *tmpl = template_compile(&arena, mode, text, 1, 1, resolve, NULL, &diags);
    if (!tmpl) {
        struct str all = {0};
        diag_print(&diags, &all);
        fail_msg("%s\n%s", text, str_text(&all));
    }
    struct value values[NAME_COUNT];
    for (int i = 0; i < NAME_COUNT; i++) {
        values[i] = value ? text_value(value) : (struct value){.kind = VALUE_ABSENT, .text = ""};
    }
    struct str out = {0};
    template_render(tmpl, values, &out);
    arena_release(&arena);
    diag_release(&diags);
    return out.text ? str_take(&out) : mem_strdup("");
}

struct rendering {
    const char *text;
    const char *value;
    const char *want;
};

static void check_renderings(enum template_mode mode, const struct rendering *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO_FREE char *got = render(mode, cases[i].text, cases[i].value);
        if (strcmp(got, cases[i].want) != 0) {
            fail_msg("%s with %s: got %s, want %s", cases[i].text,
                     cases[i].value ? cases[i].value : "(absent)", got, cases[i].want);
        }
    }
}

#define RENDERS(mode, cases) check_renderings(mode, cases, sizeof(cases) / sizeof(cases)[0])

static void test_ordinary_values_are_bare_only_in_plain_words(void **state)
{
    (void)state;
    static const struct rendering cases[] = {
        {"python t.py --lr {{lr}} x", "0.1", "python t.py --lr 0.1 x"},
        {"{{ lr }}", "1e-05", "1e-05"},
        {"--lr={{lr}}", "-3", "--lr=-3"},
        {"a/{{lr}}/b_{{name}}.txt", "v", "a/v/b_v.txt"},
        {"x={{lr}}; y", "5", "x=5; y"},
        {"x {{lr}}|cat", "5", "x 5|cat"},
        {"a{{lr}}", "5", "a'5'"},
        {"{{lr}}a", "5", "'5'a"},
        {"{{lr}}{{n}}", "5", "'5''5'"},
        {"{{lr}}=5", "a", "'a'=5"},
        {"{{lr}}_b=5", "a", "'a'_b=5"},
        {"{{lr}}>f", "2", "'2'>f"},
        {"{{lr}} > f", "2", "2 > f"},
        {">{{lr}}", "f", ">'f'"},
        {"{{lr}} () { :; }", "f", "'f' () { :; }"},
        {"{1..{{lr}}..2}", "9", "{1..'9'..2}"},
        {"{a,{{lr}}}", "9", "{a,'9'}"},
        {"~{{lr}}", "root", "~'root'"},
        {"~_{{lr}}", "root", "~_'root'"},
        {"[{{lr}}]*", "a", "['a']*"},
        {"$HOME/{{lr}}", "a", "$HOME/'a'"},
        {"$HOME{{lr}}", "a", "$HOME'a'"},
        {"a\\\n{{lr}}", "a", "a\\\n'a'"},
        {"a \\\n{{lr}}", "a", "a \\\na"},
        {"a\\ {{lr}}", "a", "a\\ 'a'"},
        {"i{{lr}}", "f", "i'f'"},
        {"time {{lr}}", "-p", "time '-p'"},
        {"({{lr}})", "a", "('a')"},
        {"$({{lr}})", "a", "$('a')"},
    };
    RENDERS(TEMPLATE_SHELL, cases);
}

static void test_every_reserved_word_is_quoted(void **state)
{
    (void)state;
    static const char *const words[] = {"if",       "then",   "else",   "elif",  "fi",   "do",
                                        "done",     "case",   "esac",   "while", "for",  "in",
                                        "function", "select", "coproc", "time",  "until"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        AUTO_FREE char *got = render(TEMPLATE_SHELL, "{{lr}}", words[i]);
        assert_int_equal(got[0], '\'');
    }
}

static void test_other_values_are_quoted_for_their_place(void **state)
{
    (void)state;
    static const struct rendering cases[] = {
        {"echo {{lr}}", "a b", "echo 'a b'"},
        {"echo {{lr}}", "", "echo ''"},
        {"echo {{lr}}", "it's", "echo 'it'\\''s'"},
        {"echo {{lr}}", "'", "echo ''\\'''"},
        {"echo {{lr}}", "~", "echo '~'"},
        {"echo {{lr}}", "a=b", "echo 'a=b'"},
        {"echo {{lr}}", "{1,2}", "echo '{1,2}'"},
        {"echo {{lr}}", "\xc3\xa9", "echo '\xc3\xa9'"},
        {"echo '{{lr}}'", "a b", "echo 'a b'"},
        {"echo '{{lr}}'", "it's", "echo 'it'\\''s'"},
        {"echo '{{lr}}'", "", "echo ''"},
        {"echo '$\\{{lr}}'", "$x", "echo '$\\$x'"},
        {"echo \"{{lr}}\"", "a b'c;", "echo \"a b'c;\""},
        {"echo \"{{lr}}\"", "$x", "echo \"\"'$x'\"\""},
        {"echo \"{{lr}}\"", "a\"b", "echo \"\"'a\"b'\"\""},
        {"echo \"{{lr}}\"", "a\\", "echo \"\"'a\\'\"\""},
        {"echo \"{{lr}}\"", "`'", "echo \"\"'`'\\'''\"\""},
        {"echo \"{{lr}}\"", "", "echo \"\""},
        {"echo \"$x{{lr}}\"", "y", "echo \"$x\"'y'\"\""},
        {"echo \"$x\\\n{{lr}}\"", "y", "echo \"$x\\\n\"'y'\"\""},
        {"echo \"${x}{{lr}}\"", "y", "echo \"${x}y\""},
        {"echo \"\\${{lr}}\"", "y", "echo \"\\$y\""},
        {"echo \"$(echo {{lr}} '{{lr}}')\"", "a b", "echo \"$(echo 'a b' 'a b')\""},
        {"echo \"$(echo \"{{lr}}\")\"", "$", "echo \"$(echo \"\"'$'\"\")\""},
        {"echo a#{{lr}}", "a b", "echo a#'a b'"},
        {"echo $#{{lr}}", "a b", "echo $#'a b'"},
        {"cat <<EOF >{{lr}}\nx ' \"\nEOF\necho {{lr}}", "a b",
         "cat <<EOF >'a b'\nx ' \"\nEOF\necho 'a b'"},
        {"cat <<<{{lr}}", "a b", "cat <<<'a b'"},
        {"case {{lr}} in {{n}}) echo '{{lr}}';; esac", "a b",
         "case 'a b' in 'a b') echo 'a b';; esac"},
        {"x=$(case $y in (a) echo;;\nesac); echo {{lr}}", "1",
         "x=$(case $y in (a) echo;;\nesac); echo 1"},
        {"echo `date` $((1<<2)) {{lr}}", "a b", "echo `date` $((1<<2)) 'a b'"},
        {"sh -c 'echo \"$1\"' _ {{lr}}", "a b", "sh -c 'echo \"$1\"' _ 'a b'"},
        {"a 2>&1 {{lr}} >&2 '{{n}}'", "a b", "a 2>&1 'a b' >&2 'a b'"},
        {"find \\;{{lr}};", "a b", "find \\;'a b';"},
        {"python m.py eval {{lr}}", "a b", "python m.py eval 'a b'"},
        {"python m.py test -v {{lr}}", "a b", "python m.py test -v 'a b'"},
        {"export x={{lr}}; local y={{n}}", "a b", "export x='a b'; local y='a b'"},
        {"bash run.sh -c {{lr}}", "a b", "bash run.sh -c 'a b'"},
        {"a=({{lr}} \"{{n}}\")", "a b", "a=('a b' \"a b\")"},
    };
    RENDERS(TEMPLATE_SHELL, cases);
}

static void test_an_absent_value_is_nothing_at_all(void **state)
{
    (void)state;
    static const struct rendering cases[] = {
        {"echo {{lr}} x", NULL, "echo  x"},         {"echo '{{lr}}'", NULL, "echo ''"},
        {"echo \"{{lr}}\"", NULL, "echo \"\""},     {"echo {{lr|flag}}", NULL, "echo "},
        {"echo \"$x{{lr}}\"", NULL, "echo \"$x\""}, {"echo {{lr|raw}}", NULL, "echo "},
    };
    RENDERS(TEMPLATE_SHELL, cases);
}

static void test_raw_is_inserted_as_it_is(void **state)
{
    (void)state;
    static const struct rendering cases[] = {
        {"echo $(({{lr|raw}} + 1))", "2 * 3", "echo $((2 * 3 + 1))"},
        {"cat <<E\n{{ lr | raw }}\nE\n", "a b", "cat <<E\na b\nE\n"},
        {"echo ${{lr|raw}}", "HOME", "echo $HOME"},
        {"echo `a {{lr|raw}}`", "b", "echo `a b`"},
        {"# {{lr|raw}}", "b", "# b"},
        {"[[ a -eq {{lr|raw}} ]]", "b", "[[ a -eq b ]]"},
    };
    RENDERS(TEMPLATE_SHELL, cases);
}

static void test_plain_text_takes_values_as_they_are(void **state)
{
    (void)state;
    static const struct rendering cases[] = {
        {"a'{{lr}}\"`{{n|raw}}", "x y", "a'x y\"`x y"},
        {"{{{{x}}", "v", "{{x}}"},
        {"{{{{{{lr}}", "v", "{{v"},
        {"{ {lr} }", "v", "{ {lr} }"},
        {"", "v", ""},
        {"{{lr}}{{n}}", "v", "vv"},
        {"{{prepare.output}}", "/a b", "/a b"},
    };
    RENDERS(TEMPLATE_PLAIN, cases);
    static const struct rendering shell[] = {
        {"docker ps --format '{{{{.Names}}'", "v", "docker ps --format '{{.Names}}'"},
        {"", "v", ""},
    };
    RENDERS(TEMPLATE_SHELL, shell);
}

static void test_flags_are_two_words_one_or_none(void **state)
{
    (void)state;
    static const struct rendering cases[] = {
        {"a {{lr|flag}}", "0.1", "a --lr 0.1"},
        {"a {{lr|flag}};b", "x y", "a --lr 'x y';b"},
        {"a {{lr|flag}}", "", "a --lr ''"},
        {"$(a {{lr|flag}})", "if", "$(a --lr 'if')"},
    };
    RENDERS(TEMPLATE_SHELL, cases);

    struct arena arena = {0};
    struct diag_list diags = {.file = "f"};
    struct template *tmpl =
        template_compile(&arena, TEMPLATE_SHELL, "a {{on|flag}}", 1, 1, resolve, NULL, &diags);
    assert_non_null(tmpl);
    struct value values[NAME_COUNT] = {0};
    struct str out = {0};
    values[3] = (struct value){.kind = VALUE_BOOL, .text = "true", .size = 4};
    template_render(tmpl, values, &out);
    assert_string_equal(str_text(&out), "a --on");
    str_clear(&out);
    values[3] = (struct value){.kind = VALUE_BOOL, .text = "false", .size = 5};
    template_render(tmpl, values, &out);
    assert_string_equal(str_text(&out), "a ");
    str_release(&out);
    assert_true(template_uses(tmpl, 3));
    assert_false(template_uses(tmpl, 0));

    int slot = -1;
    const char *name = NULL;
    assert_false(template_is_flag(tmpl, &slot, &name));
    tmpl = template_compile(&arena, TEMPLATE_PLAIN, "{{on|flag}}", 1, 1, resolve, NULL, &diags);
    assert_true(template_is_flag(tmpl, &slot, &name));
    assert_int_equal(slot, 3);
    assert_string_equal(name, "on");
    tmpl = template_compile(&arena, TEMPLATE_PLAIN, "{{on}}", 1, 1, resolve, NULL, &diags);
    assert_false(template_is_flag(tmpl, &slot, &name));
    arena_release(&arena);
    diag_release(&diags);
}

struct refusal {
    const char *text;
    const char *want; /* a part of what is printed */
};

static void check_refusals(enum template_mode mode, const struct refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct arena arena = {0};
        struct diag_list diags = {.file = "f"};
        struct str all = {0};
        struct template *tmpl =
            template_compile(&arena, mode, cases[i].text, 3, 5, resolve, NULL, &diags);
        diag_print(&diags, &all);
        if (tmpl || !strstr(str_text(&all), cases[i].want)) {
            fail_msg("%s: got %s, want %s", cases[i].text, str_text(&all), cases[i].want);
        }
        str_release(&all);
        diag_release(&diags);
        arena_release(&arena);
    }
}

#define REFUSES(mode, cases) check_refusals(mode, cases, sizeof(cases) / sizeof(cases)[0])

static void test_a_place_that_cannot_be_quoted_is_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"echo `{{lr}}`", "f:3:11: {{lr}} is in backticks"},
        {"echo\n  # {{lr}}", "f:4:9: {{lr}} is in a comment"},
        {"cat <<E\n{{lr}}\nE", "f:4:5: {{lr}} is in a here-document"},
        {"cat <<-'E'\n\t{{lr}}\n\tE", "is in a here-document"},
        {"cat <<A <<B\nA\n{{lr}}\nB", "is in a here-document"},
        {"echo ${x:-{{lr}}}", "is in ${...}"},
        {"echo \"${x:-$(echo '{{lr}}')}\"", "is in ${...}"},
        {"echo $((1+{{lr}}))", "is in $((...))"},
        {"((x={{lr}}))", "is in ((...))"},
        {"for ((i=0;i<{{n}};i++)); do :; done", "is in ((...))"},
        {"echo $'{{lr}}'", "is in $'...'"},
        {"echo ${{lr}}", "right after a $"},
        {"echo \"${{lr}}\"", "right after a $"},
        {"echo $${{lr}}", "right after a $"},
        {"echo \\{{lr}}", "right after a backslash"},
        {"echo \"\\{{lr}}\"", "right after a backslash"},
        {"[[ 1 -eq {{lr}} ]]", "is in [[ ... ]]"},
        {"[[ ( 1 -eq \"{{lr}}\" ) ]]", "is in [[ ... ]]"},
        {"a[{{lr}}]=1", "is in the subscript"},
        {"a[\"{{lr}}\"]=1", "is in the subscript"},
        {"a[$(echo {{lr}})]=1", "is in the subscript"},
        {"a=([{{lr}}]=1)", "is in the subscript"},
        {"a[ {{lr}} ]=1", "subscript"},
        {"echo 2>&{{lr}}", "comes after >& or <&"},
        {"echo >& \"{{lr}}\"", "comes after >& or <&"},
        {"\\eval {{lr}}", "is in a word that its command evaluates"},
        {"'eval' {{lr}}", "is in a word that its command evaluates"},
        {"x=1 eval {{lr}}", "is in a word that"},
        {"if eval {{lr}}; then :; fi", "is in a word that"},
        {"{{n}} eval {{lr}}", "is in a word that"},
        {"f() { eval {{lr}}; }", "is in a word that"},
        {"case a in b) eval {{lr}};; esac", "is in a word that"},
        {"declare -ri x={{lr}}", "is in a word that"},
        {"printf -v {{lr}} x", "is in a word that"},
        {"[ a = b -o -v {{lr}} ]", "is in a word that"},
        {"unset {{lr}}", "is in a word that"},
        {"eval {{lr}}", "is in a word that its command evaluates"},
        {"let x={{lr}}", "is in a word that its command evaluates"},
        {"trap \"rm {{lr}}\" EXIT", "is in a word that its command evaluates"},
        {"/bin/sh -ec \"echo {{lr}}\"", "is in a word that its command evaluates"},
        {"srun bash -o pipefail -c 'echo {{lr}}'", "is in a word that its command evaluates"},
    };
    REFUSES(TEMPLATE_SHELL, cases);
}

static void test_after_a_doubt_every_placeholder_is_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"x=$(case a in b) echo;; esac) {{lr}}", "depends on line 3 column 20: a ) after `case`"},
        {"x=$(case a in (b) echo esac;; c) {{lr}}", "a ) after `case`"},
        {"x=$(case a in (b) [[ a &&\n esac ]];; c) {{lr}}", "a ) after `case`"},
        {"x=$(case a in (b) y=(z) esac;; c) {{lr}}", "a ) after `case`"},
        {"echo $$(a) {{lr}}", "$$ with more"},
        {"x=(a)#'\n{{lr}}", "a # right after )"},
        {"[[ a <<E ]]\nE\n{{lr}}", "may not be a here-document"},
        {"echo ${{lr|raw}} {{n}}", "right after a $ or backslash"},
        {"x=$(echo case) {{lr}}", "a ) after `case`"},
        {"echo )\n{{lr}}", "closes nothing"},
        {"echo {{lr}}#'\n{{n}}", "a # right after a placeholder"},
        {"echo <{{lr}}<E {{n}}", "between two operators"},
        {"echo ({{lr}}( {{n}}", "between two operators"},
        {"echo @(#') {{n}}", "extended glob"},
        {"x=(a; b {{n}})", "inside name=(...)"},
        {"echo $[1] {{n}}", "$[...]"},
        {"echo $\"a\" {{n}}", "translated"},
        {"echo $'\\'' {{n}}", "which sh does not know"},
        {"echo $((1) 2)) {{n}}", "not closed by ))"},
        {"((a) && b) {{n}}", "not closed by ))"},
        {"((1<<2)) {{n}}", "<< or #"},
        {"echo $(('a')) {{n}}", "a quote or backslash"},
        {"echo \"${x:-'a}\" {{n}}", "inside ${...}"},
        {"echo ${ echo; } {{n}}", "a command to some shells"},
        {"cat <<$X\n$X\n{{n}}", "not a plain word"},
        {"cat <<{{n}}\n", "not a plain word"},
        {"cat <<E\n$(echo\nE\n)\nE\n{{n}}", "may go on in the next line"},
        {"cat <<E\na\\\nE\nE\n{{n}}", "ends in a backslash"},
        {"cat <<E\n{{lr|raw}}E\n{{n}}", "in the line that ends"},
        {"x=$(cat <<E\nE)\nE\n) {{n}}", "begins like its delimiter"},
        {"x=$(cat <<E)\nE\n{{n}}", "begins inside $( )"},
        {"cat <<E $(\n)\nE\n{{n}}", "between << and"},
        {"cat <<E '\n'\nE\n{{n}}", "between << and"},
        {"alias x=\"'\"\nx {{n}}", "an alias"},
        {"echo <\\\n<E {{n}}", "continued on the next line"},
        {"echo $\\\n(a) {{n}}", "continued right after a $"},
        {"echo <\\\n{{lr}}<E {{n}}", "continued on the next line"},
        {"(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((({{n}}",
         "is in ((...))"},
    };
    REFUSES(TEMPLATE_SHELL, cases);
}

static void test_a_text_must_end_closed(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"echo 'a", "f:3:10: ' is never closed"},
        {"echo \"a", "\" is never closed"},
        {"echo $(a", "$( is never closed"},
        {"echo \"$(a\"", "\" is never closed"},
        {"(a", "( is never closed"},
        {"echo `a", "` is never closed"},
        {"echo ${a", "${ is never closed"},
        {"echo $((1", "$(( is never closed"},
        {"cat <<E\nx", "f:3:11: a here-document has no line"},
        {"cat <<E", "a here-document has no"},
        {"echo \\", "nothing follows the backslash"},
        {"echo $(a # b)", "$( is never closed"},
        {"echo $'a", "$' is never closed"},
    };
    REFUSES(TEMPLATE_SHELL, cases);
}

static void test_mistakes_in_placeholders_are_told(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"a {{nam}}", "f:3:7: {{nam}}: no such name (did you mean 'name'?)"},
        {"a {{zzzzzzzz}}", "no such name (a literal {{ is written {{{{)"},
        {"a {{lr", "f:3:7: {{ without }}"},
        {"a {{lr\n}}", "{{ without }}"},
        {"a {{lr + 1}}", "is not a name"},
        {"a {{}}", "is not a name"},
        {"a {{.Names}}", "is not a name"},
        {"a {{lr|up}}", "unknown filter 'up'"},
        {"a {{lr|}}", "unknown filter ''"},
        {"a\n\n b {{lrr}} {{zzzzzzzz}}",
         "f:5:8: {{lrr}}: no such name (did you mean 'lr'?)\nf:5:16"},
    };
    REFUSES(TEMPLATE_SHELL, cases);
    REFUSES(TEMPLATE_PLAIN, cases);
    static const struct refusal flags[] = {
        {"a'{{lr|flag}}'", "must be a word of its own"},
        {"a={{lr|flag}}", "must be a word of its own"},
        {"{{lr|flag}}{{n}}", "must be a word of its own"},
        {"> {{lr|flag}}", "must be a word of its own"},
    };
    REFUSES(TEMPLATE_SHELL, flags);
    static const struct refusal plain[] = {{"a {{lr|flag}}", "must be the whole text"}};
    REFUSES(TEMPLATE_PLAIN, plain);
}

/* Each of these once could take time in the square of the size. */
static void test_large_texts_compile_in_linear_time(void **state)
{
    (void)state;
    static const char *const pieces[] = {"{{lr}}",     "{{lr}}-", "{{lr",
                                         "{{x}}",      "{{ ",     "$(",
                                         "a\n",        "<<E ",    "cat <<E\n{{lr|raw}}\n",
                                         "${x}{{lr}}", "\\\n"};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct str text = {0};
        str_add_repeat(&text, pieces[i], 100000);
        struct arena arena = {0};
        struct diag_list diags = {.file = "f"};
        template_compile(&arena, TEMPLATE_SHELL, str_text(&text), 1, 1, resolve, NULL, &diags);
        str_release(&text);
        diag_release(&diags);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_values_are_bare_only_in_plain_words),
        cmocka_unit_test(test_every_reserved_word_is_quoted),
        cmocka_unit_test(test_other_values_are_quoted_for_their_place),
        cmocka_unit_test(test_an_absent_value_is_nothing_at_all),
        cmocka_unit_test(test_raw_is_inserted_as_it_is),
        cmocka_unit_test(test_plain_text_takes_values_as_they_are),
        cmocka_unit_test(test_flags_are_two_words_one_or_none),
        cmocka_unit_test(test_a_place_that_cannot_be_quoted_is_refused),
        cmocka_unit_test(test_after_a_doubt_every_placeholder_is_refused),
        cmocka_unit_test(test_a_text_must_end_closed),
        cmocka_unit_test(test_mistakes_in_placeholders_are_told),
        cmocka_unit_test(test_large_texts_compile_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
