#include "meta/upload.h"

#include "base/mem.h"
#include "volume/pack.h"

#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT_BYTES = 192 << 20, AGAIN_MS = 1000 };

struct upload_pack {
    struct upload_pack *next;
    struct upload *upload;
    struct container container;
    char key[CONTAINER_NAME_MAX];
    uint64_t data_size;
    struct str bytes; /* released once stored */
    bool is_stored, is_failed, is_in_flight;
    struct object_call call;
};

struct upload {
    struct object_store *store;
    struct volume_format format;
    uint32_t writer, term;
    uint64_t next_number;
    struct packer *packer;
    struct container container; /* of the packer */
    struct upload_pack *packs;  /* the newest first */
    uint64_t bytes;             /* sealed and not yet stored */
    uint64_t progress;
    int64_t tried_ms;
    struct err err;
};

struct upload *upload_create(struct object_store *store, const struct volume_format *format)
{
    struct upload *upload = mem_alloc(sizeof *upload);
    upload->store = store;
    upload->format = *format;
    upload->next_number = 1;
    return upload;
}

static void pack_destroy(struct upload_pack *pack)
{
    object_call_release(&pack->call);
    str_release(&pack->bytes);
    free(pack);
}

void upload_destroy(struct upload *upload)
{
    if (upload == NULL) {
        return;
    }
    while (upload->packs != NULL) {
        struct upload_pack *pack = upload->packs;
        upload->packs = pack->next;
        CHECK(!pack->is_in_flight);
        pack_destroy(pack);
    }
    packer_destroy(upload->packer);
    free(upload);
}

static void stored(struct object_call *call)
{
    struct upload_pack *pack = call->context;
    struct upload *upload = pack->upload;
    pack->is_in_flight = false;
    pack->is_failed = call->code != ERR_OK;
    upload->progress++;
    if (pack->is_failed) {
        upload->err = call->err;
        return;
    }
    upload->err.code = ERR_OK;
    upload->bytes -= pack->bytes.size;
    str_release(&pack->bytes);
    pack->is_stored = true;
}

static void start(struct upload_pack *pack)
{
    object_call_release(&pack->call);
    pack->call = (struct object_call){.verb = OBJECT_PUT,
                                      .key = pack->key,
                                      .data = pack->bytes.text,
                                      .data_size = pack->bytes.size,
                                      .done = stored,
                                      .context = pack};
    pack->is_failed = false;
    pack->is_in_flight = true;
    object_start(pack->upload->store, &pack->call);
}

static void seal(struct upload *upload)
{
    struct upload_pack *pack = mem_alloc(sizeof *pack);
    pack->upload = upload;
    pack->container = upload->container;
    container_name(&pack->container, pack->key);
    pack->data_size = packer_size(upload->packer);
    packer_seal(upload->packer, &pack->bytes);
    packer_destroy(upload->packer);
    upload->packer = NULL;
    upload->bytes += pack->bytes.size;
    pack->next = upload->packs;
    upload->packs = pack;
    start(pack);
}

void upload_set_writer(struct upload *upload, uint32_t writer, uint32_t term)
{
    if (upload->writer == writer && upload->term == term) {
        return;
    }
    if (upload->packer) {
        seal(upload); /* its bytes can still be read here */
    }
    upload->writer = writer;
    upload->term = term;
}

void upload_place(struct upload *upload, uint64_t inode, uint64_t file_offset, const void *data,
                  size_t size, struct extent *out)
{
    if (upload->packer && !packer_has_room(upload->packer, size)) {
        seal(upload);
    }
    if (!upload->packer) {
        upload->container = (struct container){.kind = CONTAINER_PACK,
                                               .writer = upload->writer,
                                               .term = upload->term,
                                               .number = upload->next_number++};
        upload->packer =
            packer_create(&upload->container, upload->format.pack_bytes, upload->format.zstd_level);
    }
    packer_add(upload->packer, inode, file_offset, data, size, out);
}

static struct upload_pack *find(const struct upload *upload, const struct container *container)
{
    struct upload_pack *pack = upload->packs;
    while (pack && !container_equal(&pack->container, container)) {
        pack = pack->next;
    }
    return pack;
}

const void *upload_young(const struct upload *upload, const struct extent *extent)
{
    if (extent->container.kind != CONTAINER_PACK || extent->container.writer == 0) {
        return NULL;
    }
    if (upload->packer && container_equal(&upload->container, &extent->container)) {
        return packer_bytes(upload->packer, extent->offset, extent->stored_size);
    }
    const struct upload_pack *pack = find(upload, &extent->container);
    if (!pack || pack->is_stored || extent->offset > pack->bytes.size ||
        extent->stored_size > pack->bytes.size - extent->offset) {
        return NULL;
    }
    return pack->bytes.text + extent->offset;
}

bool upload_is_stored(struct upload *upload, const struct container *container, uint64_t *size,
                      bool *is_lost)
{
    *is_lost = container->writer != upload->writer || container->term != upload->term;
    if (*is_lost) {
        return false;
    }
    if (upload->packer && container_equal(&upload->container, container)) {
        seal(upload);
    }
    const struct upload_pack *pack = find(upload, container);
    *is_lost = pack == NULL;
    if (pack) {
        *size = pack->data_size;
    }
    return pack && pack->is_stored;
}

bool upload_is_idle(const struct upload *upload)
{
    const struct upload_pack *pack = upload->packs;
    while (pack && !pack->is_in_flight) {
        pack = pack->next;
    }
    return pack == NULL;
}

bool upload_is_congested(const struct upload *upload)
{
    return upload->bytes + (upload->packer ? packer_size(upload->packer) : 0) >= IN_FLIGHT_BYTES;
}

uint64_t upload_progress(const struct upload *upload)
{
    return upload->progress;
}

uint64_t upload_next(const struct upload *upload)
{
    return upload->packer ? upload->container.number : upload->next_number;
}

void upload_forget(struct upload *upload, uint64_t floor)
{
    struct upload_pack **at = &upload->packs;
    while (*at != NULL) {
        struct upload_pack *pack = *at;
        if (pack->container.number < floor && pack->is_stored) {
            *at = pack->next;
            pack_destroy(pack);
        } else {
            at = &pack->next;
        }
    }
}

void upload_turn(struct upload *upload, int64_t now_ms)
{
    if (now_ms - upload->tried_ms < AGAIN_MS) {
        return;
    }
    upload->tried_ms = now_ms;
    for (struct upload_pack *pack = upload->packs; pack; pack = pack->next) {
        if (pack->is_failed && !pack->is_in_flight) {
            start(pack);
        }
    }
}

const char *upload_trouble(const struct upload *upload)
{
    return upload->err.code == ERR_OK ? NULL : upload->err.text;
}
