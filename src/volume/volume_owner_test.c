/* Who is known to be gone, so that a volume is taken without being told to. */
#include "base/io.h"
#include "volume/volume_internal.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct object_shelf *shelf;
static char locks[64];
static char host[VOLUME_WORD_MAX];

static int set_up(void **state)
{
    (void)state;
    struct volume_format format = {.pack_bytes = PACK_BYTES_MIN};
    struct engine_caller caller = {.now_ns = 1};
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    shelf = object_shelf_create();
    struct object_store *store = object_memory_open(shelf);
    assert_int_equal(volume_format_write(store, &format, &caller, NULL), ERR_OK);
    object_close(store);
    snprintf(locks, sizeof locks, "/tmp/volume_owner_test.XXXXXX");
    return mkdtemp(locks) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    object_shelf_destroy(shelf);
    return io_remove_tree(locks, NULL) == ERR_OK ? 0 : -1;
}

static enum err_code open_with(const char *folder, struct volume **out)
{
    struct volume_options options = {.role = VOLUME_OWNER, .owner = "test", .locks = folder};
    struct object_store *store = object_memory_open(shelf);
    enum err_code code = volume_open(store, &options, out, NULL);
    if (code != ERR_OK) {
        object_close(store);
    }
    return code;
}

/* As if the owner that head names were of another boot of a machine of that name. */
static void move_owner(const char *to_host, const char *boot)
{
    struct object_store *store = object_memory_open(shelf);
    AUTO_STR struct str bytes = {0};
    struct volume_head head = {0};
    assert_int_equal(object_get(store, "head", &bytes, NULL, NULL), ERR_OK);
    assert_int_equal(volume_head_decode(str_text(&bytes), bytes.size, &head, NULL), ERR_OK);
    snprintf(head.owner.host, sizeof head.owner.host, "%s", to_host);
    snprintf(head.owner.boot, sizeof head.owner.boot, "%s", boot);
    str_clear(&bytes);
    volume_head_encode(&head, &bytes);
    assert_int_equal(object_put(store, "head", bytes.text, bytes.size, NULL), ERR_OK);
    volume_head_release(&head);
    object_close(store);
}

static size_t lock_count(void)
{
    size_t count = 0;
    DIR *list = opendir(locks);
    assert_non_null(list);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        count += entry->d_name[0] != '.';
    }
    closedir(list);
    return count;
}

static void test_an_owner_that_a_reboot_ended_is_succeeded(void **state)
{
    (void)state;
    struct volume *first = NULL;
    struct volume *second = NULL;
    assert_int_equal(open_with(locks, &first), ERR_OK);
    move_owner(host, "another");
    assert_int_equal(open_with(locks, &second), ERR_DENIED); /* it lives */
    volume_abandon(first);
    assert_int_equal(open_with(NULL, &second), ERR_DENIED);
    assert_int_equal(open_with("/tmp/volume_owner_test.none", &second), ERR_DENIED);
    assert_int_equal(rmdir("/tmp/volume_owner_test.none"), -1); /* nothing was made to look there */
    move_owner("elsewhere", "another");
    assert_int_equal(open_with(locks, &second), ERR_DENIED);
    move_owner(host, "another");
    assert_int_equal(lock_count(), 1);
    assert_int_equal(open_with(locks, &second), ERR_OK);
    assert_int_equal(lock_count(), 1);
    assert_int_equal(volume_close(second, NULL), ERR_OK);
    assert_int_equal(lock_count(), 0);
}

/* As a machine that was cloned would find it. */
static void test_a_copy_of_a_lock_proves_nothing(void **state)
{
    (void)state;
    struct volume *first = NULL;
    struct volume *second = NULL;
    assert_int_equal(open_with(locks, &first), ERR_OK);
    move_owner(host, "another");
    char command[256];
    snprintf(command, sizeof command, "cd %s && for f in *; do cp \"$f\" c && mv c \"$f\"; done",
             locks);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a shell is the plainest here
    assert_int_equal(open_with(locks, &second), ERR_DENIED);
    volume_abandon(first);
}

static void test_a_folder_that_cannot_be_costs_only_the_certainty(void **state)
{
    (void)state;
    struct volume *volume = NULL;
    assert_int_equal(open_with("/dev/null/locks", &volume), ERR_OK);
    volume_abandon(volume);
    assert_int_equal(open_with("/dev/null/locks", &volume), ERR_DENIED); /* this process lives */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_owner_that_a_reboot_ended_is_succeeded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_copy_of_a_lock_proves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_that_cannot_be_costs_only_the_certainty,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
