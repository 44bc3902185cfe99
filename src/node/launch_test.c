#include "base/io.h"
#include "base/mem.h"
#include "node/launch.h"
#include "node/reaper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKEN_OUTPUT WIRE_TOKEN_OUTPUT WIRE_TOKEN_BYTE
#define TOKEN_CHECKPOINT WIRE_TOKEN_CHECKPOINT WIRE_TOKEN_BYTE

static const struct launch_place place = {
    .serial = 9, .output = "/work/out", .log = "/work/log", .checkpoint = "/work/check"};

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static void run_init(Drover__Run *run, ProtobufCBinaryData *argv, const char *program)
{
    drover__run__init(run);
    argv[0] = bytes_of(program);
    run->n_argv = 1;
    run->argv = argv;
    run->workdir = bytes_of("/tmp");
}

/* String number `index` of the packet. */
static const char *string_at(const struct launcher *launcher, size_t index)
{
    const char *at = launcher->packet.text + sizeof(struct reaper_run);
    while (index-- > 0) {
        at += strlen(at) + 1;
    }
    return at;
}

static void assert_expands(const char *from, const char *to)
{
    AUTO_STR struct str out = {0};
    struct err err = {0};
    ProtobufCBinaryData bytes = bytes_of(from);
    assert_int_equal(launch_expand(&out, &bytes, &place, &err), ERR_OK);
    assert_string_equal(str_text(&out), to);
}

static void test_tokens_become_folders_and_the_rest_stays(void **state)
{
    (void)state;
    assert_expands("", "");
    assert_expands("plain", "plain");
    assert_expands(TOKEN_OUTPUT, "/work/out");
    assert_expands("--a=" TOKEN_OUTPUT "/m" TOKEN_CHECKPOINT, "--a=/work/out/m/work/check");
    assert_expands("\001OUTPUT", "\001OUTPUT");
    assert_expands("\001\001OUTPUT\001", "\001/work/out");
    assert_expands("\001", "\001");
    AUTO_STR struct str out = {0};
    struct launch_place with_nonce = place;
    with_nonce.nonce = "5eed";
    ProtobufCBinaryData bytes = bytes_of("\001OUTPUT5eed\001 " TOKEN_OUTPUT " \001OUTPUT5eee\001");
    assert_int_equal(launch_expand(&out, &bytes, &with_nonce, NULL), ERR_OK);
    assert_string_equal(str_text(&out), "/work/out " TOKEN_OUTPUT " \001OUTPUT5eee\001");
}

static void test_tokens_of_volumes_hold_their_names(void **state)
{
    (void)state;
    static const struct launch_volume volumes[] = {{"a", "/v/1"}, {"ab", "/v/2"}};
    AUTO_STR struct str out = {0};
    struct launch_place with = place;
    with.nonce = "5eed";
    with.volumes = volumes;
    with.volume_count = 2;
    ProtobufCBinaryData bytes = bytes_of("\001VOLUME.a5eed\001 \001VOLUME.ab5eed\001/x "
                                         "\001VOLUME.b5eed\001 \001VOLUME.");
    assert_int_equal(launch_expand(&out, &bytes, &with, NULL), ERR_OK);
    assert_string_equal(str_text(&out), "/v/1 /v/2/x \001VOLUME.b5eed\001 \001VOLUME.");
}

static void test_what_cannot_be_expanded_is_refused(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    struct err err = {0};
    ProtobufCBinaryData nul = {.data = (uint8_t *)(uintptr_t) "a\0b", .len = 3};
    assert_int_equal(launch_expand(&out, &nul, &place, &err), ERR_INVALID);
    struct launch_place without = place;
    without.checkpoint = NULL;
    ProtobufCBinaryData token = bytes_of(TOKEN_CHECKPOINT);
    assert_int_equal(launch_expand(&out, &token, &without, &err), ERR_INVALID);
}

static void test_a_program_is_looked_up_in_the_tasks_own_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/drover-launch-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    AUTO_STR struct str bin = {0};
    AUTO_STR struct str program = {0};
    AUTO_STR struct str variable = {0};
    str_addf(&bin, "%s/bin", folder);
    str_addf(&program, "%s/bin/tool", folder);
    str_addf(&variable, "PATH=/nowhere:%s/bin", folder);
    assert_int_equal(io_make_dirs(str_text(&bin), NULL), ERR_OK);
    assert_int_equal(io_replace_file(str_text(&program), "", 0, 0755, NULL), ERR_OK);

    struct launcher launcher = {0};
    struct err err = {0};
    Drover__Run run;
    ProtobufCBinaryData argv[1];
    ProtobufCBinaryData env[1] = {bytes_of(str_text(&variable))};
    run_init(&run, argv, "tool");
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_NOT_FOUND);
    run.n_env = 1;
    run.env = env;
    for (int round = 0; round < 2; round++) { /* found, then remembered */
        assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_OK);
        assert_string_equal(string_at(&launcher, 0), str_text(&program));
        assert_string_equal(string_at(&launcher, 1), "/tmp");
        assert_string_equal(string_at(&launcher, 2), "/work/log");
        assert_string_equal(string_at(&launcher, 3), "tool");
    }
    assert_int_equal(chmod(str_text(&program), 0644), 0); /* no program any more */
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_NOT_FOUND);
    assert_int_equal(chmod(str_text(&program), 0755), 0);

    env[0] = bytes_of("PATH=bin"); /* below the folder it starts in */
    run.workdir = bytes_of(folder);
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_OK);
    assert_string_equal(string_at(&launcher, 0), str_text(&program));
    run.workdir = bytes_of("/tmp");
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_NOT_FOUND);
    launch_release(&launcher);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

static void test_a_folder_must_be_absolute(void **state)
{
    (void)state;
    struct launcher launcher = {0};
    struct err err = {0};
    Drover__Run run;
    ProtobufCBinaryData argv[1];
    run_init(&run, argv, "/bin/true");
    run.workdir = bytes_of("relative");
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_INVALID);
    run.workdir = bytes_of("");
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_INVALID);
    run.workdir = bytes_of(TOKEN_OUTPUT);
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_OK);
    assert_string_equal(string_at(&launcher, 1), "/work/out");
    launch_release(&launcher);
}

static void test_an_error_about_a_variable_does_not_show_its_value(void **state)
{
    (void)state;
    struct launcher launcher = {0};
    struct err err = {0};
    Drover__Run run;
    ProtobufCBinaryData argv[1];
    ProtobufCBinaryData env[1] = {bytes_of("no assignment s3cret")};
    run_init(&run, argv, "/bin/true");
    run.n_env = 1;
    run.env = env;
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_INVALID);
    assert_null(strstr(err.text, "s3cret"));
    env[0] = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "A=s3cret\0", .len = 9};
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_INVALID);
    assert_null(strstr(err.text, "s3cret"));
    launch_release(&launcher);
}

static void test_secrets_are_bounded_files_and_wiped_after(void **state)
{
    (void)state;
    char file[] = "/tmp/drover-launch-test-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    struct launcher launcher = {0};
    struct err err = {0};
    Drover__Run run;
    ProtobufCBinaryData argv[1];
    char name[] = "TOKEN";
    Drover__Secret secret = DROVER__SECRET__INIT;
    Drover__Secret *secrets[] = {&secret};
    run_init(&run, argv, "/bin/true");
    run.n_secrets = 1;
    run.secrets = secrets;
    secret.name = name;
    secret.file = bytes_of(file);

    assert_int_equal(io_replace_file(file, "s3cret\n\n", 8, 0600, NULL), ERR_OK);
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_OK);
    const char *found = memmem(launcher.packet.text, launcher.packet.size, "TOKEN=s3cret\n\0", 14);
    assert_non_null(found);
    launch_forget(&launcher, &run);
    assert_null(memmem(launcher.packet.text, launcher.packet.cap, "s3cret", 6));
    assert_null(memmem(launcher.strings.text, launcher.strings.cap, "s3cret", 6));

    AUTO_STR struct str large = {0};
    str_add_repeat(&large, "x", LAUNCH_SECRET_BYTES_MAX + 1);
    assert_int_equal(io_replace_file(file, large.text, large.size, 0600, NULL), ERR_OK);
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_QUOTA);
    assert_int_equal(io_replace_file(file, "a\0b", 3, 0600, NULL), ERR_OK);
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_INVALID);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(mkfifo(file, 0600), 0); /* nobody writes: must not block */
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_INVALID);
    assert_int_equal(unlink(file), 0);
    launch_release(&launcher);
}

static void test_an_enormous_command_is_refused_early(void **state)
{
    (void)state;
    struct launcher launcher = {0};
    struct err err = {0};
    Drover__Run run;
    ProtobufCBinaryData argv[1];
    run_init(&run, argv, "/bin/true");
    AUTO_STR struct str tokens = {0};
    str_add_repeat(&tokens, TOKEN_OUTPUT, 200000);
    ProtobufCBinaryData env[1] = {bytes_of(str_text(&tokens))};
    run.n_env = 1;
    run.env = env;
    assert_int_equal(launch_build(&launcher, &run, &place, &err), ERR_QUOTA);
    assert_true(launcher.strings.size < 2 << 20);
    launch_release(&launcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_become_folders_and_the_rest_stays),
        cmocka_unit_test(test_tokens_of_volumes_hold_their_names),
        cmocka_unit_test(test_what_cannot_be_expanded_is_refused),
        cmocka_unit_test(test_a_program_is_looked_up_in_the_tasks_own_path),
        cmocka_unit_test(test_a_folder_must_be_absolute),
        cmocka_unit_test(test_an_error_about_a_variable_does_not_show_its_value),
        cmocka_unit_test(test_secrets_are_bounded_files_and_wiped_after),
        cmocka_unit_test(test_an_enormous_command_is_refused_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
