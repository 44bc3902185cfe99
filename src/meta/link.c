#include "meta/link.h"

#include "base/mem.h"
#include "meta/link_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 10 * 1000, HEARTBEAT_MS = 1000 }; /* until the first welcome */

void link_tell(const struct meta_link *link, const char *line)
{
    if (link->options.tell) {
        link->options.tell(link->options.context, line);
    }
}

struct meta_link *meta_link_create(const struct meta_link_options *options, int64_t now_ms)
{
    struct meta_link *link = mem_alloc(sizeof *link);
    link->options = *options;
    TAILQ_INIT(&link->waiting);
    TAILQ_INIT(&link->kept);
    link->next_number = 1;
    link->floor = 1;
    link->known = known_create(META_KNOWN_BYTES_MAX);
    known_begin(link->known, UINT64_MAX);
    link->heard_ms = now_ms;
    link->now_ms = now_ms;
    link->proven_ms = INT64_MIN / 2;
    link->greeted_ms = now_ms - HEARTBEAT_MS;
    link->patience_ms = HEARTBEAT_MS;
    link->reset_ms = now_ms;
    return link;
}

static void free_list(struct call_list *list)
{
    struct meta_call *call = NULL;
    while ((call = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, call, link);
        call->is_waiting = call->is_kept = false;
        call_free_unused(call);
    }
}

void meta_link_destroy(struct meta_link *link)
{
    if (link == NULL) {
        return;
    }
    free_list(&link->waiting);
    free_list(&link->kept);
    meta_free_answer(link->welcome);
    counts_release(&link->opens);
    counts_release(&link->early);
    counts_release(&link->closing);
    known_destroy(link->known);
    free(link->locks);
    free(link);
}

/* Sending. ------------------------------------------------------------------------------------- */

static bool send_ask(struct meta_link *link, Drover__MetaAsk *ask)
{
    AUTO_STR struct str bytes = {0};
    ask->clock_ms = link->now_ms;
    str_add_repeat(&bytes, " ", drover__meta_ask__get_packed_size(ask));
    (void)drover__meta_ask__pack(ask, (uint8_t *)bytes.text);
    link->sent_ms = link->now_ms;
    return link->options.send(link->options.context, bytes.text, bytes.size);
}

/* Everything up to this number has been answered, with or without what is asked about locks. */
static uint64_t have_of(const struct meta_link *link, bool with_locks)
{
    uint64_t have = link->next_number - 1;
    const struct meta_call *call = TAILQ_FIRST(&link->waiting);
    while (call && !with_locks && call->verb == DROVER__META_VERB__META_VERB_LOCK) {
        call = TAILQ_NEXT(call, link);
    }
    if (call) {
        have = call->number - 1;
    }
    if (link->again_count > 0) {
        TAILQ_FOREACH(call, &link->kept, link)
        {
            if (call->is_again && call->number - 1 < have) {
                have = call->number - 1;
            }
        }
    }
    return have;
}

/* Packs that something on its way refers to. */
static uint64_t floor_of(const struct meta_link *link)
{
    uint64_t floor = link->floor;
    const struct meta_call *call = NULL;
    TAILQ_FOREACH(call, &link->kept, link)
    {
        floor = call->pack_min < floor ? call->pack_min : floor;
    }
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        floor = call->pack_min < floor ? call->pack_min : floor;
    }
    return floor;
}

bool link_has_lease(const struct meta_link *link, int64_t now_ms)
{
    const Drover__MetaWelcome *welcome = meta_link_welcome(link);
    return welcome && now_ms - link->proven_ms < welcome->lease_ms;
}

static bool all_said_again(const struct meta_link *link)
{
    const struct meta_call *call = NULL;
    bool all = true;
    if (link->again_count > 0) {
        TAILQ_FOREACH(call, &link->kept, link)
        {
            all = all && (!call->is_again || call->is_sent);
        }
    }
    return all;
}

static void fill(const struct meta_link *link, Drover__MetaAsk *ask, uint64_t after)
{
    ask->have = have_of(link, false);
    ask->have_locks = have_of(link, true);
    ask->after = after;
    /* Only with what it comes after: if that was lost on the way, it does not count. */
    ask->ready = link->state == LINK_JOINED && all_said_again(link) &&
                 (after != 0 || link->again_count == 0);
}

static bool send_call(struct meta_link *link, struct meta_call *call, uint64_t after)
{
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    fill(link, &ask, after);
    ask.number = call->number;
    ask.op = meta_bytes(call->op.text, call->op.size);
    if (call->is_again) {
        ask.stamp = call->stamp;
        ask.fresh = call->fresh;
        ask.held = kept_is_held(call);
    }
    call->is_sent = send_ask(link, &ask);
    return call->is_sent;
}

/* A sign of life that also says how far we are. */
static void say_alive(struct meta_link *link, uint64_t after)
{
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    fill(link, &ask, after);
    ask.floor = floor_of(link);
    link->alive_ms = link->now_ms;
    (void)send_ask(link, &ask);
}

/* The next that is to be answered: of what is said again and of what waits, by number. */
static struct meta_call *pending_next(struct meta_call **again, struct meta_call **waiting)
{
    while (*again && !(*again)->is_again) {
        *again = TAILQ_NEXT(*again, link);
    }
    bool takes_again = *again && (!*waiting || (*again)->number < (*waiting)->number);
    struct meta_call **from = takes_again ? again : waiting;
    struct meta_call *call = *from;
    *from = call ? TAILQ_NEXT(call, link) : NULL;
    return call;
}

/* Everything that was not sent over this connection, in order. */
static void send_unsent(struct meta_link *link)
{
    uint64_t after = 0;
    size_t left = link->again_count;
    bool goes_on = link->state == LINK_JOINED && link->has_unsent;
    struct meta_call *again = TAILQ_FIRST(&link->kept);
    struct meta_call *waiting = TAILQ_FIRST(&link->waiting);
    struct meta_call *call = NULL;
    while (goes_on && (call = pending_next(&again, &waiting)) != NULL) {
        bool is_news = !call->is_sent;
        goes_on = call->is_sent || send_call(link, call, after);
        after = call->number;
        left -= call->is_again;
        if (goes_on && is_news && call->is_again && left == 0) {
            say_alive(link, after); /* all that was answered has been said again */
        }
    }
    link->has_unsent = link->has_unsent && !goes_on;
}

static uint64_t last_pending(const struct meta_link *link)
{
    const struct meta_call *call = TAILQ_LAST(&link->waiting, call_list);
    uint64_t number = call ? call->number : 0;
    if (link->again_count > 0) {
        TAILQ_FOREACH(call, &link->kept, link)
        {
            number = call->is_again && call->number > number ? call->number : number;
        }
    }
    return number;
}

/* What the owner is to count as open before it hears what waits for an answer, in which some of it
 * is opened and some closed. */
static size_t list_opens(const struct meta_link *link, uint64_t *out)
{
    const struct counts *lists[] = {&link->opens, &link->closing};
    size_t count = 0;
    for (size_t list = 0; list < 2; list++) {
        for (size_t i = 0; i < lists[list]->count; i++) {
            uint64_t inode = lists[list]->items[i].inode;
            uint64_t is_open = counts_of(&link->opens, inode);
            uint64_t sum = is_open + counts_of(&link->closing, inode);
            bool is_listed = list > 0 && is_open > 0;
            for (uint64_t j = counts_of(&link->early, inode); j < sum && !is_listed; j++) {
                out[count++] = inode;
            }
        }
    }
    return count;
}

static void greet(struct meta_link *link)
{
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    Drover__MetaHello hello = DROVER__META_HELLO__INIT;
    AUTO_FREE uint64_t *opens = mem_array(link->opens.sum + link->closing.sum, sizeof *opens);
    AUTO_FREE Drover__MetaLock **locks = mem_array(link->lock_count, sizeof *locks);
    size_t count = list_opens(link, opens);
    if (!link_has_lease(link, link->now_ms)) {
        locks_doubt(link);
    }
    hello.protocol = META_PROTOCOL;
    hello.mount = meta_bytes(link->options.mount, META_ID_BYTES);
    hello.secret = (char *)(uintptr_t)link->options.secret;
    hello.who = (char *)(uintptr_t)link->options.who;
    hello.version = (char *)(uintptr_t)DROVER_VERSION;
    hello.n_open = count;
    hello.open = opens;
    hello.n_lock = locks_name(link, locks);
    hello.lock = locks;
    hello.serial = ++link->counts.hellos;
    ask.hello = &hello;
    link->state = LINK_GREETING;
    link->greeted_ms = link->now_ms;
    known_begin(link->known, UINT64_MAX); /* the owner counts on it as soon as it hears us */
    (void)send_ask(link, &ask);
}

/* Hearing. ------------------------------------------------------------------------------------- */

static void hear_welcome(struct meta_link *link, Drover__MetaAnswer *message)
{
    const Drover__MetaWelcome *welcome = message->welcome;
    const Drover__MetaWelcome *before = link->welcome ? link->welcome->welcome : NULL;
    bool is_other = before && before->server_term != welcome->server_term;
    struct meta_call *call = NULL;
    if (link->state != LINK_GREETING || welcome->serial != link->counts.hellos) {
        meta_free_answer(message); /* of an older hello, perhaps by an owner that is gone */
        return;
    }
    if (before && memcmp(before->uuid.data, welcome->uuid.data, META_ID_BYTES) != 0) {
        (void)err_set(&link->refused, ERR_DENIED, "another volume is served there now");
        meta_free_answer(message);
        return;
    }
    if (is_other) {
        link->durable = 0; /* what it has stored of ours is in `last` */
        kept_say_again(link, welcome);
        link_tell(link, "another owner serves the volume; what was not stored is said again");
    } else if (link->is_silent) {
        link_tell(link, "the owner of the volume is back");
    }
    link->durable = message->durable;
    link->lapses += welcome->lapsed ? 1 : 0;
    meta_free_answer(link->welcome);
    link->welcome = message;
    link->state = LINK_JOINED;
    link->patience_ms = welcome->heartbeat_ms;
    known_begin(link->known, message->tide);
    link->is_silent = false;
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        call->is_sent = false;
    }
    TAILQ_FOREACH(call, &link->kept, link)
    {
        call->is_sent = false;
    }
    link->has_unsent = true;
    if (link->again_count == 0) {
        say_alive(link, 0);
    }
    send_unsent(link);
    locks_confirm(link, message->welcome);
    link->progress++;
}

struct meta_call *waiting_find(const struct meta_link *link, uint64_t number)
{
    struct meta_call *call = NULL;
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        if (call->number >= number) {
            return call->number == number ? call : NULL;
        }
    }
    return NULL;
}

/* Closes again what an answer opened and nobody made use of. */
static void undo_open(struct meta_link *link, const struct meta_call *call)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    bool opens = call->verb == DROVER__META_VERB__META_VERB_OPEN ||
                 (call->verb == DROVER__META_VERB__META_VERB_MAKE && (call->flags & 1));
    if (opens && call->answer->code == ERR_OK && call->answer->attr) {
        op.verb = DROVER__META_VERB__META_VERB_CLOSE;
        op.inode = call->answer->attr->inode;
        op.flags = call->verb == DROVER__META_VERB__META_VERB_MAKE;
        meta_link_drop(link, meta_link_ask(link, &op));
    }
}

/* The owner closes a file only after it has opened it: if the answer to an open that nobody waited
 * for is still missing, it was lost, and must not be asked for again from the next owner, which
 * would count a file as open that is not. */
static void settle_opens(struct meta_link *link, const struct meta_call *closed)
{
    struct meta_call *call = TAILQ_FIRST(&link->waiting);
    while (call != NULL && call->number < closed->number) {
        struct meta_call *next = TAILQ_NEXT(call, link);
        if (call->is_early && !call->is_wanted && call->inode == closed->inode) {
            (void)counts_remove(&link->early, call->inode);
            call_settle(link, call);
        }
        call = next;
    }
}

static void hear_answer(struct meta_link *link, Drover__MetaAnswer *message, const void *bytes,
                        size_t size)
{
    struct meta_call *call = waiting_find(link, message->number);
    if (call == NULL) {
        struct meta_call *kept = kept_find(link, message->number);
        if (kept) {
            known_hear(link, kept, message, bytes, size);
            kept_answered_again(link, kept, message);
        }
        meta_free_answer(message);
        return;
    }
    bool locks = call->verb == DROVER__META_VERB__META_VERB_LOCK && call->lock_type != 0;
    if (locks && message->code == ERR_OK && !link_has_lease(link, link->now_ms)) {
        meta_free_answer(message); /* it came too late to be true: who has the lock now? */
        if (link->now_ms - link->greeted_ms >= meta_link_welcome(link)->heartbeat_ms) {
            greet(link);
        }
        return;
    }
    TAILQ_REMOVE(&link->waiting, call, link);
    call->is_waiting = false;
    call->answer = message;
    link->counts.answers++;
    known_hear(link, call, message, bytes, size);
    holdings_answered(link, call, message);
    if (call->verb == DROVER__META_VERB__META_VERB_CLOSE) {
        settle_opens(link, call);
    } else if (call->verb == DROVER__META_VERB__META_VERB_LOCK) {
        locks_answered(link, call, message);
    }
    kept_release(link, call, message->seq);
    if (meta_is_change(call->verb) && message->code == ERR_OK) {
        kept_add(link, call);
    }
    link->progress++;
    if (call->is_undone) {
        undo_open(link, call);
    }
    call_free_unused(call);
}

/* What was asked before that sign of life has been answered, but for `parked`. If more is waiting
 * here, answers were lost, and all is asked again. */
static void hear_echo(struct meta_link *link, Drover__MetaAnswer *message)
{
    const struct meta_call *call = NULL;
    size_t count = 0;
    TAILQ_FOREACH(call, &link->waiting, link)
    {
        count += call->number <= message->heard;
    }
    if (link->again_count > 0) {
        TAILQ_FOREACH(call, &link->kept, link)
        {
            count += call->is_again && call->number <= message->heard;
        }
    }
    if (link->state == LINK_JOINED && count > message->parked) {
        greet(link);
    }
    meta_free_answer(message);
}

/* Not now if something that it comes behind could not be sent: the owner will say it again. */
static void hear_forget(struct meta_link *link, Drover__MetaAnswer *message)
{
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    if (message->forget == META_FORGET_ALL) {
        known_begin(link->known, link->state == LINK_JOINED ? message->tide : UINT64_MAX);
    } else {
        known_forget(link->known, message->forget, message->tide);
    }
    link->counts.forgets++;
    if (link->state == LINK_JOINED && !link->has_unsent) {
        fill(link, &ask, last_pending(link));
        ask.n_forgot = 1;
        ask.forgot = &message->tide;
        (void)send_ask(link, &ask);
    }
    meta_free_answer(message);
}

void meta_link_take(struct meta_link *link, const void *bytes, size_t size, int64_t now_ms)
{
    Drover__MetaAnswer *message = NULL;
    link->now_ms = now_ms;
    if (meta_parse_answer(bytes, size, &message, NULL) != ERR_OK) {
        link_tell(link, "the owner sent what makes no sense");
        return;
    }
    link->heard_ms = now_ms;
    link->tide = message->tide > link->tide ? message->tide : link->tide;
    if (message->clock_ms > 0 && message->clock_ms > link->proven_ms &&
        message->clock_ms <= now_ms) {
        link->proven_ms = message->clock_ms;
    }
    if (message->bye[0] != '\0') {
        (void)err_set(&link->refused, ERR_DENIED, "%s", message->bye);
        link->progress++;
        meta_free_answer(message);
    } else if (message->who) {
        /* Of several such answers the first one counts: its hello is out. */
        int64_t patience_ms = HEARTBEAT_MS / 5;
        if (link->state == LINK_JOINED || now_ms - link->greeted_ms >= patience_ms) {
            greet(link);
        }
        meta_free_answer(message);
    } else if (message->welcome) {
        hear_welcome(link, message);
    } else {
        if (link->state == LINK_JOINED && message->durable > link->durable) {
            link->durable = message->durable;
            link->progress++;
        }
        if (message->number > 0 && link->state == LINK_JOINED) {
            hear_answer(link, message, bytes, size);
        } else if (message->number > 0) {
            meta_free_answer(message); /* hello did not count on it: it is asked for again */
        } else if (message->forget != 0) {
            hear_forget(link, message);
        } else {
            hear_echo(link, message);
        }
    }
    kept_forget_stored(link);
}

void meta_link_turn(struct meta_link *link, int64_t now_ms)
{
    const Drover__MetaWelcome *welcome = meta_link_welcome(link);
    int64_t heartbeat_ms = welcome ? welcome->heartbeat_ms : HEARTBEAT_MS;
    int64_t lease_ms = welcome ? welcome->lease_ms : LEASE_MS;
    link->now_ms = now_ms;
    if (link->refused.code != ERR_OK) {
        return;
    }
    int64_t silence_ms = now_ms - link->heard_ms;
    if (silence_ms >= lease_ms && !link->is_silent) {
        locks_doubt(link);
        link->is_silent = true;
        link->lapses++;
        link_tell(link, "nothing is heard from the owner of the volume; waiting");
    }
    if (silence_ms >= lease_ms && now_ms - link->reset_ms >= lease_ms) {
        link->reset_ms = now_ms;
        link->options.reset(link->options.context); /* it may be elsewhere now */
        greet(link);
    } else if (link->state == LINK_GREETING || silence_ms >= 3 * heartbeat_ms) {
        /* Longer each time, since only the answer to the last one counts. */
        if (now_ms - link->greeted_ms >= link->patience_ms) {
            int64_t longer_ms = link->patience_ms * 3 / 2;
            greet(link);
            link->patience_ms = longer_ms < lease_ms / 2 ? longer_ms : lease_ms / 2;
        }
    } else {
        send_unsent(link);
        bool is_unproven =
            now_ms - link->proven_ms >= heartbeat_ms && now_ms - link->alive_ms >= heartbeat_ms;
        if (now_ms - link->sent_ms >= heartbeat_ms || is_unproven) {
            say_alive(link, link->has_unsent ? 0 : last_pending(link));
        }
    }
}

/* Asking. -------------------------------------------------------------------------------------- */

struct meta_call *link_ask(struct meta_link *link, const Drover__MetaOp *op, bool is_reclaim)
{
    struct meta_call *call = mem_alloc(sizeof *call);
    uint64_t after = last_pending(link);
    call_describe(call, op);
    str_add_repeat(&call->op, " ", drover__meta_op__get_packed_size(op));
    (void)drover__meta_op__pack(op, (uint8_t *)call->op.text);
    call->number = link->next_number++;
    call->is_wanted = call->is_waiting = true;
    call->is_reclaim = is_reclaim;
    TAILQ_INSERT_TAIL(&link->waiting, call, link);
    holdings_asked(link, call);
    link->counts.asks++;
    if (link->state == LINK_JOINED && !link->has_unsent) {
        link->has_unsent = !send_call(link, call, after);
    } else {
        link->has_unsent = true;
    }
    return call;
}

struct meta_call *meta_link_ask(struct meta_link *link, const Drover__MetaOp *op)
{
    return link_ask(link, op, false);
}

void meta_link_drop(struct meta_link *link, struct meta_call *call)
{
    (void)link;
    if (call) {
        call->is_wanted = false;
        call_free_unused(call);
    }
}

void meta_link_abandon(struct meta_link *link, struct meta_call *call)
{
    call->is_undone = true;
    if (call->verb == DROVER__META_VERB__META_VERB_LOCK && call->lock_type != 0) {
        locks_undo(link, call);
    } else if (call->answer) {
        undo_open(link, call);
    }
    meta_link_drop(link, call);
}

uint64_t meta_link_progress(const struct meta_link *link)
{
    return link->progress;
}

bool meta_link_is_joined(const struct meta_link *link)
{
    return link->state == LINK_JOINED;
}

bool meta_link_is_congested(const struct meta_link *link)
{
    return link->kept_bytes >= META_KEPT_BYTES_MAX;
}

bool meta_link_is_idle(const struct meta_link *link)
{
    return TAILQ_EMPTY(&link->waiting) && TAILQ_EMPTY(&link->kept);
}

uint64_t meta_link_lapses(const struct meta_link *link)
{
    return link->lapses;
}

enum err_code meta_link_trouble(const struct meta_link *link, struct err *err)
{
    return link->refused.code == ERR_OK
               ? ERR_OK
               : err_set(err, link->refused.code, "%s", link->refused.text);
}

const Drover__MetaWelcome *meta_link_welcome(const struct meta_link *link)
{
    return link->welcome ? link->welcome->welcome : NULL;
}

void meta_link_set_floor(struct meta_link *link, uint64_t floor)
{
    link->floor = floor;
}

void meta_link_bye(struct meta_link *link)
{
    Drover__MetaAsk ask = DROVER__META_ASK__INIT;
    ask.bye = true;
    (void)send_ask(link, &ask);
}

void meta_link_counts(const struct meta_link *link, struct meta_link_counts *out)
{
    const struct meta_call *call = NULL;
    *out = link->counts;
    out->kept = 0;
    out->kept_bytes = link->kept_bytes;
    out->known_bytes = known_bytes(link->known);
    TAILQ_FOREACH(call, &link->kept, link)
    {
        out->kept++;
    }
}
