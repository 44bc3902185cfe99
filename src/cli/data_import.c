/* drover data import: the objects of a bucket become files.
 *
 * Objects are listed page by page and read in pieces, many at once; files are made of them in their
 * order. Nothing grows with the bucket or with an object. What cannot be a file is passed over. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/progress.h"
#include "data/copy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 4 << 20,
    PIECES_MAX = 64,             /* asked for and not yet used */
    PIECES_BYTES_MAX = 64 << 20, /* and their bytes */
    WAIT_MS = 1000,
};

struct piece {
    STAILQ_ENTRY(piece) link;
    struct object_call call;
    char *key;
    uint64_t size; /* of the whole object, as listed */
    bool is_last;  /* of its object */
    bool is_done;
};
STAILQ_HEAD(pieces, piece);

struct import {
    struct copy copy;
    struct object_store *from;
    const char *path; /* in the volume */
    struct engine_caller caller;

    struct object_call page; /* of the listing: items [item, page_count) are still to come */
    size_t item;
    char *after; /* the last key of the page before */
    bool is_listed;
    uint64_t begun; /* of the item: bytes that are asked for */

    struct pieces pieces; /* in the order of the objects */
    size_t piece_count;
    uint64_t piece_bytes;
    size_t taken;       /* of the first piece */
    bool first_changed; /* its object is not what was listed */
};

static void pass_over(struct import *import, const char *key, const char *why)
{
    import->copy.counts.odd++;
    import->copy.note(import->copy.context, &import->copy.counts, key, why);
}

/* Keys and paths. ------------------------------------------------------------------------------ */

/* Why no file can be called so; NULL: one can. */
static const char *trouble_of(const char *key)
{
    for (const char *part = key;;) {
        size_t size = strcspn(part, "/");
        bool is_dots = (size == 1 && part[0] == '.') || (size == 2 && memcmp(part, "..", 2) == 0);
        bool is_end = part[size] == '\0';
        if (is_dots || (size == 0 && !is_end) || size > ENGINE_NAME_MAX) {
            return size > ENGINE_NAME_MAX ? "a part of its name is too long for a file's"
                                          : "its name cannot be a file's";
        }
        if (is_end) {
            return size == 0 && part == key ? "it has no name" : NULL;
        }
        part += size + 1;
    }
}

/* The folder that its file goes to, which is made. */
static enum err_code make_folder(struct import *import, const char *key, uint64_t *inode,
                                 struct err *err)
{
    AUTO_STR struct str path = {0};
    struct engine_attr folder;
    str_addf(&path, "%s/%s", import->path, key);
    AUTO_FREE char *above =
        mem_strndup(str_text(&path), (size_t)(strrchr(str_text(&path), '/') - path.text));
    enum err_code code =
        tree_make_folders(&import->copy.tree, &import->caller, above, &folder, err);
    *inode = folder.inode;
    return code;
}

static const char *name_of(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? slash + 1 : key;
}

/* Whether there is something to fetch: not for what cannot be, is there, or is only a folder. Files
 * before it may still be on their way. */
static enum err_code look_at(struct import *import, const struct object_item *item, bool *fetch,
                             struct err *err)
{
    AUTO_STR struct str path = {0};
    uint64_t folder = 0;
    struct engine_attr attr;
    const char *trouble = trouble_of(item->key);
    *fetch = false;
    if (trouble) {
        pass_over(import, item->key, trouble);
        return ERR_OK;
    }
    if (name_of(item->key)[0] == '\0') {
        enum err_code code = make_folder(import, item->key, &folder, err);
        if (code == ERR_INVALID) {
            pass_over(import, item->key, "there is a file of that name");
        }
        return code == ERR_INVALID ? ERR_OK : code;
    }
    str_addf(&path, "%s/%s", import->path, item->key);
    enum err_code code = tree_find(&import->copy.tree, str_text(&path), &attr, err);
    bool is_file = code == ERR_OK && S_ISREG(attr.mode);
    if (is_file && attr.size == item->size) {
        import->copy.counts.same++;
        import->copy.counts.same_bytes += item->size;
        return ERR_OK;
    }
    *fetch = code == ERR_OK || code == ERR_NOT_FOUND || code == ERR_INVALID;
    return *fetch ? ERR_OK : code;
}

/* Asking ahead. -------------------------------------------------------------------------------- */

static void note_piece(struct object_call *call)
{
    ((struct piece *)call->context)->is_done = true;
}

static void ask_piece(struct import *import, const struct object_item *item)
{
    struct piece *piece = mem_alloc(sizeof *piece);
    uint64_t left = item->size - import->begun;
    uint64_t size = left < PIECE_BYTES ? left : PIECE_BYTES;
    piece->key = mem_strdup(item->key);
    piece->size = item->size;
    piece->is_last = size == left;
    piece->call = (struct object_call){.verb = OBJECT_GET,
                                       .key = piece->key,
                                       .foreign = true,
                                       .offset = import->begun,
                                       .size = size,
                                       .done = note_piece,
                                       .context = piece};
    STAILQ_INSERT_TAIL(&import->pieces, piece, link);
    import->piece_count++;
    import->piece_bytes += size;
    import->begun += size;
    object_start(import->from, &piece->call);
}

static enum err_code next_page(struct import *import, struct err *err)
{
    struct object_call *page = &import->page;
    if (page->page_count > 0) {
        free(import->after);
        import->after = mem_strdup(page->page[page->page_count - 1].key);
    }
    bool more = page->more || !import->after;
    object_call_release(page);
    import->item = 0;
    import->is_listed = !more;
    if (!more) {
        return ERR_OK;
    }
    *page = (struct object_call){.verb = OBJECT_LIST, .key = "", .after = import->after};
    enum err_code code = object_do(import->from, page, err);
    import->is_listed = code == ERR_OK && page->page_count == 0;
    return code;
}

/* As many pieces as may be on their way. */
static enum err_code ask_ahead(struct import *import, struct err *err)
{
    enum err_code code = ERR_OK;
    while (code == ERR_OK && !import->is_listed && import->piece_count < PIECES_MAX &&
           import->piece_bytes < PIECES_BYTES_MAX) {
        if (import->item == import->page.page_count) {
            code = next_page(import, err);
            continue;
        }
        const struct object_item *item = &import->page.page[import->item];
        bool fetch = true;
        if (import->begun == 0) {
            code = look_at(import, item, &fetch, err);
        }
        if (code == ERR_OK && fetch) {
            ask_piece(import, item);
        }
        if (!fetch || import->begun == item->size) {
            import->item++;
            import->begun = 0;
        }
    }
    return code;
}

/* Using what has come. ------------------------------------------------------------------------- */

static void drop_piece(struct import *import)
{
    struct piece *piece = STAILQ_FIRST(&import->pieces);
    STAILQ_REMOVE_HEAD(&import->pieces, link);
    import->piece_count--;
    import->piece_bytes -= piece->call.size;
    import->taken = 0;
    object_call_release(&piece->call);
    free(piece->key);
    free(piece);
}

/* The first piece, once it is there. */
static enum err_code await_piece(struct import *import, struct err *err)
{
    struct piece *piece = STAILQ_FIRST(&import->pieces);
    while (!piece->is_done) {
        (void)object_run(import->from, WAIT_MS);
    }
    const struct object_call *call = &piece->call;
    import->first_changed = call->code == ERR_NOT_FOUND || call->code == ERR_RANGE ||
                            (call->code == ERR_OK &&
                             (call->object_size != piece->size || call->body.size != call->size));
    if (import->first_changed) {
        return err_set(err, ERR_STALE, "%s: it has changed since it was listed", piece->key);
    }
    return call->code == ERR_OK ? ERR_OK : err_set(err, call->code, "%s", call->err.text);
}

static int64_t read_pieces(void *context, void *buffer, size_t size, struct err *err)
{
    struct import *import = context;
    struct piece *piece = STAILQ_FIRST(&import->pieces);
    if (await_piece(import, err) != ERR_OK) {
        return -1;
    }
    if (import->taken == piece->call.body.size && !piece->is_last) {
        drop_piece(import);
        if (ask_ahead(import, err) != ERR_OK || await_piece(import, err) != ERR_OK) {
            return -1;
        }
        piece = STAILQ_FIRST(&import->pieces);
    }
    size_t left = piece->call.body.size - import->taken;
    size_t taken = left < size ? left : size;
    memcpy(buffer, piece->call.body.text + import->taken, taken);
    import->taken += taken;
    return (int64_t)taken;
}

/* The object of the first piece. All its pieces are gone afterwards. */
static enum err_code import_one(struct import *import, struct err *err)
{
    AUTO_FREE char *key = mem_strdup(STAILQ_FIRST(&import->pieces)->key);
    uint64_t folder = 0;
    struct err why = {0};
    enum err_code code = await_piece(import, &why);
    if (code == ERR_OK) {
        code = make_folder(import, key, &folder, &why);
    }
    struct copy_source source = {.read = read_pieces,
                                 .context = import,
                                 .mtime_ns = import->caller.now_ns,
                                 .mode = 0644,
                                 .uid = import->caller.uid,
                                 .gid = import->caller.gid};
    if (code == ERR_OK) {
        code = copy_put_bytes(&import->copy, folder, name_of(key), &source, &why);
    }
    bool is_odd = code == ERR_INVALID || code == ERR_EXISTS; /* as "a" and "a/b" */
    if (code != ERR_OK && !is_odd && !import->first_changed) {
        return err_set(err, code, "%s", why.text);
    }
    if (code != ERR_OK) {
        pass_over(import, key,
                  is_odd ? "another object's name is in the way"
                         : "it has changed since it was listed; import again to get it");
    }
    bool was_last = false;
    while (!was_last && !STAILQ_EMPTY(&import->pieces)) {
        struct piece *piece = STAILQ_FIRST(&import->pieces);
        was_last = piece->is_last;
        while (!piece->is_done) {
            (void)object_run(import->from, WAIT_MS);
        }
        drop_piece(import);
        if (!was_last && STAILQ_EMPTY(&import->pieces)) {
            code = ask_ahead(import, err); /* the rest of one that is passed over */
            if (code != ERR_OK) {
                return code;
            }
        }
    }
    return ERR_OK;
}

static enum err_code import_all(struct import *import, struct err *err)
{
    enum err_code code = ask_ahead(import, err);
    while (code == ERR_OK && !STAILQ_EMPTY(&import->pieces)) {
        code = import_one(import, err);
        if (code == ERR_OK) {
            code = ask_ahead(import, err);
        }
    }
    enum err_code synced = volume_sync(import->copy.tree.volume, code == ERR_OK ? err : NULL);
    return code == ERR_OK ? synced : code;
}

static void release(struct import *import)
{
    object_close(import->from); /* ends what is on its way */
    while (!STAILQ_EMPTY(&import->pieces)) {
        drop_piece(import);
    }
    object_call_release(&import->page);
    free(import->after);
}

/* The command. --------------------------------------------------------------------------------- */

static int import_into(struct data_open *open, struct volume_ref *from,
                       const struct data_arguments *arguments)
{
    struct progress progress = {0};
    struct err err = {0};
    struct import import = {
        .copy = {.tree = data_tree(open), .note = data_note, .context = &progress},
        .path = open->ref.path && strcmp(open->ref.path, "/") != 0 ? open->ref.path : "",
        .caller = {getuid(), getgid(), clock_unix_ms() * 1000000},
    };
    int exit_code = EXIT_DONE;
    int64_t began_ms = clock_mono_ms();
    STAILQ_INIT(&import.pieces);
    progress_begin(&progress, "importing", 0, 0);
    enum err_code code = volume_ref_store(from, false, &import.from, &err);
    if (code == ERR_OK) {
        code = import_all(&import, &err);
    }
    progress_end(&progress);
    if (code == ERR_OK) {
        data_print_counts(&import.copy.counts, "imported", clock_mono_ms() - began_ms,
                          arguments->as_json);
    } else {
        bool has_begun = import.copy.counts.files > 0;
        exit_code =
            cli_error(volume_ref_exit(code), "%s%s", err.text,
                      has_begun ? " (the same command goes on where this one stopped)" : "");
    }
    release(&import);
    return exit_code;
}

int data_verb_import(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open = {0};
    struct volume_ref from = {0};
    struct err err = {0};
    if (count != 2) {
        return cli_usage_error(&cmd_data, "import needs s3://BUCKET/PREFIX and a VOLUME:/PATH");
    }
    bool is_store = strncmp(words[0], "s3://", 5) == 0 || strncmp(words[0], "file:///", 8) == 0;
    enum err_code code =
        is_store ? volume_ref_parse(words[0], &from, &err)
                 : err_set(&err, ERR_INVALID,
                           "%s: import takes s3://bucket/prefix or file:///folder", words[0]);
    int exit_code = code == ERR_OK ? data_open(words[1], &arguments->over, true, &open)
                                   : cli_error(EXIT_USAGE, "%s", err.text);
    if (exit_code == EXIT_DONE) {
        volume_ref_override(&from, &open.ref); /* the same endpoint, unless said otherwise */
        volume_ref_override(&from, &arguments->over);
        exit_code = data_close(&open, import_into(&open, &from, arguments));
    }
    volume_ref_release(&from);
    return exit_code;
}
