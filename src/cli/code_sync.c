#include "cli/code_sync.h"

#include "base/io.h"
#include "base/jread.h"
#include "base/mem.h"
#include "cli/code_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TRIES = 4,                          /* with a folder that changes, or a store that is pruned */
    PACK_BYTES_MAX = (8 << 20) - 65536, /* a body */
    ASKED_MAX = 60000,                  /* hashes in one question */
};

/* Where the bytes of a hash are. */
struct source {
    const uint8_t *hash;
    const struct manifest_entry *entry;
    size_t chunk;
    bool is_wanted;
};

struct sync {
    struct client *client;
    const struct code_sync_options *options;
    struct code_sync_result *result;
    struct code_scan *scan;
    struct source *sources; /* sorted by hash, each once */
    size_t count;
    size_t cap;
    struct str pack;
    uint64_t wanted_bytes;
    struct err *err;
};

/* --- asking the server ----------------------------------------------------------------------- */

/* What a status means to the caller; the server's own words are in the answer. */
static enum err_code judge(struct sync *sync, const struct client_answer *answer, const char *what)
{
    enum err_code code = ERR_INVALID;
    if (answer->status >= 200 && answer->status < 300) {
        return ERR_OK;
    }
    if (answer->status == 401 || answer->status == 403) {
        code = ERR_DENIED;
    } else if (answer->status == 507) {
        code = ERR_QUOTA;
    } else if (answer->status == 409) {
        code = ERR_AGAIN;
    } else if (answer->status >= 500) {
        code = ERR_IO;
    }
    struct jread doc = {0};
    const char *detail = "";
    if (jread_parse(&doc, str_text(&answer->body), answer->body.size, NULL) == ERR_OK) {
        detail = jread_text(doc.root, "detail", "");
    }
    err_set(sync->err, code, "%s: the server answers %d%s%.300s", what, answer->status,
            detail[0] ? ": " : "", detail);
    jread_release(&doc);
    return code;
}

static int compare_sources(const void *a, const void *b)
{
    return memcmp(((const struct source *)a)->hash, ((const struct source *)b)->hash, SHA256_BYTES);
}

/* Marks what the answer's list "missing" names. */
static enum err_code mark_missing(struct sync *sync, const struct client_answer *answer)
{
    struct jread doc = {0};
    enum err_code code = jread_parse(&doc, str_text(&answer->body), answer->body.size, sync->err);
    const struct jnode *item = code == ERR_OK ? jread_first(jread_get(doc.root, "missing")) : NULL;
    for (; item && code == ERR_OK; item = item->next) {
        uint8_t hash[SHA256_BYTES];
        struct source wanted = {.hash = hash};
        struct source *source = NULL;
        if (manifest_parse_hash(item->text, strlen(item->text), hash)) {
            source = bsearch(&wanted, sync->sources, sync->count, sizeof *sync->sources,
                             compare_sources);
        }
        if (!source) {
            code = err_set(sync->err, ERR_INVALID, "the server wants what was not offered");
        } else if (!source->is_wanted) {
            source->is_wanted = true;
            sync->wanted_bytes += manifest_chunk_size(source->entry, source->chunk);
        }
    }
    jread_release(&doc);
    return code;
}

static enum err_code call(struct sync *sync, const char *method, const char *path,
                          const struct str *body, struct client_answer *answer)
{
    struct client_request request = {.method = method,
                                     .path = path,
                                     .content_type = "application/octet-stream",
                                     .body = str_text(body),
                                     .body_size = body->size};
    return client_call(sync->client, &request, answer, sync->err);
}

/* Asks about the files that were hashed now (or all): which of their objects does it lack? */
static enum err_code ask_missing(struct sync *sync, bool about_all)
{
    size_t at = 0;
    enum err_code code = ERR_OK;
    while (at < sync->count && code == ERR_OK) {
        AUTO_STR struct str body = {0};
        size_t asked = 0;
        str_add_char(&body, '[');
        for (; at < sync->count && asked < ASKED_MAX; at++) {
            const struct code_scan_file *file =
                (const struct code_scan_file *)sync->sources[at].entry; /* its first member */
            if (about_all || file->is_fresh) {
                char hex[SHA256_HEX_CHARS + 1];
                sha256_hex(sync->sources[at].hash, hex);
                str_addf(&body, "%s\"%s\"", asked++ > 0 ? "," : "", hex);
            }
        }
        str_add_char(&body, ']');
        if (asked == 0) {
            break;
        }
        struct client_answer answer = {0};
        code = call(sync, "POST", "/api/v1/code/missing", &body, &answer);
        if (code == ERR_OK) {
            code = judge(sync, &answer, "asking what code is missing");
        }
        if (code == ERR_OK) {
            code = mark_missing(sync, &answer);
        }
        client_answer_release(&answer);
    }
    return code;
}

/* --- sending --------------------------------------------------------------------------------- */

static enum err_code send_pack(struct sync *sync)
{
    if (sync->pack.size == 0) {
        return ERR_OK;
    }
    struct client_answer answer = {0};
    enum err_code code = call(sync, "PUT", "/api/v1/code/pack", &sync->pack, &answer);
    if (code == ERR_OK) {
        code = judge(sync, &answer, "sending code");
    }
    client_answer_release(&answer);
    str_clear(&sync->pack);
    if (code == ERR_OK && sync->options->progress) {
        sync->options->progress(sync->options->context, sync->result->sent_bytes,
                                sync->wanted_bytes);
    }
    return code;
}

/* Adds the object's bytes, read again; other bytes than were hashed mean that the file changed. */
static enum err_code add_object(struct sync *sync, const struct source *source, void *buffer)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", sync->options->folder, source->entry->path);
    AUTO_CLOSE int fd = open(str_text(&path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    size_t size = manifest_chunk_size(source->entry, source->chunk);
    ssize_t got =
        fd < 0 ? -1 : pread(fd, buffer, size, (off_t)source->chunk * (off_t)CODE_CHUNK_BYTES);
    uint8_t hash[SHA256_BYTES] = {0};
    if (got == (ssize_t)size) {
        sha256_of(buffer, size, hash);
    }
    if (got != (ssize_t)size || memcmp(hash, source->hash, SHA256_BYTES) != 0) {
        return err_set(sync->err, ERR_AGAIN, "%s changes while it is read", source->entry->path);
    }
    enum err_code code = ERR_OK;
    if (sync->pack.size + size + SHA256_HEX_CHARS + 16 > PACK_BYTES_MAX) {
        code = send_pack(sync);
    }
    char hex[SHA256_HEX_CHARS + 1];
    sha256_hex(hash, hex);
    str_addf(&sync->pack, "%s %zu\n", hex, size);
    str_add_bytes(&sync->pack, buffer, size);
    sync->result->sent_count++;
    sync->result->sent_bytes += size;
    return code;
}

static enum err_code send_wanted(struct sync *sync)
{
    AUTO_FREE void *buffer = NULL;
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < sync->count && code == ERR_OK; i++) {
        if (sync->sources[i].is_wanted) {
            buffer = buffer ? buffer : mem_alloc(CODE_CHUNK_BYTES);
            code = add_object(sync, &sync->sources[i], buffer);
            sync->sources[i].is_wanted = false;
        }
    }
    return code == ERR_OK ? send_pack(sync) : code;
}

static void list_sources(struct sync *sync)
{
    sync->count = 0;
    for (size_t i = 0; i < sync->scan->count; i++) {
        const struct manifest_entry *entry = &sync->scan->files[i].entry;
        for (size_t k = 0; k < entry->chunk_count; k++) {
            VEC_PUSH(sync->sources, sync->count, sync->cap) =
                (struct source){.hash = entry->chunks[k], .entry = entry, .chunk = k};
        }
    }
    if (sync->count == 0) {
        return;
    }
    qsort(sync->sources, sync->count, sizeof *sync->sources, compare_sources);
    size_t kept = 1;
    for (size_t i = 1; i < sync->count; i++) {
        if (compare_sources(&sync->sources[kept - 1], &sync->sources[i]) != 0) {
            sync->sources[kept++] = sync->sources[i];
        }
    }
    sync->count = kept;
}

/* The server says 409 and what it lacks if anything is missing after all: then that is sent. */
static enum err_code post_version(struct sync *sync, const struct str *text)
{
    enum err_code code = ERR_AGAIN;
    for (int i = 0; i < TRIES && code == ERR_AGAIN; i++) {
        struct client_answer answer = {0};
        code = call(sync, "POST", "/api/v1/code/versions", text, &answer);
        if (code == ERR_OK) {
            code = judge(sync, &answer, "sending the list of files");
        }
        if (code == ERR_AGAIN) {
            enum err_code sent = mark_missing(sync, &answer);
            sent = sent == ERR_OK ? send_wanted(sync) : sent;
            code = sent == ERR_OK ? ERR_AGAIN : sent;
            if (sent == ERR_AGAIN) { /* a file changed: the list is not true any more */
                client_answer_release(&answer);
                return code;
            }
        }
        client_answer_release(&answer);
    }
    return code;
}

/* --- all of it ------------------------------------------------------------------------------- */

static enum err_code try_once(struct sync *sync, const char *index_file)
{
    enum err_code code = code_scan_open(sync->options->folder, index_file, &sync->scan, sync->err);
    if (code != ERR_OK) {
        return code;
    }
    sync->result->hashed_count += sync->scan->hashed_count;
    sync->result->file_bytes = sync->scan->bytes;
    sync->result->file_count = 0;
    AUTO_STR struct str text = {0};
    AUTO_STR struct str last_server = {0};
    manifest_begin(&text);
    for (size_t i = 0; i < sync->scan->count; i++) {
        manifest_add(&text, &sync->scan->files[i].entry);
        sync->result->file_count += sync->scan->files[i].entry.type == MANIFEST_FILE;
    }
    if (text.size > MANIFEST_BYTES_MAX) {
        return err_set(sync->err, ERR_QUOTA,
                       "the folder holds too many files: name data and results in .droverignore");
    }
    list_sources(sync);
    if (index_file) {
        code_scan_server(index_file, &last_server);
    }
    const char *server = sync->options->server ? sync->options->server : "-";
    code = ask_missing(sync, strcmp(str_text(&last_server), server) != 0);
    if (code == ERR_OK) {
        code = send_wanted(sync);
    }
    if (code == ERR_OK) {
        code = post_version(sync, &text);
    }
    if (code == ERR_OK) {
        manifest_version(text.text, text.size, sync->result->version);
        if (index_file) {
            code_scan_save(sync->scan, index_file, server);
        }
    }
    return code;
}

/* CACHE/drover/code/HASH-OF-THE-FOLDER'S-PATH; false: there is no place for it. */
static bool find_index(const char *folder, struct str *out)
{
    AUTO_FREE char *real = realpath(folder, NULL);
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (!real) {
        return false;
    }
    if (cache && cache[0] == '/') {
        str_addf(out, "%s/drover/code", cache);
    } else if (home && home[0] == '/') {
        str_addf(out, "%s/.cache/drover/code", home);
    } else {
        return false;
    }
    if (io_make_dirs(str_text(out), NULL) != ERR_OK) {
        return false;
    }
    char name[SHA256_HEX_CHARS + 1];
    manifest_version(real, strlen(real), name);
    str_addf(out, "/%s", name);
    return true;
}

enum err_code code_sync_with(struct client *client, const struct code_sync_options *options,
                             struct code_sync_result *result, struct err *err)
{
    AUTO_STR struct str usual = {0};
    const char *index_file = options->index_file;
    if (!index_file && find_index(options->folder, &usual)) {
        index_file = str_text(&usual);
    }
    *result = (struct code_sync_result){0};
    struct sync sync = {.client = client, .options = options, .result = result, .err = err};
    struct err ignored = {0};
    sync.err = err ? err : &ignored;
    enum err_code code = ERR_AGAIN;
    for (int i = 0; i < TRIES && code == ERR_AGAIN; i++) {
        code = try_once(&sync, index_file);
        code_scan_close(sync.scan);
        sync.scan = NULL;
        sync.wanted_bytes = 0;
        str_clear(&sync.pack);
    }
    str_release(&sync.pack);
    free(sync.sources);
    return code;
}

enum err_code code_sync(struct client *client, const char *folder, struct code_sync_result *result,
                        struct err *err)
{
    return code_sync_with(client, &(struct code_sync_options){.folder = folder}, result, err);
}
