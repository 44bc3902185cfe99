/* What a mount knows without asking: taken from answers, given as answers. */
#include "base/mem.h"
#include "meta/link_internal.h"

#include <errno.h>
#include <stdlib.h>

enum { EARLY_MAX = 1024 }; /* files opened without waiting, of which the owner has not answered */

/* Hearing. ------------------------------------------------------------------------------------- */

static void hear_attr(struct meta_link *link, uint64_t tide, const Drover__MetaAttr *message)
{
    struct engine_attr attr;
    if (message && message->granted) {
        meta_attr_from(message, &attr);
        known_set_attr(link->known, tide, &attr);
    }
}

static void hear_listing(struct meta_link *link, const Drover__MetaOp *op,
                         const Drover__MetaAnswer *answer)
{
    for (size_t i = 0; i < answer->n_entry; i++) {
        const Drover__MetaEntry *entry = answer->entry[i];
        if (answer->granted && entry->attr && entry->attr->granted) {
            known_set_name(link->known, answer->tide, op->inode, &entry->name, entry->inode);
        }
        hear_attr(link, answer->tide, entry->attr);
    }
}

/* Names that our own change has given or taken away. */
static void hear_names(struct meta_link *link, const Drover__MetaOp *op,
                       const Drover__MetaAnswer *answer)
{
    bool is_link = op->verb == DROVER__META_VERB__META_VERB_LINK;
    uint64_t folder = is_link ? op->folder : op->inode;
    const ProtobufCBinaryData *name = is_link ? &op->new_name : &op->name;
    known_drop_name(link->known, folder, name);
    if (op->verb == DROVER__META_VERB__META_VERB_RENAME) {
        known_drop_name(link->known, op->folder, &op->new_name);
    } else if (answer->granted && answer->attr) {
        known_set_name(link->known, answer->tide, folder, name, answer->attr->inode);
    }
}

static void hear_change(struct meta_link *link, const struct meta_call *call,
                        const Drover__MetaAnswer *answer)
{
    Drover__MetaOp *op = NULL;
    bool is_of_names = call->verb == DROVER__META_VERB__META_VERB_MAKE ||
                       call->verb == DROVER__META_VERB__META_VERB_LINK ||
                       call->verb == DROVER__META_VERB__META_VERB_REMOVE ||
                       call->verb == DROVER__META_VERB__META_VERB_RENAME;
    for (size_t i = 0; i < answer->n_touched; i++) {
        known_change(link->known, answer->touched[i], answer->tide);
    }
    if (is_of_names && meta_parse_op(call->op.text, call->op.size, &op, NULL) == ERR_OK) {
        hear_names(link, op, answer);
        meta_free_op(op);
    }
    hear_attr(link, answer->tide, answer->attr);
}

void known_hear(struct meta_link *link, const struct meta_call *call,
                const Drover__MetaAnswer *answer, const void *bytes, size_t size)
{
    Drover__MetaOp *op = NULL;
    if (meta_is_change(call->verb)) {
        if (answer->code == ERR_OK) {
            hear_change(link, call, answer);
        }
        return;
    }
    if (call->verb == DROVER__META_VERB__META_VERB_LIST) {
        if (meta_parse_op(call->op.text, call->op.size, &op, NULL) == ERR_OK) {
            hear_listing(link, op, answer);
        }
    } else if (call->verb != DROVER__META_VERB__META_VERB_EXTENTS) {
        hear_attr(link, answer->tide, answer->attr);
    }
    if (answer->granted && op == NULL &&
        meta_parse_op(call->op.text, call->op.size, &op, NULL) != ERR_OK) {
        return;
    }
    if (answer->granted && call->verb == DROVER__META_VERB__META_VERB_LOOKUP) {
        known_set_name(link->known, answer->tide, op->inode, &op->name,
                       answer->attr ? answer->attr->inode : 0);
    } else if (answer->granted) {
        known_set_answer(link->known, answer->tide, op, bytes, size);
    }
    meta_free_op(op);
}

/* Knowing. ------------------------------------------------------------------------------------- */

/* A tenth is left for clocks that do not run alike. */
static bool lease_holds(const struct meta_link *link, int64_t now_ms)
{
    const Drover__MetaWelcome *welcome = meta_link_welcome(link);
    return link->state == LINK_JOINED && welcome && link->refused.code == ERR_OK &&
           now_ms - link->proven_ms < welcome->lease_ms - welcome->lease_ms / 10;
}

static Drover__MetaAnswer *answer_create(const struct engine_attr *attr)
{
    Drover__MetaAnswer *answer = mem_alloc(sizeof *answer);
    drover__meta_answer__init(answer);
    if (attr) {
        answer->attr = mem_alloc(sizeof *answer->attr);
        meta_attr_to(attr, answer->attr);
    } else {
        answer->code = ERR_INVALID;
        answer->posix = ENOENT;
    }
    return answer;
}

static Drover__MetaAnswer *known_lookup(struct meta_link *link, const Drover__MetaOp *op)
{
    uint64_t inode = 0;
    if (!known_name(link->known, op->inode, &op->name, &inode)) {
        return NULL;
    }
    const struct engine_attr *attr = inode ? known_attr(link->known, inode) : NULL;
    return inode && !attr ? NULL : answer_create(attr);
}

/* Attributes that came with a listing may have changed since; those known now have not. */
static bool refresh(struct meta_link *link, Drover__MetaAnswer *answer)
{
    for (size_t i = 0; i < answer->n_entry; i++) {
        Drover__MetaEntry *entry = answer->entry[i];
        const struct engine_attr *attr = entry->attr ? known_attr(link->known, entry->inode) : NULL;
        if (entry->attr && !attr) {
            return false;
        }
        if (attr) {
            meta_attr_to(attr, entry->attr);
        }
    }
    return true;
}

static Drover__MetaAnswer *known_whole(struct meta_link *link, const Drover__MetaOp *op)
{
    Drover__MetaAnswer *answer = NULL;
    const void *bytes = NULL;
    size_t size = 0;
    if (known_answer(link->known, op, &bytes, &size) &&
        meta_parse_answer(bytes, size, &answer, NULL) == ERR_OK && !refresh(link, answer)) {
        meta_free_answer(answer);
        answer = NULL;
    }
    return answer;
}

static Drover__MetaAnswer *find(struct meta_link *link, const Drover__MetaOp *op)
{
    switch ((int)op->verb) {
    case DROVER__META_VERB__META_VERB_LOOKUP:
        return known_lookup(link, op);
    case DROVER__META_VERB__META_VERB_GETATTR: {
        const struct engine_attr *attr = known_attr(link->known, op->inode);
        return attr ? answer_create(attr) : NULL;
    }
    case DROVER__META_VERB__META_VERB_LIST:
    case DROVER__META_VERB__META_VERB_READLINK:
    case DROVER__META_VERB__META_VERB_XATTR_GET:
    case DROVER__META_VERB__META_VERB_XATTR_LIST:
        return known_whole(link, op);
    default:
        return NULL;
    }
}

struct meta_call *meta_link_known(struct meta_link *link, const Drover__MetaOp *op, int64_t now_ms)
{
    Drover__MetaAnswer *answer = lease_holds(link, now_ms) ? find(link, op) : NULL;
    if (answer == NULL) {
        return NULL;
    }
    answer->tide = link->tide; /* it is true now, whenever it was answered */
    struct meta_call *call = mem_alloc(sizeof *call);
    call->verb = op->verb;
    call->key = meta_key_of(op);
    call->answer = answer;
    call->is_wanted = true;
    link->counts.known++;
    return call;
}

bool meta_link_open(struct meta_link *link, const Drover__MetaOp *op, int64_t now_ms,
                    struct meta_call **out, struct engine_attr *attr)
{
    bool may_know = lease_holds(link, now_ms) && link->early.sum < EARLY_MAX;
    const struct engine_attr *known = may_know ? known_attr(link->known, op->inode) : NULL;
    if (known != NULL) {
        *attr = *known;
    }
    *out = meta_link_ask(link, op);
    if (known != NULL) {
        (*out)->is_early = true;
        counts_add(&link->opens, op->inode);
        counts_add(&link->early, op->inode);
        link->counts.known++;
    }
    return known != NULL;
}

bool meta_call_is_reading(const struct meta_call *call)
{
    return call->verb == DROVER__META_VERB__META_VERB_LOOKUP ||
           call->verb == DROVER__META_VERB__META_VERB_GETATTR ||
           call->verb == DROVER__META_VERB__META_VERB_LIST ||
           call->verb == DROVER__META_VERB__META_VERB_EXTENTS;
}

bool meta_call_is_overtaken(const struct meta_link *link, const struct meta_call *call)
{
    const Drover__MetaAnswer *answer = call->answer;
    if (answer == NULL || !meta_call_is_reading(call)) {
        return false;
    }
    bool is_overtaken =
        answer->attr && known_is_overtaken(link->known, answer->attr->inode, answer->tide);
    for (size_t i = 0; i < answer->n_entry; i++) {
        const Drover__MetaEntry *entry = answer->entry[i];
        is_overtaken = is_overtaken ||
                       (entry->attr && known_is_overtaken(link->known, entry->inode, answer->tide));
    }
    return is_overtaken;
}
