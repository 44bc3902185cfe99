/* Fetching a version of the code: its manifest, then the objects that no file here has, then links.
 */
#include "node/bulk_internal.h"

#include "base/io.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DAY_MS = 24 * 60 * 60 * 1000, MANIFESTS_SEARCHED = 3 };

/* A file that the pool lacks, once for each content. */
struct lacking {
    const struct manifest_entry *file;
    size_t left; /* chunks */
};

/* One of its chunks. Sorted by hash: several files may need the same. */
struct need {
    const uint8_t *hash;
    uint32_t file; /* in lacking */
    uint32_t chunk;
    bool is_met;
};

struct code_fetch {
    struct str text; /* of the manifest */
    struct manifest *manifest;
    struct lacking *files;
    size_t file_count;
    size_t file_cap;
    struct need *needs;
    size_t need_count;
    size_t need_cap;
    struct str asked;  /* hashes of the current Get */
    struct str object; /* what came of the current one */
    char object_name[SHA256_HEX_CHARS + 1];
    int tries; /* to unpack */
};

void bulk_code_release(struct code_fetch *code)
{
    if (code) {
        manifest_destroy(code->manifest);
        str_release(&code->text);
        str_release(&code->asked);
        str_release(&code->object);
        free(code->files);
        free(code->needs);
        free(code);
    }
}

static void fail(struct actor *actor, struct transfer *transfer, const struct err *err)
{
    bulk_actor_end(actor, transfer, err, NULL);
}

static void done(struct actor *actor, struct transfer *transfer)
{
    AUTO_STR struct str path = {0};
    bulk_pool_add_path(actor->pool, &path, transfer->name);
    bulk_actor_end(actor, transfer, NULL, str_text(&path));
    bulk_pool_expire(actor->pool, actor->kept, actor->kept_count, BULK_OLD_VERSIONS, DAY_MS);
}

static enum err_code open_pool(struct actor *actor, struct err *err)
{
    if (actor->pool) {
        return ERR_OK;
    }
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/code", actor->work);
    return bulk_pool_open(str_text(&folder), &actor->pool, err);
}

/* --- what is lacking ------------------------------------------------------------------------- */

static int compare_needs(const void *a, const void *b)
{
    const struct need *left = a;
    const struct need *right = b;
    int order = memcmp(left->hash, right->hash, SHA256_BYTES);
    return order != 0 ? order : (left->file > right->file) - (left->file < right->file);
}

static int compare_lacking(const void *a, const void *b)
{
    const struct manifest_entry *left = ((const struct lacking *)a)->file;
    const struct manifest_entry *right = ((const struct lacking *)b)->file;
    uint8_t left_id[SHA256_BYTES];
    uint8_t right_id[SHA256_BYTES];
    manifest_file_id(left, left_id);
    manifest_file_id(right, right_id);
    int order = memcmp(left_id, right_id, SHA256_BYTES);
    return order != 0 ? order : (int)left->is_executable - (int)right->is_executable;
}

static void list_files(struct actor *actor, struct code_fetch *code)
{
    code->file_count = 0;
    for (size_t i = 0; i < code->manifest->count; i++) {
        const struct manifest_entry *entry = &code->manifest->entries[i];
        if (entry->type == MANIFEST_FILE && !bulk_pool_has(actor->pool, entry)) {
            VEC_PUSH(code->files, code->file_count, code->file_cap) =
                (struct lacking){.file = entry, .left = entry->chunk_count};
        }
    }
    if (code->file_count == 0) {
        return;
    }
    qsort(code->files, code->file_count, sizeof *code->files, compare_lacking);
    size_t kept = 1;
    for (size_t i = 1; i < code->file_count; i++) {
        if (compare_lacking(&code->files[kept - 1], &code->files[i]) != 0) {
            code->files[kept++] = code->files[i];
        }
    }
    code->file_count = kept;
}

static void list_needs(struct code_fetch *code)
{
    code->need_count = 0;
    for (size_t i = 0; i < code->file_count; i++) {
        const struct manifest_entry *file = code->files[i].file;
        for (size_t k = 0; k < file->chunk_count; k++) {
            VEC_PUSH(code->needs, code->need_count, code->need_cap) =
                (struct need){.hash = file->chunks[k], .file = (uint32_t)i, .chunk = (uint32_t)k};
        }
    }
    if (code->need_count > 1) {
        qsort(code->needs, code->need_count, sizeof *code->needs, compare_needs);
    }
}

/* The first need of that hash, or NULL. */
static struct need *find_need(struct code_fetch *code, const uint8_t hash[SHA256_BYTES])
{
    size_t low = 0;
    size_t high = code->need_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(code->needs[middle].hash, hash, SHA256_BYTES) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_there =
        low < code->need_count && memcmp(code->needs[low].hash, hash, SHA256_BYTES) == 0;
    return is_there ? &code->needs[low] : NULL;
}

/* Gives checked bytes to all who need them. */
static enum err_code meet(struct actor *actor, struct code_fetch *code, struct need *need,
                          const void *bytes, struct err *err)
{
    const struct need *end = code->needs + code->need_count;
    const uint8_t *hash = need->hash;
    enum err_code result = ERR_OK;
    for (; need < end && memcmp(need->hash, hash, SHA256_BYTES) == 0 && result == ERR_OK; need++) {
        struct lacking *lacking = &code->files[need->file];
        if (need->is_met) {
            continue;
        }
        result = bulk_pool_put(actor->pool, lacking->file, need->chunk, bytes, err);
        if (result == ERR_OK) {
            need->is_met = true;
            lacking->left--;
        }
        if (result == ERR_OK && lacking->left == 0) {
            result = bulk_pool_finish(actor->pool, lacking->file, err);
        }
    }
    return result;
}

static enum err_code reuse_file(struct actor *actor, struct code_fetch *code,
                                const struct manifest_entry *old, void *buffer, struct err *err)
{
    for (size_t i = 0; i < old->chunk_count; i++) {
        struct need *need = find_need(code, old->chunks[i]);
        if (!need || need->is_met) {
            continue;
        }
        size_t size = 0;
        uint8_t hash[SHA256_BYTES];
        bulk_pool_read(actor->pool, old, i, buffer, &size);
        sha256_of(buffer, size, hash);
        if (size == 0 || memcmp(hash, need->hash, SHA256_BYTES) != 0) {
            continue;
        }
        enum err_code result = meet(actor, code, need, buffer, err);
        if (result != ERR_OK) {
            return result;
        }
    }
    return ERR_OK;
}

/* A large file of which a part changed: its other chunks are in the one of an earlier version. */
static enum err_code reuse_chunks(struct actor *actor, struct transfer *transfer, struct err *err)
{
    struct code_fetch *code = transfer->code;
    bool has_large = false;
    for (size_t i = 0; i < code->file_count; i++) {
        has_large = has_large || code->files[i].file->chunk_count > 1;
    }
    if (!has_large) {
        return ERR_OK;
    }
    char versions[MANIFESTS_SEARCHED][SHA256_HEX_CHARS + 1];
    size_t count = bulk_pool_list(actor->pool, versions, MANIFESTS_SEARCHED);
    AUTO_FREE void *buffer = mem_alloc(CODE_CHUNK_BYTES);
    AUTO_STR struct str text = {0};
    enum err_code result = ERR_OK;
    for (size_t i = 0; i < count && result == ERR_OK; i++) {
        struct manifest *old = NULL;
        if (bulk_pool_manifest(actor->pool, versions[i], &text, &old, NULL) != ERR_OK) {
            continue;
        }
        for (size_t k = 0; k < old->count && result == ERR_OK; k++) {
            if (old->entries[k].chunk_count > 1) {
                result = reuse_file(actor, code, &old->entries[k], buffer, err);
            }
        }
        manifest_destroy(old);
    }
    return result;
}

/* --- the steps ------------------------------------------------------------------------------- */

/* Gathers the hashes of the next objects to ask for. */
static void gather(struct code_fetch *code)
{
    const uint8_t *last = NULL;
    str_clear(&code->asked);
    for (size_t i = 0; i < code->need_count; i++) {
        const struct need *need = &code->needs[i];
        if (need->is_met || (last && memcmp(last, need->hash, SHA256_BYTES) == 0)) {
            continue;
        }
        str_add_bytes(&code->asked, need->hash, SHA256_BYTES);
        last = need->hash;
        if (code->asked.size == (size_t)BULK_HASHES_MAX * SHA256_BYTES) {
            break;
        }
    }
}

/* False: there is nothing left to ask for. */
static bool ask_objects(struct actor *actor, struct transfer *transfer)
{
    gather(transfer->code);
    if (transfer->code->asked.size == 0) {
        return false;
    }
    bulk_down_get(actor, transfer, DROVER__BULK_KIND__BULK_KIND_OBJECTS);
    return true;
}

static void unpack(struct actor *actor, struct transfer *transfer);

/* The manifest is here: what else is needed? */
static void find_lacking(struct actor *actor, struct transfer *transfer)
{
    struct code_fetch *code = transfer->code;
    struct err err = {0};
    list_files(actor, code);
    list_needs(code);
    if (reuse_chunks(actor, transfer, &err) != ERR_OK) {
        fail(actor, transfer, &err);
    } else if (!ask_objects(actor, transfer)) {
        unpack(actor, transfer);
    }
}

static void unpack(struct actor *actor, struct transfer *transfer)
{
    struct code_fetch *code = transfer->code;
    struct err err = {0};
    enum err_code result =
        bulk_pool_unpack(actor->pool, transfer->name, &code->text, code->manifest, &err);
    if (result == ERR_AGAIN && code->tries++ < 3) {
        find_lacking(actor, transfer); /* a task spoilt one meanwhile */
    } else if (result != ERR_OK) {
        fail(actor, transfer, &err);
    } else {
        done(actor, transfer);
    }
}

void bulk_code_start(struct actor *actor, struct transfer *transfer)
{
    struct err err = {0};
    uint8_t ignored[SHA256_BYTES];
    if (!manifest_parse_hash(transfer->name, strlen(transfer->name), ignored)) {
        err_set(&err, ERR_NOT_FOUND, "%s: no version of code", transfer->name);
        fail(actor, transfer, &err);
        return;
    }
    if (actor->is_shared) {
        bulk_down_get(actor, transfer, DROVER__BULK_KIND__BULK_KIND_UNPACK);
        return;
    }
    if (open_pool(actor, &err) != ERR_OK) {
        fail(actor, transfer, &err);
        return;
    }
    if (bulk_pool_check(actor->pool, transfer->name)) {
        done(actor, transfer);
        return;
    }
    transfer->code = mem_alloc(sizeof *transfer->code);
    struct code_fetch *code = transfer->code;
    if (bulk_pool_manifest(actor->pool, transfer->name, &code->text, &code->manifest, NULL) ==
        ERR_OK) {
        find_lacking(actor, transfer);
        return;
    }
    str_clear(&code->text);
    bulk_down_get(actor, transfer, DROVER__BULK_KIND__BULK_KIND_MANIFEST);
}

void bulk_code_fill_get(struct transfer *transfer, Drover__BulkGet *get)
{
    struct code_fetch *code = transfer->code;
    if (get->kind == DROVER__BULK_KIND__BULK_KIND_OBJECTS) {
        /* said again: only what has not come. If all has, and only the end was lost, any one */
        uint8_t any[SHA256_BYTES];
        memcpy(any, code->asked.text, SHA256_BYTES);
        gather(code);
        if (code->asked.size == 0) {
            str_add_bytes(&code->asked, any, SHA256_BYTES);
        }
        get->hashes.data = (uint8_t *)code->asked.text;
        get->hashes.len = code->asked.size;
    } else {
        str_clear(&code->text);
    }
    str_clear(&code->object);
}

static enum err_code take_object(struct actor *actor, struct code_fetch *code,
                                 const Drover__BulkPart *part, struct err *err)
{
    if (part->size > CODE_CHUNK_BYTES || part->path.len != SHA256_HEX_CHARS ||
        part->offset != code->object.size ||
        (part->offset > 0 && memcmp(part->path.data, code->object_name, SHA256_HEX_CHARS) != 0)) {
        return err_set(err, ERR_CORRUPT, "an object out of order");
    }
    memcpy(code->object_name, part->path.data, SHA256_HEX_CHARS);
    str_add_bytes(&code->object, part->data.data, part->data.len);
    if (code->object.size < part->size) {
        return ERR_OK;
    }
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_CHARS + 1];
    sha256_of(code->object.text, code->object.size, hash);
    sha256_hex(hash, hex);
    struct need *need = find_need(code, hash);
    if (strcmp(hex, code->object_name) != 0 || !need) {
        return err_set(err, ERR_CORRUPT, "object %.12s...: its bytes are others", hex);
    }
    /* the size is part of what the hash vouches for only if the manifest says the same */
    const struct manifest_entry *file = code->files[need->file].file;
    if (manifest_chunk_size(file, need->chunk) != code->object.size) {
        return err_set(err, ERR_CORRUPT, "%s: its size is wrong in the manifest", file->path);
    }
    enum err_code result = meet(actor, code, need, code->object.text, err);
    str_clear(&code->object);
    return result;
}

enum err_code bulk_code_take(struct actor *actor, struct transfer *transfer,
                             const Drover__BulkPart *part, struct err *err)
{
    struct code_fetch *code = transfer->code;
    if (code && transfer->get_kind == DROVER__BULK_KIND__BULK_KIND_OBJECTS) {
        return take_object(actor, code, part, err);
    }
    if (!code || transfer->get_kind != DROVER__BULK_KIND__BULK_KIND_MANIFEST ||
        part->offset != code->text.size || part->size > MANIFEST_BYTES_MAX) {
        return err_set(err, ERR_CORRUPT, "a manifest out of order");
    }
    str_add_bytes(&code->text, part->data.data, part->data.len);
    return ERR_OK;
}

void bulk_code_next(struct actor *actor, struct transfer *transfer)
{
    struct code_fetch *code = transfer->code;
    if (transfer->get_kind == DROVER__BULK_KIND__BULK_KIND_OBJECTS) {
        if (!ask_objects(actor, transfer)) {
            unpack(actor, transfer);
        }
        return;
    }
    char version[SHA256_HEX_CHARS + 1];
    struct err err = {0};
    manifest_version(str_text(&code->text), code->text.size, version);
    if (strcmp(version, transfer->name) != 0 ||
        manifest_parse(code->text.text, code->text.size, &code->manifest, &err) != ERR_OK) {
        err_set(&err, ERR_CORRUPT, "version %.12s...: its manifest is damaged", transfer->name);
        fail(actor, transfer, &err);
        return;
    }
    find_lacking(actor, transfer);
}
