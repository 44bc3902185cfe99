#include "base/io.h"
#include "base/rng.h"
#include "wire/door.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/door-test-XXXXXX";
static char keys_file[64];

static int make_folder(void **state)
{
    (void)state;
    memcpy(folder, "/tmp/door-test-XXXXXX", sizeof folder);
    if (!mkdtemp(folder)) {
        return -1;
    }
    snprintf(keys_file, sizeof keys_file, "%s/keys", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static void write_file(const void *bytes, size_t size, mode_t mode)
{
    FILE *file = fopen(keys_file, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(keys_file, mode), 0);
}

static void keys_are_made_once_and_read_after(void **state)
{
    (void)state;
    struct err err = {0};
    struct door_keys first;
    struct door_keys second;
    umask(0);
    assert_int_equal(door_keys_load(keys_file, &first, &err), ERR_OK);
    umask(022);
    struct stat facts;
    assert_int_equal(stat(keys_file, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_int_equal(facts.st_nlink, 1);
    assert_int_equal(door_keys_load(keys_file, &second, &err), ERR_OK);
    assert_memory_equal(&first, &second, sizeof first);
    assert_string_not_equal(first.public_key, first.secret_key);
    door_keys_wipe(&first);
    assert_int_equal(first.secret_key[0], 0);
}

static void keys_that_others_may_read_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct door_keys keys;
    assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_OK);
    static const mode_t MODES[] = {0640, 0604, 0660, 0610, 0602};
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        assert_int_equal(chmod(keys_file, MODES[i]), 0);
        assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_DENIED);
        assert_non_null(strstr(err.text, "chmod 600"));
    }
    assert_int_equal(chmod(keys_file, 0400), 0);
    assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_OK);
}

static void a_damaged_file_of_keys_is_refused_and_kept(void **state)
{
    (void)state;
    struct err err = {0};
    struct door_keys keys;
    assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_OK);
    struct str good = {0};
    assert_int_equal(io_read_file(keys_file, 1000, &good, &err), ERR_OK);
    for (size_t i = 0; i < good.size; i++) {
        struct str bad = {0};
        str_add_bytes(&bad, good.text, good.size);
        bad.text[i] = bad.text[i] == 'x' ? 'y' : 'x';
        write_file(bad.text, bad.size, 0600);
        assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_CORRUPT);
        assert_null(strstr(err.text, keys.secret_key));
        bad.text[i] = '\0';
        write_file(bad.text, bad.size, 0600);
        assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_CORRUPT);
        write_file(good.text, i, 0600); /* cut short */
        assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_CORRUPT);
        str_release(&bad);
    }
    str_add(&good, "\n");
    write_file(good.text, good.size, 0600);
    assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_CORRUPT);
    write_file(good.text, good.size - 1, 0600);
    assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_OK);
    str_release(&good);

    assert_int_equal(unlink(keys_file), 0);
    assert_int_equal(mkdir(keys_file, 0700), 0);
    assert_int_equal(door_keys_load(keys_file, &keys, &err), ERR_CORRUPT);
    assert_int_equal(door_keys_load("/nowhere/at/all/keys", &keys, &err), ERR_NOT_FOUND);
}

/* Many processes find no keys at the same instant; all must come to use the same ones. */
static void those_who_make_keys_at_once_agree(void **state)
{
    (void)state;
    enum { MAKERS = 12 };
    int gate[2];
    int results[2];
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(results), 0);
    for (int i = 0; i < MAKERS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            close(gate[1]);
            char byte = 0;
            struct door_keys keys = {0};
            bool good = read(gate[0], &byte, 1) == 0 &&
                        door_keys_load(keys_file, &keys, NULL) == ERR_OK &&
                        write(results[1], &keys, sizeof keys) == (ssize_t)sizeof keys;
            _exit(good ? 0 : 1);
        }
    }
    close(gate[0]);
    close(gate[1]);
    struct door_keys first;
    struct door_keys keys;
    for (int i = 0; i < MAKERS; i++) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(results[0], &keys, sizeof keys), sizeof keys);
        if (i == 0) {
            first = keys;
        }
        assert_memory_equal(&first, &keys, sizeof keys);
    }
    close(results[0]);
    close(results[1]);
    assert_int_equal(unlink(keys_file), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    assert_int_equal(mkdir(folder, 0700), 0);
}

#define KEY_HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SECRET_HEX "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"

static void expect_url(const char *text, const char *host, uint16_t port, bool has_secret)
{
    struct err err = {0};
    struct door_url url;
    if (door_url_parse(text, &url, &err) != ERR_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    assert_string_equal(url.host, host);
    assert_int_equal(url.port, port);
    assert_string_equal(url.secret, has_secret ? SECRET_HEX : "");
    struct str again = {0};
    door_url_add(&again, &url);
    assert_string_equal(again.text, text);
    str_release(&again);
}

static void a_join_url_is_read_as_it_was_written(void **state)
{
    (void)state;
    expect_url("drover://node-1.example.org:7701?key=" KEY_HEX "&secret=" SECRET_HEX,
               "node-1.example.org", 7701, true);
    expect_url("drover://10.0.0.1:1?key=" KEY_HEX, "10.0.0.1", 1, false);
    expect_url("drover://[::1]:65535?key=" KEY_HEX "&secret=" SECRET_HEX, "::1", 65535, true);
    expect_url("drover://[fe80::1%eth0]:80?key=" KEY_HEX, "fe80::1%eth0", 80, false);
    struct door_url url;
    assert_int_equal(door_url_parse("drover://h:1?secret=" SECRET_HEX "&key=" KEY_HEX, &url, NULL),
                     ERR_OK);
    assert_int_equal(door_url_parse("drover://h:1?key=00010203040506070809"
                                    "0A0B0C0D0E0F101112131415161718191a1b1c1d1e1f",
                                    &url, NULL),
                     ERR_OK);
    assert_string_equal(url.secret, "");
}

static void a_url_that_is_none_is_refused_without_telling_the_secret(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",
        "drover:",
        "http://h:1?key=" KEY_HEX,
        "drover://",
        "drover://:1?key=" KEY_HEX,
        "drover://h?key=" KEY_HEX,
        "drover://h:?key=" KEY_HEX,
        "drover://h:0?key=" KEY_HEX,
        "drover://h:65536?key=" KEY_HEX,
        "drover://h:+1?key=" KEY_HEX,
        "drover://h:99999999999999999999?key=" KEY_HEX,
        "drover://h:000001?key=" KEY_HEX,
        "drover://h:1",
        "drover://h:1?",
        "drover://h:1/?key=" KEY_HEX,
        "drover://h:1?key=",
        "drover://h:1?key=" KEY_HEX "00",
        "drover://h:1?key=" KEY_HEX "&",
        "drover://h:1?key=" KEY_HEX "&key=" KEY_HEX,
        "drover://h:1?key=" KEY_HEX "&secret=",
        "drover://h:1?key=" KEY_HEX "&secret=" SECRET_HEX "&secret=" SECRET_HEX,
        "drover://h:1?key=" KEY_HEX "&other=" SECRET_HEX,
        "drover://h:1?key=" KEY_HEX "\n",
        "drover://h:1?secret=" SECRET_HEX,
        "drover://h:1?secret=" SECRET_HEX "g",
        "drover://a b:1?key=" KEY_HEX,
        "drover://-h:1?key=" KEY_HEX,
        "drover://h;reboot:1?key=" KEY_HEX,
        "drover://user@h:1?key=" KEY_HEX,
        "drover://[h]:1?key=" KEY_HEX,
        "drover://[::1:1?key=" KEY_HEX,
        "drover://[]:1?key=" KEY_HEX,
        "drover://[::1]1?key=" KEY_HEX,
        "drover://[::1%]:1?key=" KEY_HEX,
        "drover://::1:1?key=" KEY_HEX,
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct err err = {0};
        struct door_url url = {.port = 7};
        if (door_url_parse(BAD[i], &url, &err) != ERR_INVALID) {
            fail_msg("accepted: %s", BAD[i]);
        }
        assert_null(strstr(err.text, SECRET_HEX));
        assert_int_equal(url.port, 7);
    }
    struct str huge = {0};
    str_add(&huge, "drover://");
    str_add_repeat(&huge, "a", 300);
    str_add(&huge, ":1?key=" KEY_HEX);
    struct door_url url;
    assert_int_equal(door_url_parse(huge.text, &url, NULL), ERR_INVALID);
    str_release(&huge);
}

static void secrets_are_random_and_compared_whole(void **state)
{
    (void)state;
    char a[DOOR_SECRET_CHARS + 1];
    char b[DOOR_SECRET_CHARS + 1];
    door_make_secret(a);
    door_make_secret(b);
    assert_int_equal(strlen(a), DOOR_SECRET_CHARS);
    assert_int_equal(strspn(a, "0123456789abcdef"), DOOR_SECRET_CHARS);
    assert_string_not_equal(a, b);
    assert_false(door_secret_equal(a, b));
    memcpy(b, a, sizeof a);
    assert_true(door_secret_equal(a, b));
    for (size_t i = 0; i < DOOR_SECRET_CHARS; i++) {
        b[i] ^= 1;
        assert_false(door_secret_equal(a, b));
        assert_false(door_secret_equal(b, a));
        b[i] ^= 1;
    }
    assert_false(door_secret_equal("", a));
    assert_false(door_secret_equal(a, ""));
    assert_false(door_secret_equal("ab", "abab"));
    assert_false(door_secret_equal("abab", "ab"));
    assert_true(door_secret_equal("", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_made_once_and_read_after, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(keys_that_others_may_read_are_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_damaged_file_of_keys_is_refused_and_kept, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(those_who_make_keys_at_once_agree, make_folder,
                                        remove_folder),
        cmocka_unit_test(a_join_url_is_read_as_it_was_written),
        cmocka_unit_test(a_url_that_is_none_is_refused_without_telling_the_secret),
        cmocka_unit_test(secrets_are_random_and_compared_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
