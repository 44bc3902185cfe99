/* What mounts ask, in terms of the engine. */
#include "base/mem.h"
#include "meta/server_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ENTRY_BYTES = 24, ENTRY_PLUS_BYTES = 152, EXTENTS_ANSWERED_MAX = 4096 };

static void set_attr(struct reply *reply, const struct engine_attr *attr)
{
    reply->answer.attr = arena_alloc(&reply->arena, sizeof *reply->answer.attr);
    meta_attr_to(attr, reply->answer.attr);
}

static struct engine_caller caller_of(const Drover__MetaOp *op)
{
    return (struct engine_caller){op->uid, op->gid, op->now_ns};
}

/* Reading. ------------------------------------------------------------------------------------- */

struct listing {
    struct reply *reply;
    Drover__MetaEntry **items;
    size_t count, cap;
    size_t used, room;
    bool plus;
    bool is_full;
};

static bool add_entry(void *context, const struct engine_entry *item)
{
    struct listing *listing = context;
    struct arena *arena = &listing->reply->arena;
    size_t size = strlen(item->name);
    if (listing->used > listing->room) {
        listing->is_full = true;
        return false;
    }
    listing->used += (listing->plus ? ENTRY_PLUS_BYTES : ENTRY_BYTES) + size;
    Drover__MetaEntry *entry = arena_alloc(arena, sizeof *entry);
    drover__meta_entry__init(entry);
    entry->name = meta_bytes(arena_strndup(arena, item->name, size), size);
    entry->inode = item->inode;
    entry->type = item->type;
    if (item->attr) {
        entry->attr = arena_alloc(arena, sizeof *entry->attr);
        meta_attr_to(item->attr, entry->attr);
    }
    VEC_PUSH(listing->items, listing->count, listing->cap) = entry;
    return true;
}

static enum err_code op_list(struct meta_server *server, const Drover__MetaOp *op,
                             struct reply *reply, struct err *err)
{
    char after[META_NAME_BYTES];
    struct engine_listing ask = {.folder = op->inode, .plus = (op->flags & 1) != 0};
    struct listing listing = {.reply = reply, .plus = ask.plus};
    listing.room = op->size < META_LIST_BYTES ? (size_t)op->size : META_LIST_BYTES;
    ask.after = op->name.len > 0 ? meta_name(&op->name, after) : NULL;
    enum err_code code = engine_list(server->engine, &ask, add_entry, &listing, &reply->posix, err);
    bool has_some = code == ERR_AGAIN && listing.count > 0; /* the rest is asked for anew */
    if (code == ERR_OK || has_some) {
        reply->answer.entry = arena_alloc(&reply->arena, (listing.count + 1) * sizeof(void *));
        reply->answer.n_entry = listing.count;
        for (size_t i = 0; i < listing.count; i++) {
            reply->answer.entry[i] = listing.items[i];
        }
        reply->answer.more = listing.is_full || has_some;
        code = ERR_OK;
    }
    free(listing.items);
    return code;
}

struct spans {
    struct meta_server *server;
    struct reply *reply;
    Drover__MetaExtent **items;
    size_t count, cap;
    size_t bytes;
};

static bool add_extent(void *context, const struct extent *extent)
{
    struct spans *spans = context;
    const void *young = volume_young(spans->server->volume, extent);
    if (spans->count == EXTENTS_ANSWERED_MAX || spans->bytes >= META_YOUNG_BYTES) {
        spans->reply->answer.more = true;
        spans->reply->answer.next = extent->file_offset;
        return false;
    }
    Drover__MetaExtent *item = arena_alloc(&spans->reply->arena, sizeof *item);
    meta_extent_to(extent, item);
    if (young) {
        item->data = meta_bytes(young, extent->stored_size);
        spans->bytes += extent->stored_size;
    }
    VEC_PUSH(spans->items, spans->count, spans->cap) = item;
    return true;
}

static enum err_code op_extents(struct meta_server *server, const Drover__MetaOp *op,
                                struct reply *reply, struct err *err)
{
    struct engine_attr attr;
    struct spans spans = {.server = server, .reply = reply};
    struct engine_span span = {op->inode, op->offset, op->size};
    enum err_code code = engine_getattr(server->engine, op->inode, &attr, &reply->posix, err);
    if (code == ERR_OK && S_ISREG(attr.mode)) {
        code = engine_extents(server->engine, &span, add_extent, &spans, &reply->posix, err);
    }
    if (code == ERR_OK) {
        set_attr(reply, &attr);
        reply->answer.extent = arena_alloc(&reply->arena, (spans.count + 1) * sizeof(void *));
        reply->answer.n_extent = spans.count;
        for (size_t i = 0; i < spans.count; i++) {
            reply->answer.extent[i] = spans.items[i];
        }
    }
    free(spans.items);
    return code;
}

static enum err_code op_bytes(struct meta_server *server, const Drover__MetaOp *op,
                              struct reply *reply, struct err *err)
{
    char name[META_NAME_BYTES];
    enum err_code code;
    if (op->verb == DROVER__META_VERB__META_VERB_READLINK) {
        code = engine_readlink(server->engine, op->inode, &reply->bytes, &reply->posix, err);
    } else if (op->verb == DROVER__META_VERB__META_VERB_XATTR_GET) {
        code = engine_xattr_get(server->engine, op->inode, meta_name(&op->name, name),
                                &reply->bytes, &reply->posix, err);
    } else {
        code = engine_xattr_list(server->engine, op->inode, &reply->bytes, &reply->posix, err);
    }
    reply->answer.data = meta_bytes(reply->bytes.text, code == ERR_OK ? reply->bytes.size : 0);
    return code;
}

static enum err_code op_attr(struct meta_server *server, const Drover__MetaOp *op,
                             struct reply *reply, struct err *err)
{
    char name[META_NAME_BYTES];
    struct engine_attr attr;
    enum err_code code = op->verb == DROVER__META_VERB__META_VERB_LOOKUP
                             ? engine_lookup(server->engine, op->inode, meta_name(&op->name, name),
                                             &attr, &reply->posix, err)
                             : engine_getattr(server->engine, op->inode, &attr, &reply->posix, err);
    if (code == ERR_OK) {
        set_attr(reply, &attr);
    }
    return code;
}

/* Sessions: what is open, synced, ordered. ----------------------------------------------------- */

static enum err_code op_open(struct meta_server *server, struct ask *ask, struct reply *reply,
                             struct err *err)
{
    enum err_code code = op_attr(server, ask->op, reply, err);
    if (code == ERR_OK && ask->session->opens.sum >= META_OPEN_MAX) {
        reply->posix = ENFILE;
        return err_set(err, ERR_INVALID, "too many open files");
    }
    if (code == ERR_OK) {
        counts_add(&ask->session->opens, ask->op->inode);
    }
    return code;
}

static enum err_code op_close(struct meta_server *server, struct ask *ask, struct err *err)
{
    uint64_t inode = ask->op->inode;
    for (const struct ask *other = ask->session->parked; other != ask; other = other->next) {
        if (other->op->verb == DROVER__META_VERB__META_VERB_OPEN && other->op->inode == inode) {
            return err_set(err, ERR_AGAIN, "it has not been opened yet");
        }
    }
    bool is_last = server_opens(server, inode) == counts_of(&ask->session->opens, inode) &&
                   counts_of(&ask->session->opens, inode) == 1;
    if (is_last) {
        enum err_code code = engine_forget(server->engine, inode, err);
        if (code == ERR_AGAIN) {
            return code;
        }
    }
    if (ask->op->flags & 1) {
        engine_release(server->engine, inode);
        sessions_settle(server);
        session_drop_fresh(ask->session, inode);
    }
    (void)counts_remove(&ask->session->opens, inode);
    return ERR_OK;
}

static enum err_code op_sync(struct meta_server *server, struct ask *ask, struct err *err)
{
    if (ask->seq == 0) {
        engine_release(server->engine, ask->op->inode);
        sessions_settle(server);
        ask->seq = volume_commit(server->volume);
    }
    if (volume_seq_durable(server->volume) < ask->seq) {
        return err_set(err, ERR_AGAIN, "not stored yet");
    }
    return ERR_OK;
}

static enum err_code op_order(struct meta_server *server, struct ask *ask, struct reply *reply,
                              struct err *err)
{
    const Drover__MetaOp *op = ask->op;
    char words[META_ORDER_BYTES_MAX];
    enum err_code code = ERR_OK;
    if (ask->order == NULL) {
        memcpy(words, op->data.data, op->data.len);
        words[op->data.len] = '\0';
        code = volume_order_begin(server->volume, words, &ask->order, err);
    }
    if (code == ERR_OK) {
        code = volume_order_go_on(ask->order, &reply->bytes, err);
    }
    reply->answer.data = meta_bytes(reply->bytes.text, reply->bytes.size);
    return code;
}

static void op_usage(struct meta_server *server, struct reply *reply)
{
    struct engine_usage usage;
    engine_usage(server->engine, &usage);
    reply->answer.files = usage.files;
    reply->answer.bytes = usage.bytes;
}

/* Changing. ------------------------------------------------------------------------------------ */

static enum err_code op_make(struct meta_server *server, struct ask *ask, struct engine_attr *attr,
                             int *posix, struct err *err)
{
    char name[META_NAME_BYTES];
    char target[META_NAME_BYTES];
    const Drover__MetaOp *op = ask->op;
    struct engine_caller caller = caller_of(op);
    struct engine_make make = {.folder = op->inode,
                               .name = meta_name(&op->name, name),
                               .mode = op->mode,
                               .rdev = op->rdev,
                               .target = meta_name(&op->new_name, target),
                               .inode = ask->fresh};
    enum err_code code = engine_make(server->engine, &caller, &make, attr, posix, err);
    bool opens = code == ERR_OK && (op->flags & 1);
    if (code != ERR_AGAIN) {
        session_pay(ask->session, ask->number);
    }
    if (opens && (ask->stamp == 0 || ask->held)) {
        /* All of a new file or none of it, whoever dies before it is closed. */
        const struct session *session = ask->session;
        if (session->owed_count + session->held_count < HELD_MAX) {
            engine_hold(server->engine, op->inode, attr->inode, ask->fresh != 0);
        }
        const struct fresh_file file = {.inode = attr->inode,
                                        .folder = op->inode,
                                        .number = ask->number,
                                        .is_held = engine_is_held(server->engine, attr->inode),
                                        .name = name};
        session_note_fresh(ask->session, &file);
    }
    if (opens && ask->stamp == 0) { /* else it was named in hello */
        counts_add(&ask->session->opens, attr->inode);
    }
    return code;
}

static enum err_code op_names(struct meta_server *server, const Drover__MetaOp *op,
                              struct engine_attr *attr, int *posix, struct err *err)
{
    char name[META_NAME_BYTES];
    char new_name[META_NAME_BYTES];
    struct engine_caller caller = caller_of(op);
    meta_name(&op->name, name);
    meta_name(&op->new_name, new_name);
    if (op->verb == DROVER__META_VERB__META_VERB_LINK) {
        struct engine_make link = {.folder = op->folder, .name = new_name, .inode = op->inode};
        return engine_link(server->engine, &caller, &link, attr, posix, err);
    }
    if (op->verb == DROVER__META_VERB__META_VERB_REMOVE) {
        struct engine_remove remove = {.folder = op->inode,
                                       .name = name,
                                       .is_folder = (op->flags & 1) != 0,
                                       .is_open = server_is_open,
                                       .context = server};
        return engine_remove(server->engine, &caller, &remove, posix, err);
    }
    struct engine_rename rename = {.from = op->inode,
                                   .to = op->folder,
                                   .old_name = name,
                                   .new_name = new_name,
                                   .flags = op->flags,
                                   .is_open = server_is_open,
                                   .context = server};
    return engine_rename(server->engine, &caller, &rename, posix, err);
}

static enum err_code op_setattr(struct meta_server *server, const Drover__MetaOp *op,
                                struct engine_attr *attr, int *posix, struct err *err)
{
    struct engine_caller caller = caller_of(op);
    struct engine_set set = {.set = op->flags};
    meta_attr_from(op->set, &set.attr);
    set.attr.inode = op->inode;
    enum err_code code = engine_setattr(server->engine, &caller, &set, attr, posix, err);
    if (code == ERR_OK) {
        engine_release(server->engine, op->inode);
    }
    return code;
}

static enum err_code op_xattr_set(struct meta_server *server, const Drover__MetaOp *op, int *posix,
                                  struct err *err)
{
    char name[META_NAME_BYTES];
    struct engine_caller caller = caller_of(op);
    static const uint8_t nothing[1];
    const void *value = op->data.len > 0 ? op->data.data : nothing;
    struct engine_xattr xattr = {.inode = op->inode,
                                 .name = meta_name(&op->name, name),
                                 .value = op->mode == 1 ? NULL : value,
                                 .size = op->data.len,
                                 .flags = (int)(op->flags & 3)};
    enum err_code code = engine_xattr_set(server->engine, &caller, &xattr, posix, err);
    if (code == ERR_OK) {
        engine_release(server->engine, op->inode);
    }
    return code;
}

static enum err_code change(struct meta_server *server, struct ask *ask, struct reply *reply,
                            struct err *err)
{
    struct engine_attr attr = {0};
    const Drover__MetaOp *op = ask->op;
    enum err_code code = grant_clear(server, ask, reply, err);
    if (code != ERR_OK) {
        return code;
    }
    if (op->verb == DROVER__META_VERB__META_VERB_MAKE) {
        code = op_make(server, ask, &attr, &reply->posix, err);
    } else if (op->verb == DROVER__META_VERB__META_VERB_WRITE) {
        code = op_write(server, ask, &attr, &reply->posix, err);
    } else if (op->verb == DROVER__META_VERB__META_VERB_SETATTR) {
        code = op_setattr(server, op, &attr, &reply->posix, err);
    } else if (op->verb == DROVER__META_VERB__META_VERB_XATTR_SET) {
        code = op_xattr_set(server, op, &reply->posix, err);
    } else {
        code = op_names(server, op, &attr, &reply->posix, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    server->tide++;
    struct session *session = ask->session;
    session->last = ask->number > session->last ? ask->number : session->last;
    sessions_settle(server);
    session_store(server, session); /* in the same commit as the change */
    /* What is made again keeps its place, should it have to be made once more. */
    reply->answer.stamp = ask->stamp ? ask->stamp : ++server->stamp;
    server->counts.changes++;
    if (attr.inode != 0) {
        set_attr(reply, &attr);
    }
    return ERR_OK;
}

/* A change that an owner before us has stored, and whose answer was lost. A new file that was held
 * back then is not there: *is_missing, and it is made again. */
static enum err_code recognise(struct meta_server *server, struct ask *ask, struct reply *reply,
                               bool *is_missing, struct err *err)
{
    char name[META_NAME_BYTES];
    const Drover__MetaOp *op = ask->op;
    struct engine_attr attr = {0};
    enum err_code code = ERR_OK;
    if (op->verb == DROVER__META_VERB__META_VERB_MAKE) {
        code = ask->fresh ? engine_getattr(server->engine, ask->fresh, &attr, &reply->posix, err)
                          : engine_lookup(server->engine, op->inode, meta_name(&op->name, name),
                                          &attr, &reply->posix, err);
        *is_missing = code == ERR_INVALID && (op->flags & 1);
        if (code == ERR_OK && (op->flags & 1) && ask->stamp == 0) {
            counts_add(&ask->session->opens, attr.inode);
        }
    } else if (op->verb != DROVER__META_VERB__META_VERB_REMOVE &&
               op->verb != DROVER__META_VERB__META_VERB_RENAME) {
        code = engine_getattr(server->engine, op->inode, &attr, &reply->posix, err);
    }
    if (code == ERR_OK && attr.inode != 0) {
        set_attr(reply, &attr);
    }
    server->counts.repeated += code == ERR_OK;
    return code;
}

static enum err_code apply_change(struct meta_server *server, struct ask *ask, struct reply *reply,
                                  struct err *err)
{
    bool is_missing = false;
    if (ask->number <= ask->session->last) {
        enum err_code code = recognise(server, ask, reply, &is_missing, err);
        if (!is_missing) {
            return code;
        }
    }
    reply->posix = 0;
    return change(server, ask, reply, err);
}

enum err_code op_apply(struct meta_server *server, struct ask *ask, struct reply *reply,
                       struct err *err)
{
    const Drover__MetaOp *op = ask->op;
    reply->posix = 0;
    if (meta_is_change(op->verb)) {
        return apply_change(server, ask, reply, err);
    }
    switch ((int)op->verb) {
    case DROVER__META_VERB__META_VERB_LOOKUP:
    case DROVER__META_VERB__META_VERB_GETATTR:
        return op_attr(server, op, reply, err);
    case DROVER__META_VERB__META_VERB_LIST:
        return op_list(server, op, reply, err);
    case DROVER__META_VERB__META_VERB_EXTENTS:
        return op_extents(server, op, reply, err);
    case DROVER__META_VERB__META_VERB_USAGE:
        op_usage(server, reply);
        return ERR_OK;
    case DROVER__META_VERB__META_VERB_OPEN:
        return op_open(server, ask, reply, err);
    case DROVER__META_VERB__META_VERB_CLOSE:
        return op_close(server, ask, err);
    case DROVER__META_VERB__META_VERB_LOCK:
        return op_lock(server, ask, &reply->posix, err);
    case DROVER__META_VERB__META_VERB_SYNC:
        return op_sync(server, ask, err);
    case DROVER__META_VERB__META_VERB_ORDER:
        return op_order(server, ask, reply, err);
    default:
        return op_bytes(server, op, reply, err);
    }
}
