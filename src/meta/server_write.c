/* New content of a file: bytes that come with the message, and packs that the mount has stored. */
#include "base/mem.h"
#include "meta/server_internal.h"

#include <errno.h>
#include <stdlib.h>

static const Drover__MetaPack *pack_of(const Drover__MetaOp *op, uint64_t number)
{
    for (size_t i = 0; i < op->n_pack; i++) {
        if (op->pack[i]->number == number) {
            return op->pack[i];
        }
    }
    return NULL;
}

/* Every part of a pack lies in one that this mount has stored under its own name. */
static bool packs_are_ours(const struct session *session, const Drover__MetaOp *op)
{
    for (size_t i = 0; i < op->n_extent; i++) {
        const Drover__MetaExtent *extent = op->extent[i];
        if (extent->kind == 0) {
            continue;
        }
        const Drover__MetaPack *pack = pack_of(op, extent->number);
        if (!pack || extent->writer != session->writer || extent->term != session->term ||
            extent->number < session->floor || extent->offset > pack->size ||
            extent->stored_size > pack->size - extent->offset) {
            return false;
        }
    }
    return true;
}

static struct container container_of(const struct session *session, uint64_t number)
{
    return (struct container){CONTAINER_PACK, session->writer, session->term, number};
}

/* Asks for what the map has of them, so that nothing has to wait later. */
static enum err_code look_up_packs(struct meta_server *server, const struct ask *ask, bool *known,
                                   struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < ask->op->n_pack && code == ERR_OK; i++) {
        struct container container = container_of(ask->session, ask->op->pack[i]->number);
        code = engine_container_is_known(server->engine, &container, &known[i], err);
    }
    return code;
}

static void place_data(struct meta_server *server, struct ask *ask)
{
    const Drover__MetaOp *op = ask->op;
    uint64_t bytes = 0;
    ask->extents = mem_array(op->n_extent, sizeof *ask->extents);
    ask->volume = server->volume;
    for (size_t i = 0; i < op->n_extent; i++) {
        bytes += op->extent[i]->data.len;
    }
    bool inlined = (op->flags & 2) && bytes <= EXTENT_INLINE_MAX;
    for (size_t i = 0; i < op->n_extent; i++) {
        const Drover__MetaExtent *extent = op->extent[i];
        if (extent->data.len > 0) {
            volume_place(server->volume, op->inode, extent->file_offset, extent->data.data,
                         extent->data.len, inlined, &ask->extents[i]);
        } else {
            meta_extent_from(extent, &ask->extents[i]);
        }
    }
}

void op_write_end(struct ask *ask)
{
    for (size_t i = 0; ask->extents && i < ask->op->n_extent; i++) {
        if (ask->op->extent[i]->data.len > 0) {
            volume_written(ask->volume, &ask->extents[i], 1);
        }
    }
    free(ask->extents);
    ask->extents = NULL;
}

static void add_packs(struct meta_server *server, const struct ask *ask, const bool *known)
{
    for (size_t i = 0; i < ask->op->n_pack; i++) {
        const Drover__MetaPack *pack = ask->op->pack[i];
        struct engine_container record = {
            .container = container_of(ask->session, pack->number),
            .size = pack->size,
            .born = volume_seq_next(server->volume),
        };
        if (!known[i]) {
            engine_container_add(server->engine, &record);
        }
    }
}

static enum err_code write_extents(struct meta_server *server, struct ask *ask,
                                   struct engine_attr *out, int *posix, struct err *err)
{
    const Drover__MetaOp *op = ask->op;
    struct engine_caller caller = {op->uid, op->gid, op->now_ns};
    struct engine_write write = {.inode = op->inode,
                                 .size = op->size,
                                 .extents = ask->extents,
                                 .count = op->n_extent,
                                 .mtime_ns = op->mtime_ns,
                                 .kill_priv = (op->flags & 1) != 0};
    return engine_write(server->engine, &caller, &write, out, posix, err);
}

enum err_code op_write(struct meta_server *server, struct ask *ask, struct engine_attr *out,
                       int *posix, struct err *err)
{
    AUTO_FREE bool *known = mem_array(ask->op->n_pack, sizeof *known);
    struct engine_attr before;
    if (!packs_are_ours(ask->session, ask->op)) {
        return err_set(err, ERR_STALE, "inode %llu: its data was written under a lapsed session",
                       (unsigned long long)ask->op->inode);
    }
    enum err_code code = engine_getattr(server->engine, ask->op->inode, &before, posix, err);
    if (code == ERR_OK) {
        code = look_up_packs(server, ask, known, err);
    }
    if (code == ERR_OK && volume_is_congested(server->volume)) {
        (void)volume_commit(server->volume);
        return err_set(err, ERR_AGAIN, "too much is on its way to the store");
    }
    if (code == ERR_OK && ask->extents == NULL) {
        place_data(server, ask);
    }
    if (code == ERR_OK) {
        code = write_extents(server, ask, out, posix, err);
    }
    if (code == ERR_OK) {
        add_packs(server, ask, known);
        engine_release(server->engine, ask->op->inode);
        sessions_settle(server);
        session_drop_fresh(ask->session, ask->op->inode);
    }
    return code;
}
