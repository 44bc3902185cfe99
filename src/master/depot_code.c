/* The code store's part of the depot: unpacking versions for the nodes on this disk, and the HTTP
 * requests that fill the store. */
#include "master/depot_internal.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HASHES_ASKED_MAX = 65536 };

/* --- unpacking ------------------------------------------------------------------------------- */

static void unpacking_free(struct unpacking *unpacking)
{
    if (unpacking) {
        manifest_destroy(unpacking->manifest);
        str_release(&unpacking->text);
        free(unpacking);
    }
}

void depot_unpack_release(struct worker *worker)
{
    unpacking_free(worker->unpacking);
    worker->unpacking = NULL;
}

static enum err_code open_here(struct worker *worker, struct err *err)
{
    if (worker->here) {
        return ERR_OK;
    }
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/code/here", worker->state_folder);
    return bulk_pool_open(str_text(&folder), &worker->here, err);
}

static void say_folder(struct worker *worker, struct load *load)
{
    AUTO_STR struct str path = {0};
    Drover__FromDepot message;
    bulk_pool_add_path(worker->here, &path, load->name);
    depot_say_begin(load, &message);
    message.done = true;
    message.folder.data = (uint8_t *)path.text;
    message.folder.len = path.size;
    depot_say(worker, load->peer, &message);
    worker->counts.downloads++;
    depot_load_free(worker, load);
}

/* Answers all who wait for the version; err NULL: it is there. */
static void answer_all(struct worker *worker, const char *version, const struct err *err)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        for (struct peer *peer = worker->peers[i]; peer; peer = peer->next) {
            struct load *next = NULL;
            for (struct load *load = peer->loads; load; load = next) {
                next = load->next;
                if (load->kind != DROVER__BULK_KIND__BULK_KIND_UNPACK || load->state != LOAD_OPEN ||
                    strcmp(load->name, version) != 0) {
                    continue;
                }
                if (!err) {
                    say_folder(worker, load);
                } else if (err->code == ERR_QUOTA || err->code == ERR_IO) {
                    depot_say_wait(worker, peer, load->ticket, WAIT_FULL_MS);
                    depot_load_free(worker, load);
                } else {
                    depot_say_no(worker, peer, load->ticket, err->code, err->text);
                    depot_load_free(worker, load);
                }
            }
        }
    }
}

static enum err_code begin_unpacking(struct worker *worker, const char *version, struct err *err)
{
    struct unpacking *unpacking = mem_alloc(sizeof *unpacking);
    snprintf(unpacking->version, sizeof unpacking->version, "%s", version);
    enum err_code code = code_get_version(worker->code, version, &unpacking->text, err);
    if (code == ERR_OK) {
        code =
            manifest_parse(unpacking->text.text, unpacking->text.size, &unpacking->manifest, err);
    }
    if (code != ERR_OK) {
        unpacking_free(unpacking);
        return code;
    }
    worker->unpacking = unpacking;
    return ERR_OK;
}

void depot_unpack_want(struct worker *worker, struct load *load)
{
    struct err err = {0};
    enum err_code code = open_here(worker, &err);
    if (code == ERR_OK && worker->unpacking) {
        return; /* depot_unpack_turn looks for who waits when it is done with this one */
    }
    if (code == ERR_OK && bulk_pool_check(worker->here, load->name)) {
        say_folder(worker, load);
        return;
    }
    if (code == ERR_OK) {
        code = begin_unpacking(worker, load->name, &err);
    }
    if (code != ERR_OK) {
        depot_say_no(worker, load->peer, load->ticket, code, err.text);
        depot_load_free(worker, load);
    }
}

/* Copies a file's objects into the pool; they are not linked, since tasks could write into them. */
static enum err_code copy_file(struct worker *worker, const struct manifest_entry *file,
                               void *buffer, struct err *err)
{
    for (size_t i = 0; i < file->chunk_count; i++) {
        int fd = -1;
        size_t size = 0;
        enum err_code code = code_open_object(worker->code, file->chunks[i], &fd, &size, err);
        if (code != ERR_OK) {
            return code;
        }
        bool is_good =
            size == manifest_chunk_size(file, i) && pread(fd, buffer, size, 0) == (ssize_t)size;
        close(fd);
        if (!is_good) {
            return err_set(err, ERR_CORRUPT, "%s: an object of it is damaged", file->path);
        }
        code = bulk_pool_put(worker->here, file, i, buffer, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    return bulk_pool_finish(worker->here, file, err);
}

static struct load *find_waiting(struct worker *worker)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        for (struct peer *peer = worker->peers[i]; peer; peer = peer->next) {
            for (struct load *load = peer->loads; load; load = load->next) {
                if (load->kind == DROVER__BULK_KIND__BULK_KIND_UNPACK && load->state == LOAD_OPEN) {
                    return load;
                }
            }
        }
    }
    return NULL;
}

static void end_unpacking(struct worker *worker, const struct err *err)
{
    struct unpacking *unpacking = worker->unpacking;
    worker->unpacking = NULL;
    if (err && (err->code == ERR_QUOTA || err->code == ERR_IO)) {
        depot_worker_trouble(worker, err->text);
    }
    answer_all(worker, unpacking->version, err);
    unpacking_free(unpacking);
    struct load *waiting = find_waiting(worker);
    if (waiting) {
        depot_unpack_want(worker, waiting);
    }
}

bool depot_unpack_turn(struct worker *worker)
{
    struct unpacking *unpacking = worker->unpacking;
    if (!unpacking) {
        return false;
    }
    struct err err = {0};
    enum err_code code = ERR_OK;
    uint64_t copied = 0;
    AUTO_FREE void *buffer = NULL;
    while (code == ERR_OK && unpacking->next < unpacking->manifest->count &&
           copied < COPIED_AT_ONCE) {
        const struct manifest_entry *entry = &unpacking->manifest->entries[unpacking->next++];
        copied += 4096;
        if (entry->type != MANIFEST_FILE || bulk_pool_has(worker->here, entry)) {
            continue;
        }
        buffer = buffer ? buffer : mem_alloc(CODE_CHUNK_BYTES);
        code = copy_file(worker, entry, buffer, &err);
        copied += entry->size;
    }
    if (code == ERR_OK && unpacking->next < unpacking->manifest->count) {
        return true;
    }
    if (code == ERR_OK) {
        code = bulk_pool_unpack(worker->here, unpacking->version, &unpacking->text,
                                unpacking->manifest, &err);
    }
    if (code == ERR_AGAIN) { /* a task spoilt a file meanwhile */
        unpacking->next = 0;
        return true;
    }
    end_unpacking(worker, code == ERR_OK ? NULL : &err);
    return worker->unpacking != NULL;
}

/* --- HTTP ------------------------------------------------------------------------------------ */

/* Takes the text over. */
static void reply(struct worker *worker, uint64_t id, int status, const char *type,
                  struct str *text)
{
    struct box *box = mem_alloc(sizeof *box);
    box->event.kind = DEPOT_HTTP;
    box->event.number = id;
    box->event.status = status;
    box->event.content_type = type;
    box->event.body_size = text->size;
    box->texts[0] = str_take(text);
    box->event.body = box->texts[0];
    depot_worker_tell(worker, box);
}

static void reply_problem(struct worker *worker, uint64_t id, int status, const char *detail)
{
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    json_object(&json);
    json_key(&json, "type"), json_text(&json, "about:blank");
    json_key(&json, "title");
    json_text(&json, status == 404   ? "Not Found"
                     : status == 507 ? "Insufficient Storage"
                     : status == 405 ? "Method Not Allowed"
                     : status == 500 ? "Internal Server Error"
                                     : "Bad Request");
    json_key(&json, "status"), json_i64(&json, status);
    json_key(&json, "detail"), json_text(&json, detail);
    json_end(&json);
    reply(worker, id, status, "application/problem+json", &text);
}

static void reply_error(struct worker *worker, uint64_t id, const struct err *err)
{
    int status = 500;
    if (err->code == ERR_INVALID) {
        status = 400;
    } else if (err->code == ERR_NOT_FOUND) {
        status = 404;
    } else if (err->code == ERR_QUOTA) {
        status = 507;
        depot_worker_trouble(worker, err->text);
    }
    reply_problem(worker, id, status, err->text);
}

/* ["HASH", "HASH"]: nothing else is read. Returns where the next hash is, or NULL at the end;
 * *is_bad: it is something else. */
static const char *next_hash(const char *at, const char *end, bool is_first, bool *is_bad)
{
    const char *space = " \t\r\n";
    while (at < end && strchr(space, *at) && *at != '\0') {
        at++;
    }
    if (at < end && *at == ']') {
        at++;
        while (at < end && strchr(space, *at) && *at != '\0') {
            at++;
        }
        *is_bad = at != end;
        return NULL;
    }
    if (!is_first) {
        if (at >= end || *at != ',') {
            *is_bad = true;
            return NULL;
        }
        at++;
        while (at < end && strchr(space, *at) && *at != '\0') {
            at++;
        }
    }
    if (end - at < SHA256_HEX_CHARS + 2 || at[0] != '"' || at[SHA256_HEX_CHARS + 1] != '"') {
        *is_bad = true;
        return NULL;
    }
    return at + 1;
}

static void answer_missing(struct worker *worker, const struct depot_request *request)
{
    const char *at = request->body;
    const char *end = at + request->body_size;
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    bool is_bad = request->body_size == 0 || *at != '[';
    size_t count = 0;
    json_object(&json);
    json_key(&json, "missing");
    json_array(&json);
    at += !is_bad;
    const char *hex = is_bad ? NULL : next_hash(at, end, true, &is_bad);
    while (hex && !is_bad) {
        uint8_t hash[SHA256_BYTES];
        is_bad = !manifest_parse_hash(hex, SHA256_HEX_CHARS, hash) || ++count > HASHES_ASKED_MAX;
        if (!is_bad && !code_has(worker->code, hash)) {
            json_bytes(&json, hex, SHA256_HEX_CHARS);
        }
        at = hex + SHA256_HEX_CHARS + 1;
        hex = is_bad ? NULL : next_hash(at, end, false, &is_bad);
    }
    json_end(&json);
    json_end(&json);
    if (is_bad) {
        reply_problem(worker, request->id, 400,
                      "the body is not a JSON list of up to 65536 hashes");
        return;
    }
    reply(worker, request->id, 200, "application/json", &text);
}

static void answer_object(struct worker *worker, const struct depot_request *request,
                          const char *hex)
{
    uint8_t hash[SHA256_BYTES];
    struct err err = {0};
    struct str empty = {0};
    if (!manifest_parse_hash(hex, strlen(hex), hash)) {
        reply_problem(worker, request->id, 400, "an object is named by 64 lower-case hex digits");
    } else if (code_put(worker->code, hash, request->body, request->body_size, &err) != ERR_OK) {
        reply_error(worker, request->id, &err);
    } else {
        reply(worker, request->id, 204, "application/json", &empty);
    }
}

/* "HASH SIZE\n" BYTES, again and again. Returns what follows, or NULL. */
static const char *put_packed(struct worker *worker, const char *at, const char *end,
                              struct err *err)
{
    const char *line = memchr(at, '\n', (size_t)(end - at));
    uint8_t hash[SHA256_BYTES];
    size_t size = 0;
    bool is_good = line && line - at >= SHA256_HEX_CHARS + 2 && line - at < SHA256_HEX_CHARS + 9 &&
                   manifest_parse_hash(at, SHA256_HEX_CHARS, hash) && at[SHA256_HEX_CHARS] == ' ';
    for (const char *c = at + SHA256_HEX_CHARS + 1; is_good && c < line; c++) {
        is_good = *c >= '0' && *c <= '9';
        size = size * 10 + (size_t)(*c - '0');
    }
    if (!is_good || (size_t)(end - line - 1) < size) {
        err_set(err, ERR_INVALID, "a pack is \"HASH SIZE\\n\" and the bytes, again and again");
        return NULL;
    }
    if (code_put(worker->code, hash, line + 1, size, err) != ERR_OK) {
        return NULL;
    }
    return line + 1 + size;
}

static void answer_pack(struct worker *worker, const struct depot_request *request)
{
    const char *at = request->body;
    const char *end = at + request->body_size;
    uint64_t count = 0;
    struct err err = {0};
    while (at && at < end) {
        at = put_packed(worker, at, end, &err);
        count++;
    }
    if (!at && request->body_size > 0) {
        reply_error(worker, request->id, &err);
        return;
    }
    AUTO_STR struct str text = {0};
    str_addf(&text, "{\"objects\":%llu}", (unsigned long long)count);
    reply(worker, request->id, 200, "application/json", &text);
}

static void reply_missing(struct worker *worker, uint64_t id, const struct str *missing)
{
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    json_object(&json);
    json_key(&json, "type"), json_text(&json, "about:blank");
    json_key(&json, "title"), json_text(&json, "Conflict");
    json_key(&json, "status"), json_i64(&json, 409);
    json_key(&json, "detail"), json_text(&json, "objects of this version are missing");
    json_key(&json, "missing");
    json_array(&json);
    for (size_t i = 0; i + SHA256_HEX_CHARS < missing->size; i += SHA256_HEX_CHARS + 1) {
        json_bytes(&json, missing->text + i, SHA256_HEX_CHARS);
    }
    json_end(&json);
    json_end(&json);
    reply(worker, id, 409, "application/problem+json", &text);
}

static void answer_version(struct worker *worker, const struct depot_request *request)
{
    AUTO_STR struct str missing = {0};
    struct manifest *manifest = NULL;
    struct err err = {0};
    enum err_code code = code_put_version(worker->code, request->body, request->body_size,
                                          &manifest, &missing, &err);
    if (code != ERR_OK && missing.size > 0) {
        reply_missing(worker, request->id, &missing);
        return;
    }
    if (code != ERR_OK) {
        reply_error(worker, request->id, &err);
        return;
    }
    char version[SHA256_HEX_CHARS + 1];
    manifest_version(request->body, request->body_size, version);
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    json_object(&json);
    json_key(&json, "version"), json_text(&json, version);
    json_key(&json, "files"), json_u64(&json, manifest->file_count);
    json_key(&json, "bytes"), json_u64(&json, manifest->file_bytes);
    json_end(&json);
    manifest_destroy(manifest);
    reply(worker, request->id, 201, "application/json", &text);
}

static void answer_manifest(struct worker *worker, const struct depot_request *request,
                            const char *version)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    if (code_get_version(worker->code, version, &text, &err) != ERR_OK) {
        reply_error(worker, request->id, &err);
        return;
    }
    reply(worker, request->id, 200, "text/plain", &text);
}

void depot_code_answer(struct worker *worker, const struct depot_request *request)
{
    const char *objects = "/code/objects/";
    const char *versions = "/code/versions/";
    const char *path = request->path;
    bool is_get = strcmp(request->method, "GET") == 0;
    bool is_put = strcmp(request->method, "PUT") == 0;
    bool is_post = strcmp(request->method, "POST") == 0;
    if (is_post && strcmp(path, "/code/missing") == 0) {
        answer_missing(worker, request);
    } else if (is_put && strncmp(path, objects, strlen(objects)) == 0) {
        answer_object(worker, request, path + strlen(objects));
    } else if (is_put && strcmp(path, "/code/pack") == 0) {
        answer_pack(worker, request);
    } else if (is_post && strcmp(path, "/code/versions") == 0) {
        answer_version(worker, request);
    } else if (is_get && strncmp(path, versions, strlen(versions)) == 0) {
        answer_manifest(worker, request, path + strlen(versions));
    } else {
        reply_problem(worker, request->id, is_get || is_put || is_post ? 404 : 405,
                      "there is no such thing under /code/");
    }
}
