/* Trees as pieces and back: order, resuming anywhere, and senders who mean harm. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "wire/bulk.h"
#include "wire/treesend.h"
#include "wire/treewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char base[256];

static int make_base(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/drover-tree-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    return io_remove_tree(base, NULL) == ERR_OK ? 0 : -1;
}

static void path_of(char out[600], const char *name)
{
    snprintf(out, 600, "%s/%s", base, name);
}

static void write_file(const char *path, size_t size)
{
    AUTO_FREE char *bytes = mem_alloc(size);
    memset(bytes, 'x', size);
    for (size_t i = 0; i < size; i += 1000) {
        bytes[i] = (char)(i / 1000);
    }
    assert_int_equal(io_replace_file(path, bytes, size, 0644, NULL), ERR_OK);
}

static void make_tree(const char *folder, struct rng *rng)
{
    static const char *const names[] = {"a", "a-", "a.", "b", "a/c", "a/d", "a/c/e", "b/f"};
    static const char *const folders[] = {"a", "b", "a/c", "empty"};
    char path[700];
    assert_int_equal(mkdir(folder, 0755), 0);
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "%s/%s%d", folder, names[rng_below(rng, 8)], i);
        if (i % 10 == 3) {
            assert_int_equal(symlink("nowhere", path), 0);
        } else if (!strstr(path, "c/e") || i % 2) {
            char *slash = strrchr(path, '/');
            *slash = '\0';
            bool has_parent = access(path, F_OK) == 0;
            *slash = '/';
            if (has_parent) {
                write_file(path, (size_t)(i % 5 == 0 ? 400000 : 0) + rng_below(rng, 3000));
            }
        }
    }
}

static struct treesend *open_send(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return treesend_create(fd, NULL, NULL);
}

static bool same(const char *a, const char *b)
{
    AUTO_STR struct str command = {0};
    str_addf(&command, "diff -r --no-dereference '%s' '%s' > /dev/null", a, b);
    return system(str_text(&command)) == 0;
}

/* After each piece the sender may be thrown away, and a new one go on from its place. */
static void a_tree_can_be_sent_from_any_place_on(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system() % 1000000;
    print_message("seed %" PRIu64 "\n", seed);
    struct rng rng = {seed};
    char from[600];
    char to[600];
    path_of(from, "from");
    path_of(to, "to");
    make_tree(from, &rng);
    assert_int_equal(mkdir(to, 0755), 0);
    struct treewrite *write = NULL;
    assert_int_equal(treewrite_open(to, &write, NULL), ERR_OK);
    struct treesend *send = open_send(from);
    AUTO_STR struct str place = {0};
    uint64_t offset = 0;
    bool is_done = false;
    int pieces = 0;
    while (!is_done) {
        Drover__BulkPiece piece = DROVER__BULK_PIECE__INIT;
        size_t size = 0;
        enum err_code code = treesend_next(send, &piece, &size, NULL);
        is_done = code == ERR_NOT_FOUND || piece.last;
        assert_true(code == ERR_OK || code == ERR_NOT_FOUND);
        size_t taken = code == ERR_OK ? piece.n_part : 0;
        for (size_t i = 0; i < taken; i++) {
            assert_true(bulk_path_is_safe(piece.part[i]->path.data, piece.part[i]->path.len));
            assert_int_equal(treewrite_part(write, piece.part[i], NULL), ERR_OK);
        }
        pieces++;
        if (!is_done && rng_below(&rng, 2)) {
            treesend_place(send, &place, &offset);
            treesend_destroy(send);
            send = open_send(from);
            treesend_seek(send, str_text(&place), offset);
        }
    }
    assert_true(pieces > 2);
    treesend_destroy(send);
    treewrite_close(write);
    assert_true(same(from, to));
}

/* The plainest model: each entry of the row, sought, gives the rest of the row. */
static void seeking_gives_the_rest_of_the_row(void **state)
{
    (void)state;
    struct rng rng = {4};
    char from[600];
    path_of(from, "row");
    make_tree(from, &rng);
    struct treeread *reader = treeread_create(open(from, O_RDONLY | O_DIRECTORY), NULL, NULL);
    char *row[200];
    size_t count = 0;
    struct treeread_entry entry;
    while (treeread_next(reader, &entry, NULL) == ERR_OK) {
        row[count++] = mem_strdup(entry.path);
    }
    assert_true(count > 20);
    for (size_t i = 0; i < count; i++) {
        treeread_seek(reader, row[i]);
        for (size_t k = i; k < count; k++) {
            assert_int_equal(treeread_next(reader, &entry, NULL), ERR_OK);
            assert_string_equal(entry.path, row[k]);
        }
        assert_int_equal(treeread_next(reader, &entry, NULL), ERR_NOT_FOUND);
    }
    /* what is gone meanwhile is passed over */
    treeread_seek(reader, "a/zzz/y");
    assert_int_equal(treeread_next(reader, &entry, NULL), ERR_OK);
    assert_true(strncmp(entry.path, "a/", 2) != 0);
    for (size_t i = 0; i < count; i++) {
        free(row[i]);
    }
    treeread_destroy(reader);
}

static enum err_code put(struct treewrite *write, const char *path, Drover__BulkType type,
                         const char *data)
{
    Drover__BulkPart part = DROVER__BULK_PART__INIT;
    part.path.data = (uint8_t *)(uintptr_t)path;
    part.path.len = strlen(path);
    part.type = type;
    part.data.data = (uint8_t *)(uintptr_t)data;
    part.data.len = strlen(data);
    part.size = part.data.len;
    part.mode = 07777;
    return treewrite_part(write, &part, NULL);
}

static void nothing_is_written_through_a_link(void **state)
{
    (void)state;
    char to[600];
    char outside[600];
    char victim[700];
    path_of(to, "to2");
    path_of(outside, "outside");
    assert_int_equal(mkdir(to, 0755), 0);
    assert_int_equal(mkdir(outside, 0755), 0);
    snprintf(victim, sizeof victim, "%s/victim", outside);
    write_file(victim, 10);
    struct treewrite *write = NULL;
    const Drover__BulkType file = DROVER__BULK_TYPE__BULK_TYPE_FILE;
    const Drover__BulkType link = DROVER__BULK_TYPE__BULK_TYPE_LINK;
    const Drover__BulkType folder = DROVER__BULK_TYPE__BULK_TYPE_FOLDER;
    assert_int_equal(treewrite_open(to, &write, NULL), ERR_OK);
    assert_int_equal(put(write, "l", link, outside), ERR_OK);
    assert_int_equal(put(write, "l", link, outside), ERR_OK);
    assert_int_equal(put(write, "l/victim", file, "hacked"), ERR_INVALID);
    assert_int_equal(put(write, "l/new", file, "hacked"), ERR_INVALID);
    assert_int_equal(put(write, "l/new", folder, ""), ERR_INVALID);
    assert_int_equal(put(write, "l", folder, ""), ERR_INVALID);
    assert_int_equal(put(write, "l", file, "hacked"), ERR_INVALID);
    assert_int_equal(put(write, "v", link, victim), ERR_OK);
    assert_int_equal(put(write, "v", file, "hacked"), ERR_INVALID);
    assert_int_equal(put(write, "no/parent", file, "x"), ERR_INVALID);
    /* a folder that a link replaces while it is open by name */
    assert_int_equal(put(write, "d", folder, ""), ERR_OK);
    assert_int_equal(put(write, "d", link, outside), ERR_INVALID);
    assert_int_equal(put(write, "f", file, "x"), ERR_OK);
    struct stat stat;
    char made[700];
    snprintf(made, sizeof made, "%s/f", to);
    assert_int_equal(lstat(made, &stat), 0);
    assert_int_equal(stat.st_mode & 07777, 0755);
    snprintf(made, sizeof made, "%s/new", outside);
    assert_int_not_equal(access(made, F_OK), 0);
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(victim, 100, &text, NULL), ERR_OK);
    assert_int_equal(text.size, 10);
    treewrite_close(write);
}

static void what_is_kept_is_never_written_into(void **state)
{
    (void)state;
    char old[600];
    char new[600];
    char file[700];
    path_of(old, "old");
    path_of(new, "new");
    assert_int_equal(mkdir(old, 0755), 0);
    assert_int_equal(mkdir(new, 0755), 0);
    snprintf(file, sizeof file, "%s/f", old);
    write_file(file, 100);
    struct treewrite *write = NULL;
    assert_int_equal(treewrite_open(new, &write, NULL), ERR_OK);
    Drover__BulkPart part = DROVER__BULK_PART__INIT;
    part.path.data = (uint8_t *)(char[]){"f"};
    part.path.len = 1;
    part.type = DROVER__BULK_TYPE__BULK_TYPE_FILE;
    part.size = 100;
    part.keep = true;
    assert_int_equal(treewrite_part(write, &part, NULL), ERR_STALE);
    treewrite_set_base(write, old);
    assert_int_equal(treewrite_part(write, &part, NULL), ERR_OK);
    assert_int_equal(treewrite_part(write, &part, NULL), ERR_OK);
    part.keep = false;
    part.data.data = (uint8_t *)(char[]){"zzz"};
    part.data.len = 3;
    assert_int_equal(treewrite_part(write, &part, NULL), ERR_INVALID);
    part.data.len = 0;
    part.keep = true;
    part.size = 101;
    assert_int_equal(treewrite_part(write, &part, NULL), ERR_STALE);
    treewrite_close(write);
}

static void a_tree_is_replaced_whole_and_removed_in_bits(void **state)
{
    (void)state;
    struct rng rng = {6};
    char from[600];
    char to[600];
    char copy[600];
    path_of(from, "x/next");
    path_of(copy, "x");
    path_of(to, "deep/down/place");
    assert_int_equal(mkdir(copy, 0755), 0);
    make_tree(from, &rng);
    assert_int_equal(treewrite_replace(from, to, NULL), ERR_OK);
    assert_int_not_equal(access(from, F_OK), 0);
    assert_int_equal(mkdir(from, 0755), 0);
    assert_int_equal(treewrite_replace(from, to, NULL), ERR_OK);
    assert_int_equal(rmdir(to), 0); /* the empty one is there, the full one is ours to remove */
    int turns = 0;
    bool is_gone = false;
    while (!is_gone) {
        size_t budget = 5;
        is_gone = treewrite_remove_some(from, &budget);
        assert_true(++turns < 100);
    }
    assert_true(turns > 5);
    assert_int_not_equal(access(from, F_OK), 0);
    /* a crash in the middle of the slow way */
    char old[700];
    snprintf(old, sizeof old, "%s.old", to);
    assert_int_equal(mkdir(old, 0755), 0);
    treewrite_mend(to);
    assert_int_equal(access(to, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_can_be_sent_from_any_place_on),
        cmocka_unit_test(seeking_gives_the_rest_of_the_row),
        cmocka_unit_test(nothing_is_written_through_a_link),
        cmocka_unit_test(what_is_kept_is_never_written_into),
        cmocka_unit_test(a_tree_is_replaced_whole_and_removed_in_bits),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
