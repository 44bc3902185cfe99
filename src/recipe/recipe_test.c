#include "base/mem.h"
#include "recipe/recipe_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static struct recipe *good_with(const char *text, const char *const *sets, size_t set_count)
{
    struct str out = {0};
    struct recipe *recipe = fixture_parse(text, sets, set_count, &out);
    assert_string_equal(str_text(&out), "");
    assert_non_null(recipe);
    str_release(&out);
    return recipe;
}

static struct recipe *good(const char *text)
{
    return good_with(text, NULL, 0);
}

static void bad_with(const char *text, const char *set, const char *expected)
{
    struct str out = {0};
    struct recipe *recipe = fixture_parse(text, &set, set ? 1 : 0, &out);
    assert_null(recipe);
    assert_string_equal(str_text(&out), expected);
    str_release(&out);
}

static void bad(const char *text, const char *expected)
{
    bad_with(text, NULL, expected);
}

/* One experiment `e` that runs `true` and has this further line. */
static void bad_line(const char *line, const char *expected)
{
    struct str text = {0};
    str_addf(&text, "experiments:\n  e:\n    command: 'true'\n    %s\n", line);
    bad(str_text(&text), expected);
    str_release(&text);
}

static void test_figure_1_is_accepted_as_printed(void **state)
{
    (void)state;
    struct recipe *recipe = good(FIGURE_1);
    assert_string_equal(recipe->name, "r");
    assert_false(recipe->has_seed);
    assert_int_equal(recipe->experiment_count, 1);
    const struct experiment *mnist = &recipe->experiments[0];
    assert_string_equal(mnist->name, "mnist");
    assert_string_equal(mnist->framework, "pytorch");
    assert_int_equal(mnist->line, 2);
    assert_int_equal(mnist->column, 3);
    assert_int_equal(mnist->task_count, 1000);
    assert_int_equal(mnist->workers, 100);
    assert_int_equal(mnist->hardware.gpus, 1);
    assert_string_equal(mnist->hardware.gpu_kind, "k80");
    assert_int_equal(mnist->command_count, 1);
    assert_false(mnist->is_exec);
    assert_int_equal(recipe_order(recipe)[0], 0);
    recipe_destroy(recipe);
}

static void test_every_key_is_read(void **state)
{
    (void)state;
    struct recipe *recipe = good("name: my run\nseed: 18446744073709551615\nenv: {A: '1', B: '2'}\n"
                                 "priority: -100\n"
                                 "webhook: [http://a.b/x?y=1, {url: 'https://[::1]:8/',"
                                 " on: [failed, cancelled], secret: key.txt}]\n"
                                 "experiments:\n"
                                 "  one: {exec: [prog, 'a b', ''], image: 'x/y:1'}\n"
                                 "  two:\n"
                                 "    depends_on: one\n"
                                 "    command: [a, b]\n"
                                 "    parameters: {x: {values: [1, 2]}, y: {values: [3, 4]}}\n"
                                 "    zip: [x, y]\n"
                                 "    hardware: {cpu: 0.5, memory: 8GB, disk: 1GiB, spot: true,"
                                 " gpu: {kind: V100, count: 4}, labels: [zone=a, fast]}\n"
                                 "    workers: 4\n    gang: 2\n"
                                 "    shell: bash\n"
                                 "    env: {B: '{{x}}', C: 5}\n"
                                 "    secrets: {KEY: key.txt, TOKEN: {file: /t}}\n"
                                 "    inherit_env: true\n"
                                 "    workdir: w/{{x}}\n"
                                 "    outputs: [model.bin, 'log-{{y}}']\n"
                                 "    allow_failure: true\n"
                                 "    retries: 3\n    backoff: 500ms\n    timeout: 2h\n"
                                 "    grace: 5\n    max_failures: 7\n    crash_limit: 0\n"
                                 "    checkpoint: true\n    log_limit: 1MB\n");
    assert_string_equal(recipe->name, "my run");
    assert_true(recipe->has_seed && recipe->seed == UINT64_MAX);
    assert_int_equal(recipe->priority, -100);
    assert_int_equal(recipe->webhook_count, 2);
    assert_string_equal(recipe->webhooks[0].url, "http://a.b/x?y=1");
    assert_int_equal(recipe->webhooks[0].on, 7);
    assert_null(recipe->webhooks[0].secret_file);
    assert_string_equal(recipe->webhooks[1].url, "https://[::1]:8/");
    assert_int_equal(recipe->webhooks[1].on, RECIPE_WEBHOOK_FAILED | RECIPE_WEBHOOK_CANCELLED);
    assert_string_equal(recipe->webhooks[1].secret_file, "key.txt");
    const struct experiment *one = &recipe->experiments[0];
    assert_true(one->is_exec);
    assert_int_equal(one->gang, 1);
    assert_int_equal(one->hardware.label_count, 0);
    assert_string_equal(one->image, "x/y:1");
    assert_int_equal(one->command_count, 3);
    assert_int_equal(one->env_count, 2);
    assert_int_equal(one->task_count, 1);
    assert_int_equal(one->hardware.cpu_milli, 1000);
    assert_int_equal(one->backoff_ms, 1000);
    assert_int_equal(one->grace_ms, 10000);
    assert_int_equal(one->crash_limit, 20);
    assert_int_equal(one->log_limit_bytes, 64 << 20);
    const struct experiment *two = &recipe->experiments[1];
    assert_int_equal(two->depends_count, 1);
    assert_int_equal(two->depends_on[0], 0);
    assert_int_equal(two->task_count, 2);
    assert_int_equal(two->hardware.cpu_milli, 500);
    assert_int_equal(two->hardware.memory_bytes, 8000000000);
    assert_int_equal(two->hardware.disk_bytes, 1 << 30);
    assert_int_equal(two->hardware.gpus, 4);
    assert_string_equal(two->hardware.gpu_kind, "v100");
    assert_true(two->hardware.spot);
    assert_int_equal(two->hardware.label_count, 2);
    assert_string_equal(two->hardware.labels[0], "zone=a");
    assert_string_equal(two->hardware.labels[1], "fast");
    assert_int_equal(two->gang, 2);
    assert_string_equal(two->shell, "bash");
    assert_int_equal(two->env_count, 3);
    assert_string_equal(two->env[0].name, "A");
    assert_string_equal(two->env[1].name, "B");
    assert_int_equal(two->secret_count, 2);
    assert_string_equal(two->secrets[1].file, "/t");
    assert_true(two->inherit_env && two->allow_failure && two->checkpoint);
    assert_non_null(two->workdir);
    assert_int_equal(two->output_count, 2);
    assert_int_equal(two->retries, 3);
    assert_int_equal(two->backoff_ms, 500);
    assert_int_equal(two->timeout_ms, 7200000);
    assert_int_equal(two->grace_ms, 5000);
    assert_int_equal(two->max_failures, 7);
    assert_int_equal(two->crash_limit, 0);
    assert_int_equal(two->log_limit_bytes, 1000000);
    recipe_destroy(recipe);
}

static void test_several_mistakes_are_told_in_one_go(void **state)
{
    (void)state;
    bad("seeds: 4\n"
        "experiments:\n"
        "  prepare:\n"
        "    parameters: {shard: {values: 0..99}, samples: 10, output: [1, 2]}\n"
        "    sampels: 4\n"
        "    retries: 1001\n"
        "  train:\n"
        "    depends_on: [prepre]\n"
        "    framework: pytorch\n"
        "    image: x\n"
        "    command: a\n"
        "    exec: [a]\n",
        "r.yaml:1:1: unknown key 'seeds' (did you mean 'seed'?)\n"
        "r.yaml:3:3: 'prepare' has no command:\n"
        "r.yaml:4:42: 'samples' is not a parameter; move it out of parameters:, one level up\n"
        "r.yaml:4:55: 'output' cannot be a parameter: {{output}} is built in\n"
        "r.yaml:5:5: unknown key 'sampels' (did you mean 'samples'?)\n"
        "r.yaml:6:14: retries must be a whole number from 0 to 1000, not '1001'\n"
        "r.yaml:8:18: no experiment 'prepre' (did you mean 'prepare'?)\n"
        "r.yaml:10:12: 'train' has both framework: and image:; keep one\n"
        "r.yaml:12:11: 'train' has both command: and exec:; keep one\n");
}

static void test_each_key_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    bad_line("workers: 0",
             "r.yaml:4:14: workers must be a whole number from 1 to 1000000, not '0'\n");
    bad_line("samples: 100000001",
             "r.yaml:4:14: samples must be a whole number from 1 to 100000000, not '100000001'\n");
    bad_line("allow_failure: yes", "r.yaml:4:20: allow_failure must be true or false, not 'yes'\n");
    bad_line("timeout: [1]",
             "r.yaml:4:14: timeout must be a time such as 30s, 5m, 2h or 1d, not a list\n");
    bad_line(
        "hardware: {gpu: 3090}",
        "r.yaml:4:21: gpu: 3090 asks for that many gpus; put quotes round it if it is a kind\n");
    bad_line("hardware: {gpu: 2, gpus: 2}", "r.yaml:4:30: gpu: says how many already; leave out "
                                            "one of gpu: and gpus:\n");
    bad_line("hardware: {gpu: k80, gpus: 0}",
             "r.yaml:4:32: a kind of gpu is asked for, but none of it\n");
    bad_line("hardware: {gpu: {kid: k80}}",
             "r.yaml:4:22: unknown key 'kid' (did you mean 'kind'?)\n");
    bad_line("hardware: {cpu: .nan}", "r.yaml:4:21: cpu must be a number of processors such as 4 "
                                      "or 0.5, from 0.001 to 100000\n");
    bad_line("labels: fast", "r.yaml:4:5: 'labels' belongs below hardware:\n");
    bad_line("hardware: {lables: fast}",
             "r.yaml:4:16: unknown key 'lables' (did you mean 'labels'?)\n");
    bad_line("hardware: {labels: {zone: a}}",
             "r.yaml:4:24: labels must be a word or a list of them, such as [fast, zone=a]\n");
    bad_line("hardware: {labels: [fast, a b]}",
             "r.yaml:4:31: a label is a word such as fast or zone=a, of at most 64 bytes, unlike "
             "'a b'\n");
    bad_line("hardware: {labels: ['']}", "r.yaml:4:25: a label must not be empty\n");
    bad_line("hardware: {labels: ['{{x}}']}",
             "r.yaml:4:25: a label is a word such as fast or zone=a, of at most 64 bytes, unlike "
             "'{{x}}'\n");
    bad_line("gang: 0", "r.yaml:4:11: gang must be a whole number from 1 to 10000, not '0'\n");
    bad_line("gnag: 2", "r.yaml:4:5: unknown key 'gnag' (did you mean 'gang'?)\n");
    bad_line("parameters: {x: 1..10}\n    gang: 4",
             "r.yaml:5:11: gang: 4 does not divide the 10 tasks of 'e'; make their number a "
             "multiple of it, such as 12\n");
    bad_line("samples: 9\n    gang: 8",
             "r.yaml:5:11: gang: 8 does not divide the 9 tasks of 'e'; make their number a "
             "multiple of it, such as 16\n");
    bad_line("samples: 16\n    workers: 7\n    gang: 8",
             "r.yaml:6:11: gang: 8 tasks start together, but workers: allows only 7\n");
    bad_line("priority: 4",
             "r.yaml:4:5: 'priority' belongs at the top of the recipe, beside experiments:\n");
    bad_line("webhook: http://a/",
             "r.yaml:4:5: 'webhook' belongs at the top of the recipe, beside experiments:\n");
    bad_line("gpu: k80", "r.yaml:4:5: 'gpu' belongs below hardware:\n");
    bad_line("seed: 4",
             "r.yaml:4:5: 'seed' belongs at the top of the recipe, beside experiments:\n");
    bad_line("shell: bash -e", "r.yaml:4:12: shell must be one program such as bash or /bin/zsh, "
                               "without arguments\n");
    bad_line("env: {DROVER_X: 1}", "r.yaml:4:11: 'DROVER_X': names in DROVER_ are drover's own\n");
    bad_line("env: {2x: 1}", "r.yaml:4:11: '2x' cannot be the name of an environment variable\n");
    bad_line("env: {X: }", "r.yaml:4:14: env: X must be text; write '' for an empty value\n");
    bad_line("secrets: {X: 'a/{{task}}'}",
             "r.yaml:4:18: {{...}} is not allowed in the path of a secret\n");
    bad_line("outputs: [a/../b]", "r.yaml:4:15: outputs are relative to the task's output folder "
                                  "and stay in it, unlike 'a/../b'\n");
    bad_line("outputs: /a",
             "r.yaml:4:14: outputs are relative to the task's output folder and stay "
             "in it, unlike '/a'\n");
    bad_line("outputs: ['']", "r.yaml:4:15: outputs are relative to the task's output folder and "
                              "stay in it, unlike ''\n");
    bad_line("depends_on: e", "r.yaml:4:17: experiments wait for each other: e -> e\n");
    bad_line("depends_on: []\n    env: {A: a}\n    secrets: {A: b}",
             "r.yaml:6:15: 'A' is in env: too; keep one of the two\n");
    bad_line("parameters: {x: {values: 0..9999}, y: {values: 0..99999}}",
             "r.yaml:4:5: the grid has 1000000000 combinations; set samples: to draw some of "
             "them\n");
    bad_line("parameters: {lr: {range: 0.1-0.3}}",
             "r.yaml:4:18: 'lr' is continuous, so say how many tasks to draw: add samples: to "
             "'e'\n");
}

/* A recipe that is fine but for this line at its top. */
static void bad_top(const char *line, const char *expected)
{
    struct str text = {0};
    str_addf(&text, "%s\nexperiments: {e: {command: 'true'}}\n", line);
    bad(str_text(&text), expected);
    str_release(&text);
}

static void test_each_key_at_the_top_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    bad_top("priority: 101", "r.yaml:1:11: priority must be a whole number from -100 to 100\n");
    bad_top("priority: high", "r.yaml:1:11: priority must be a whole number from -100 to 100\n");
    bad_top("priorty: 1", "r.yaml:1:1: unknown key 'priorty' (did you mean 'priority'?)\n");
    bad_top("webhooks: x", "r.yaml:1:1: unknown key 'webhooks' (did you mean 'webhook'?)\n");
    bad_top("webhook: ftp://a/",
            "r.yaml:1:10: the url of a webhook must begin with http:// or https://\n");
    bad_top("webhook: 'http://'", "r.yaml:1:10: the url of a webhook has no host\n");
    bad_top("webhook: http://:80/", "r.yaml:1:10: the url of a webhook has no host\n");
    bad_top("webhook: http://u:p@h/",
            "r.yaml:1:10: the url of a webhook must not hold a user's name or password\n");
    bad_top("webhook: \"http://h/\\r\\nX: y\"",
            "r.yaml:1:10: the url of a webhook must be printable ASCII without spaces\n");
    bad_top("webhook:", "r.yaml:1:9: the url of a webhook must be text, not nothing\n");
    bad_top("webhook: {on: failed}", "r.yaml:1:10: a webhook needs a url:\n");
    bad_top("webhook: {url: 'http://h/', no: failed}",
            "r.yaml:1:29: unknown key 'no' (did you mean 'on'?)\n");
    bad_top("webhook: {url: 'http://h/', on: []}",
            "r.yaml:1:33: on names no state; it is succeeded, failed or cancelled, or a list of "
            "them\n");
    bad_top("webhook: {url: 'http://h/', on: [succeded]}",
            "r.yaml:1:34: on must be succeeded, failed or cancelled, not 'succeded' (did you mean "
            "'succeeded'?)\n");
    bad_top("webhook: {url: 'http://h/', secret: '{{x}}'}",
            "r.yaml:1:37: {{...}} is not allowed in the path of a secret\n");
    bad_top("webhook: [http://1/, http://2/, http://3/, http://4/, http://5/, http://6/, http://7/,"
            " http://8/, http://9/, http://10/, http://11/, http://12/, http://13/, http://14/,"
            " http://15/, http://16/, http://17/]",
            "r.yaml:1:10: more than 16 webhooks\n");
}

static void test_the_recipe_as_a_whole_is_checked(void **state)
{
    (void)state;
    bad("", "r.yaml:1:1: this is empty\n");
    bad("[a]", "r.yaml:1:1: a recipe is a mapping that begins with experiments:\n");
    bad("seed: -1\nname: a/b\n",
        "r.yaml:1:1: experiments must be a mapping with at least one named experiment\n"
        "r.yaml:1:7: seed must be a whole number from 0 to 18446744073709551615\n"
        "r.yaml:2:7: name must be at most 64 bytes on one line, without /\n");
    bad("command: x\nexperiments: {}\n",
        "r.yaml:1:1: 'command' belongs in an experiment, below experiments: NAME:\n"
        "r.yaml:2:14: experiments must be a mapping with at least one named experiment\n");
    bad("experiments:\n  a b: {command: x}\n  c: x\n",
        "r.yaml:2:3: an experiment's name is at most 64 letters, digits, _ and -, unlike 'a b'\n"
        "r.yaml:3:3: 'c' must be a mapping with a command:\n");
    bad("experiments: {e: {command: []}}", "r.yaml:1:28: command must not be empty\n");
    bad("experiments: {e: {command: ''}}", "r.yaml:1:28: command must not be empty\n");
    bad("experiments:\n  e:\n    command:\n      - echo a: b\n",
        "r.yaml:4:9: command must be text, not a mapping; put text that holds ': ' in quotes\n");
    bad("experiments: {e: {exec: ls -l}}",
        "r.yaml:1:25: exec must be a list [program, argument, ...]; a shell line goes into "
        "command:\n");
    bad("experiments: {e: {exec: ['']}}", "r.yaml:1:26: exec: the program is missing\n");
    bad("experiments: {e: {exec: [a], shell: sh}}",
        "r.yaml:1:37: shell: has no use with exec:, which runs without one\n");
}

static void test_a_cycle_is_named(void **state)
{
    (void)state;
    bad("experiments:\n"
        "  z: {command: x, depends_on: a}\n"
        "  c: {command: x, depends_on: b}\n"
        "  a: {command: x, depends_on: [c]}\n"
        "  b: {command: x, depends_on: a}\n",
        "r.yaml:3:31: experiments wait for each other: c -> b -> a -> c\n");
}

static void test_outputs_of_others_need_a_dependency(void **state)
{
    (void)state;
    struct recipe *recipe = good("experiments:\n"
                                 "  c: {command: 'x {{a.output}} {{b.output}}', depends_on: b}\n"
                                 "  b: {command: x, depends_on: [a, a]}\n"
                                 "  a: {command: x}\n");
    assert_int_equal(recipe->experiments[0].output_ref_count, 2);
    assert_int_equal(recipe->experiments[1].depends_count, 1);
    const uint32_t expected[] = {2, 1, 0};
    assert_memory_equal(recipe_order(recipe), expected, sizeof expected);
    recipe_destroy(recipe);
    bad("experiments:\n"
        "  a: {command: 'x {{b.output}} {{a.output}}'}\n"
        "  b: {command: x}\n",
        "r.yaml:2:16: {{b.output}} needs 'b' to be done first; add it to depends_on: of 'a'\n"
        "r.yaml:2:16: 'a' cannot read its own outputs; {{output}} is this task's folder\n");
    bad("experiments:\n  a: {command: 'x {{checkpoint}}'}\n",
        "r.yaml:2:16: {{checkpoint}} needs checkpoint: true in 'a'\n");
}

static void test_unknown_placeholders_get_a_suggestion(void **state)
{
    (void)state;
    struct str out = {0};
    assert_null(fixture_parse("experiments:\n"
                              "  prepare: {command: x}\n"
                              "  a:\n"
                              "    parameters: {batch: [1]}\n"
                              "    command: x {{bacth}} {{prepair.output}} {{zebra}}\n",
                              NULL, 0, &out));
    assert_non_null(strstr(str_text(&out), "r.yaml:5:1"));
    assert_non_null(strstr(str_text(&out), "'batch'"));
    assert_non_null(strstr(str_text(&out), "prepare.output"));
    assert_non_null(strstr(str_text(&out), "{{zebra}}"));
    str_release(&out);
}

static void test_mistakes_in_a_command_are_shown_where_they_stand(void **state)
{
    (void)state;
    bad("experiments:\n"
        "  a:\n"
        "    command: |\n"
        "\n"
        "      echo one\n"
        "      echo {{zzzz}}\n"
        "  b:\n"
        "    command: \"echo {{zzzz}}\"\n"
        "  c:\n"
        "    command: echo {{zzzz}}\n",
        "r.yaml:6:12: {{zzzz}}: no such name (a literal {{ is written {{{{)\n"
        "r.yaml:8:20: {{zzzz}}: no such name (a literal {{ is written {{{{)\n"
        "r.yaml:10:19: {{zzzz}}: no such name (a literal {{ is written {{{{)\n");
}

static void test_set_changes_keys_and_fixes_parameters(void **state)
{
    (void)state;
    static const char text[] = "experiments:\n"
                               "  a: {command: 'x {{lr}}', samples: 5, parameters: {lr: {range: "
                               "0.1-0.3}, n: [1, 2]}}\n"
                               "  b: {command: 'y {{lr}}', parameters: {lr: {values: [7, 8]}}}\n";
    const char *const sets[] = {"seed=9", "a.samples=3", "lr=0.5", "a.n=[4, 5, 6]",
                                "experiments.b.env.X=hello world"};
    struct recipe *recipe = good_with(text, sets, sizeof sets / sizeof sets[0]);
    assert_int_equal(recipe->seed, 9);
    assert_int_equal(recipe->experiments[0].task_count, 3);
    assert_int_equal(recipe->experiments[1].task_count, 1);
    assert_int_equal(recipe->experiments[1].env_count, 1);
    assert_non_null(strstr(recipe->flat, "experiments.a.parameters.lr.values[0]: 0.5\n"));
    assert_non_null(strstr(recipe->flat, "experiments.a.parameters.n.values[2]: 6\n"));
    assert_non_null(strstr(recipe->flat, "experiments.b.parameters.lr.values[0]: 0.5\n"));
    assert_non_null(strstr(recipe->flat, "experiments.b.env.X: hello world\n"));
    recipe_destroy(recipe);
    bad_with(text, "lrr=5",
             "r.yaml: --set: lrr: no parameter, experiment or key is called 'lrr' (did you mean "
             "'lr'?)\n");
    bad_with(text, "a.samples=many",
             "r.yaml: --set: samples must be a whole number from 1 to "
             "100000000, not 'many'\n");
    bad_with(text, "a.sampels=3",
             "r.yaml: --set: unknown key 'sampels' (did you mean 'samples'?)\n");
    bad_with(text, "samples", "r.yaml: --set: 'samples' is not of the form PATH=VALUE\n");
    bad_with(text, "a.n={", "r.yaml: --set: a.n: a value is missing here\n");
}

static void test_identity_is_the_meaning_of_the_recipe(void **state)
{
    (void)state;
    struct recipe *a = good("experiments: {e: {samples: 3, command: x}} # one\n");
    struct recipe *b = good("experiments:\n  e:\n    command: \"x\"\n    samples: 3\n");
    struct recipe *c = good("experiments:\n  e:\n    command: \"x\"\n    samples: 4\n");
    assert_string_equal(a->flat, b->flat);
    struct str out = {0};
    yaml_difference(a->flat, c->flat, &out);
    assert_string_equal(str_text(&out), "- experiments.e.samples: 3\n+ experiments.e.samples: 4\n");
    str_release(&out);
    recipe_destroy(a);
    recipe_destroy(b);
    recipe_destroy(c);
    recipe_destroy(NULL);
}

static void expect_quick_refusal(struct str *text, const char *needle)
{
    struct str out = {0};
    clock_t start = clock();
    assert_null(fixture_parse(str_text(text), NULL, 0, &out));
    assert_true(clock() - start < 8 * CLOCKS_PER_SEC);
    if (!strstr(str_text(&out), needle)) {
        fail_msg("'%s' is not in '%.300s'", needle, str_text(&out));
    }
    str_release(&out);
    str_release(text);
}

static void test_hostile_recipes_are_refused_in_time(void **state)
{
    (void)state;
    struct str text = {0};
    str_add(&text, "experiments:\n");
    for (int i = 0; i < 2000; i++) {
        str_addf(&text, "  e%d: {command: x}\n", i);
    }
    expect_quick_refusal(&text, "more than 1000 experiments");
    str_add(&text, "experiments:\n  e:\n    command: x\n");
    for (int i = 0; i < 200000; i++) {
        str_addf(&text, "    samplez%d: 1\n", i);
    }
    expect_quick_refusal(&text, "... and 199950 more");
    str_add(&text, "experiments:\n  e:\n    exec: [x");
    for (int i = 0; i < 200000; i++) {
        str_add(&text, ", '{{unknown}} {{e.output}}'");
    }
    str_add(&text, "]\n");
    expect_quick_refusal(&text, "unknown");
    str_add(&text, "env: {");
    for (int i = 0; i < 900; i++) {
        str_addf(&text, "V%d: '%0200d', ", i, i);
    }
    str_add(&text, "}\nexperiments:\n");
    for (int i = 0; i < 900; i++) {
        str_addf(&text, "  e%d: {command: x}\n", i);
    }
    expect_quick_refusal(&text, "env is too large to be shared by 900 experiments");
    str_add(&text, "experiments:\n");
    for (int i = 0; i < 500; i++) {
        str_addf(&text, "  e%d: {command: 'x {{nope}}', depends_on: [", i);
        for (int j = 0; j < i; j++) {
            str_addf(&text, "e%d,", j);
        }
        str_add(&text, "]}\n");
    }
    expect_quick_refusal(&text, "{{nope}}");
    str_add(&text, "experiments: {e: {command: '");
    str_add_repeat(&text, "x", 200000);
    str_add(&text, "'}}\n");
    expect_quick_refusal(&text, "command is longer than 128 KiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_1_is_accepted_as_printed),
        cmocka_unit_test(test_every_key_is_read),
        cmocka_unit_test(test_several_mistakes_are_told_in_one_go),
        cmocka_unit_test(test_each_key_refuses_what_makes_no_sense),
        cmocka_unit_test(test_each_key_at_the_top_refuses_what_makes_no_sense),
        cmocka_unit_test(test_the_recipe_as_a_whole_is_checked),
        cmocka_unit_test(test_a_cycle_is_named),
        cmocka_unit_test(test_outputs_of_others_need_a_dependency),
        cmocka_unit_test(test_unknown_placeholders_get_a_suggestion),
        cmocka_unit_test(test_mistakes_in_a_command_are_shown_where_they_stand),
        cmocka_unit_test(test_set_changes_keys_and_fixes_parameters),
        cmocka_unit_test(test_identity_is_the_meaning_of_the_recipe),
        cmocka_unit_test(test_hostile_recipes_are_refused_in_time),
    };
    return cmocka_run_group_tests_name("recipe", tests, NULL, NULL);
}
