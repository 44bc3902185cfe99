/* What a mount was told and must be able to say again. */
#include "base/mem.h"
#include "meta/link_internal.h"

#include <stdlib.h>

enum { OPENS = 1 };

void call_free_unused(struct meta_call *call)
{
    if (call->is_wanted || call->is_waiting || call->is_kept) {
        return;
    }
    meta_free_answer(call->answer);
    str_release(&call->op);
    free(call);
}

void call_settle(struct meta_link *link, struct meta_call *call)
{
    TAILQ_REMOVE(&link->waiting, call, link);
    call->is_waiting = false;
    call_free_unused(call);
}

bool kept_is_held(const struct meta_call *call)
{
    return call->verb == DROVER__META_VERB__META_VERB_MAKE && (call->flags & OPENS) &&
           call->seq == UINT64_MAX;
}

static void unkeep(struct meta_link *link, struct meta_call *call)
{
    TAILQ_REMOVE(&link->kept, call, link);
    link->held_count -= kept_is_held(call);
    link->again_count -= call->is_again;
    link->kept_bytes -= call->op.size;
    call->is_kept = false;
    call_free_unused(call);
}

void kept_add(struct meta_link *link, struct meta_call *call)
{
    struct meta_call *before = TAILQ_LAST(&link->kept, call_list);
    if (call->answer->stamp == 0) {
        return; /* an owner before this one has stored it */
    }
    while (before && before->number > call->number) {
        before = TAILQ_PREV(before, call_list, link);
    }
    if (before) {
        TAILQ_INSERT_AFTER(&link->kept, before, call, link);
    } else {
        TAILQ_INSERT_HEAD(&link->kept, call, link);
    }
    const Drover__MetaAnswer *answer = call->answer;
    bool opens = call->verb == DROVER__META_VERB__META_VERB_MAKE && (call->flags & OPENS);
    call->is_kept = true;
    call->stamp = answer->stamp;
    call->seq = opens ? UINT64_MAX : answer->seq; /* a new file is held back until it is closed */
    if (call->verb == DROVER__META_VERB__META_VERB_MAKE && answer->attr) {
        call->fresh = answer->attr->inode;
    }
    link->kept_bytes += call->op.size;
    link->held_count += kept_is_held(call);
}

void kept_release(struct meta_link *link, const struct meta_call *call, uint64_t seq)
{
    bool is_whole_close = call->verb == DROVER__META_VERB__META_VERB_CLOSE && (call->flags & 1);
    bool may_release = meta_is_change(call->verb) || is_whole_close ||
                       call->verb == DROVER__META_VERB__META_VERB_SYNC;
    if (call->verb == DROVER__META_VERB__META_VERB_MAKE || !may_release) {
        return;
    }
    size_t left = link->held_count;
    struct meta_call *kept = TAILQ_LAST(&link->kept, call_list);
    for (; kept && left > 0; kept = TAILQ_PREV(kept, call_list, link)) {
        bool is_it =
            kept->fresh == call->inode || (call->name_key && call->name_key == kept->name_key);
        left -= kept_is_held(kept);
        if (kept_is_held(kept) && is_it) {
            kept->seq = seq;
            link->held_count--;
        }
    }
}

void kept_forget_stored(struct meta_link *link)
{
    struct meta_call *call = NULL;
    struct meta_call *next;
    if (link->forgotten_at == link->durable) {
        return;
    }
    link->forgotten_at = link->durable;
    for (call = TAILQ_FIRST(&link->kept); call; call = next) {
        next = TAILQ_NEXT(call, link);
        if (call->seq <= link->durable && !call->is_again) {
            unkeep(link, call);
        }
    }
}

static bool is_stored(const struct meta_call *call, const Drover__MetaWelcome *welcome)
{
    for (size_t i = 0; i < welcome->n_held; i++) {
        if (welcome->held[i] == call->number) {
            return false;
        }
    }
    return call->number <= welcome->last;
}

void kept_say_again(struct meta_link *link, const Drover__MetaWelcome *welcome)
{
    struct meta_call *call = NULL;
    struct meta_call *next;
    for (call = TAILQ_FIRST(&link->kept); call; call = next) {
        next = TAILQ_NEXT(call, link);
        if (is_stored(call, welcome)) {
            unkeep(link, call);
            continue;
        }
        link->again_count += !call->is_again;
        call->is_again = true;
        call->is_sent = false;
        link->has_unsent = true;
        link->counts.again++;
    }
}

struct meta_call *kept_find(const struct meta_link *link, uint64_t number)
{
    struct meta_call *call = NULL;
    TAILQ_FOREACH(call, &link->kept, link)
    {
        if (call->number == number) {
            return call;
        }
    }
    return NULL;
}

void kept_answered_again(struct meta_link *link, struct meta_call *call,
                         const Drover__MetaAnswer *answer)
{
    if (!call->is_again) {
        return;
    }
    call->is_again = false;
    link->again_count--;
    link->forgotten_at = 0;
    if (answer->code != ERR_OK) {
        link->counts.lost++;
        if (link->options.tell) {
            link->options.tell(link->options.context,
                               "a change that was not stored when the owner died could not be made "
                               "again");
        }
        unkeep(link, call);
        return;
    }
    call->stamp = answer->stamp ? answer->stamp : call->stamp;
    if (!kept_is_held(call)) {
        call->seq = answer->seq;
    }
}

/* Holdings. ------------------------------------------------------------------------------------ */

void holdings_asked(struct meta_link *link, const struct meta_call *call)
{
    if (call->verb == DROVER__META_VERB__META_VERB_CLOSE) {
        if (counts_remove(&link->opens, call->inode)) {
            counts_add(&link->closing, call->inode);
        }
    } else if (call->verb == DROVER__META_VERB__META_VERB_LOCK && !call->is_reclaim) {
        locks_asked(link, call);
    }
}

void holdings_answered(struct meta_link *link, const struct meta_call *call,
                       const Drover__MetaAnswer *answer)
{
    if (call->is_early) {
        (void)counts_remove(&link->early, call->inode);
        if (answer->code != ERR_OK) {
            (void)counts_remove(&link->opens, call->inode);
        }
        return;
    }
    if (call->verb == DROVER__META_VERB__META_VERB_CLOSE) {
        (void)counts_remove(&link->closing, call->inode);
    }
    if (answer->code != ERR_OK) {
        return;
    }
    if (call->verb == DROVER__META_VERB__META_VERB_OPEN) {
        counts_add(&link->opens, call->inode);
    } else if (call->verb == DROVER__META_VERB__META_VERB_MAKE && (call->flags & OPENS) &&
               answer->attr) {
        counts_add(&link->opens, answer->attr->inode);
    }
}
