/* The program under test starts itself: called as "drover node ...", this test is a node. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "provider/conformance.h"
#include "provider/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

static char root[64];

static void add_path(struct str *out, const char *name)
{
    str_addf(out, "%s/nodes/%s", root, name);
}

static struct provider *create_local(void)
{
    AUTO_STR struct str folder = {0};
    struct provider *provider = NULL;
    str_addf(&folder, "%s/nodes", root);
    struct provider_local_options options = {.folder = str_text(&folder)};
    assert_int_equal(provider_local_create(&options, &provider, NULL), ERR_OK);
    return provider;
}

static void crash_local(struct provider *provider, const char *name)
{
    AUTO_STR struct str file = {0};
    (void)provider;
    add_path(&file, name);
    str_add(&file, ".pid");
    assert_int_equal(daemon_signal(str_text(&file), SIGKILL, NULL), ERR_OK);
}

static void wait_for_text(const char *file, struct str *out)
{
    int64_t until_ms = clock_mono_ms() + 5000;
    while (clock_mono_ms() < until_ms) {
        str_clear(out);
        if (io_read_file(file, 1 << 20, out, NULL) == ERR_OK && strstr(str_text(out), "ready")) {
            return;
        }
        usleep(5000);
    }
    fail_msg("%s: %s", file, str_text(out));
}

static void settle_local(const char *name)
{
    AUTO_STR struct str log = {0};
    AUTO_STR struct str text = {0};
    add_path(&log, name);
    str_add(&log, ".log");
    wait_for_text(str_text(&log), &text);
}

static void settle_fake(const char *name)
{
    (void)name;
}

static void test_local_nodes_start_are_listed_and_stop(void **state)
{
    (void)state;
    static const struct conformance_driver driver = {create_local, settle_local, crash_local};
    conformance_run(&driver);
}

static void test_the_fake_does_the_same(void **state)
{
    (void)state;
    static const struct conformance_driver driver = {provider_fake_create, settle_fake,
                                                     provider_fake_crash};
    conformance_run(&driver);
}

static void stop_all(struct provider *provider, const char *name)
{
    const char *const names[] = {name};
    assert_int_equal(provider_stop_all(provider, names, 1, 2000, NULL), ERR_OK);
}

/* The node writes down how it was started. */
static void test_a_node_gets_its_arguments_a_log_and_nothing_of_ours(void **state)
{
    (void)state;
    struct provider *provider = create_local();
    setenv("DROVER_TOKEN", "a secret", 1);
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec */
    struct provider_spec spec = {.name = "tell-1",
                                 .join_file = "/x/join.url",
                                 .slots = 3,
                                 .labels = {"zone=a"},
                                 .label_count = 1,
                                 .price = "1.5"};
    assert_int_equal(provider_start(provider, &spec, NULL), ERR_OK);
    close(leak);
    unsetenv("DROVER_TOKEN");
    AUTO_STR struct str log = {0};
    AUTO_STR struct str text = {0};
    AUTO_STR struct str expected = {0};
    add_path(&log, "tell-1.log");
    wait_for_text(str_text(&log), &text);
    str_addf(&expected,
             "drover node --join @/x/join.url --name tell-1 --work %s/nodes/tell-1 --slots 3 "
             "--price 1.5 --label zone=a \ntoken no\nleader yes\ndescriptors 3\nready\n",
             root);
    assert_string_equal(str_text(&text), str_text(&expected));
    struct stat st;
    assert_int_equal(stat(str_text(&log), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    stop_all(provider, "tell-1");
    provider_destroy(provider);
}

static void test_another_provider_of_the_folder_finds_the_nodes(void **state)
{
    (void)state;
    struct provider *provider = create_local();
    struct provider_spec spec = {.name = "kept-1", .join_file = "/x"};
    assert_int_equal(provider_start(provider, &spec, NULL), ERR_OK);
    provider_destroy(provider);
    provider = create_local();
    struct provider_list list = {0};
    assert_int_equal(provider_list(provider, &list, NULL), ERR_OK);
    assert_int_equal(list.count, 1);
    assert_true(list.nodes[0].alive);
    provider_list_release(&list);
    stop_all(provider, "kept-1");
    provider_destroy(provider);
}

static void test_a_number_that_belongs_to_someone_else_is_left_alone(void **state)
{
    (void)state;
    AUTO_STR struct str file = {0};
    char text[128];
    pid_t pid = 0;
    add_path(&file, "other.pid");
    static const char *const files[] = {
        "", "hello", "-1 5 x", "0 0 0", "1 1 1", "99999999999999999999 1 2", NULL};
    snprintf(text, sizeof text, "%ld 1 00000000-0000-0000-0000-000000000000\n", (long)getpid());
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *content = files[i] ? files[i] : text;
        assert_int_equal(io_replace_file(str_text(&file), content, strlen(content), 0600, NULL),
                         ERR_OK);
        assert_false(daemon_is_alive(str_text(&file), &pid));
        assert_int_equal(daemon_signal(str_text(&file), SIGKILL, NULL), ERR_NOT_FOUND);
    }
    unlink(str_text(&file));
}

static void test_what_cannot_start_leaves_no_process(void **state)
{
    (void)state;
    struct err err = {0};
    pid_t pid = 0;
    char drover[] = "drover";
    char node[] = "node";
    char *argv[] = {drover, node, NULL};
    AUTO_STR struct str log = {0};
    add_path(&log, "x.log");
    struct daemon_options options = {.argv = argv,
                                     .pid_file = "/nonexistent/folder/x.pid",
                                     .log_file = str_text(&log),
                                     .folder = "/"};
    assert_int_not_equal(daemon_start(&options, &pid, &err), ERR_OK);
    assert_true(kill(pid, 0) != 0 && errno == ESRCH);
    options.log_file = "/nonexistent/folder/x.log";
    assert_int_not_equal(daemon_start(&options, &pid, &err), ERR_OK);
}

/* --- being a node --------------------------------------------------------------------------- */

static volatile sig_atomic_t asked;

static void on_term(int number)
{
    (void)number;
    asked = 1;
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) {
        return -1;
    }
    for (struct dirent *entry = NULL; (entry = readdir(folder));) {
        count += entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != dirfd(folder);
    }
    closedir(folder);
    return count;
}

static int be_node(int argc, char **argv)
{
    bool deaf = false;
    struct sigaction action = {.sa_handler = on_term};
    for (int i = 0; i < argc; i++) {
        deaf = deaf || strncmp(argv[i], "deaf", 4) == 0;
        printf("%s ", argv[i]);
    }
    action.sa_handler = deaf ? SIG_IGN : on_term;
    sigaction(SIGTERM, &action, NULL);
    printf("\ntoken %s\n", getenv("DROVER_TOKEN") ? "yes" : "no");
    printf("leader %s\n", getsid(0) == getpid() ? "yes" : "no");
    printf("descriptors %d\nready\n", count_descriptors());
    fflush(stdout);
    alarm(60); /* whatever goes wrong, nothing stays behind */
    while (!asked) {
        usleep(5000);
    }
    return 0;
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/drover-provider.XXXXXX");
    AUTO_STR struct str folder = {0};
    bool made = mkdtemp(root) != NULL;
    str_addf(&folder, "%s/nodes", root);
    return made && io_make_dirs(str_text(&folder), NULL) == ERR_OK ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    return io_remove_tree(root, NULL) == ERR_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "node") == 0) {
        return be_node(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_nodes_start_are_listed_and_stop),
        cmocka_unit_test(test_the_fake_does_the_same),
        cmocka_unit_test(test_a_node_gets_its_arguments_a_log_and_nothing_of_ours),
        cmocka_unit_test(test_another_provider_of_the_folder_finds_the_nodes),
        cmocka_unit_test(test_a_number_that_belongs_to_someone_else_is_left_alone),
        cmocka_unit_test(test_what_cannot_start_leaves_no_process),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
