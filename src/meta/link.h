/* link.h - a mount's end: asking the owner of its volume, whatever happens on the way.
 *
 * Each ask has a number and is asked again, after the connection was lost or another owner has
 * come, until it is answered; a change is carried out once. A change that was answered is kept
 * until the owner says that it is stored. If the owner dies before, it is said again to the next
 * one, with the inode it made (server.h). So a mount never takes back what it told its users.
 *
 * The link knows what this mount has open and locked, since it asked for it, and says so when the
 * owner does not know.
 *
 * What the owner has granted (server.h) is known here and given without asking, as long as the
 * lease holds by this mount's clock. When told to forget it, the link does so and says so, in one
 * step. The clock must go on while the machine sleeps.
 *
 * One thread owns a link; nothing blocks. What is sent and when to call is the caller's
 * (dealer.h has a socket for it).
 */
#ifndef META_LINK_H
#define META_LINK_H

#include "base/err.h"
#include "base/str.h"
#include "meta/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    META_KEPT_BYTES_MAX = 64 << 20,   /* of changes not stored yet; then a mount should wait */
    META_KNOWN_BYTES_MAX = 128 << 20, /* of what is known without asking */
};

struct meta_link;
struct meta_call; /* one ask */

struct meta_link_options {
    const char *secret; /* borrowed */
    const char *who;    /* for people; borrowed */
    uint8_t mount[META_ID_BYTES];
    /* False: not now; it will be tried again. */
    bool (*send)(void *context, const void *bytes, size_t size);
    /* Nothing was heard for a lease: a new connection may help. */
    void (*reset)(void *context);
    void (*tell)(void *context, const char *line); /* what people should know; or NULL */
    void *context;
};

struct meta_link *meta_link_create(const struct meta_link_options *options, int64_t now_ms);
void meta_link_destroy(struct meta_link *link); /* calls too, whoever has them */

void meta_link_take(struct meta_link *link, const void *bytes, size_t size, int64_t now_ms);
void meta_link_turn(struct meta_link *link, int64_t now_ms); /* every 100 ms or so */

/* Asks. The call is the caller's until meta_link_drop, and its answer with it. */
struct meta_call *meta_link_ask(struct meta_link *link, const Drover__MetaOp *op);
/* The same, answered already from what is known at this moment; NULL: it has to be asked. */
struct meta_call *meta_link_known(struct meta_link *link, const Drover__MetaOp *op, int64_t now_ms);
/* Asks to open. True: *attr is known, and the file is open as soon as the caller likes: the owner
 * will have heard of it before the file can be changed or removed. */
bool meta_link_open(struct meta_link *link, const Drover__MetaOp *op, int64_t now_ms,
                    struct meta_call **out, struct engine_attr *attr);
const Drover__MetaAnswer *meta_call_answer(const struct meta_call *call); /* NULL: not yet */
/* It tells attributes or content of a file that a change of ours has changed since. */
bool meta_call_is_overtaken(const struct meta_link *link, const struct meta_call *call);
bool meta_call_is_reading(const struct meta_call *call); /* to ask again does no harm */
uint64_t meta_call_key(const struct meta_call *call);    /* meta_key_of what was asked */
uint64_t meta_key_of(const Drover__MetaOp *op); /* verb, inodes, names, offset: is it the same? */
void meta_link_drop(struct meta_link *link, struct meta_call *call); /* NULL does nothing */
/* The same for one whose answer was not made use of: what it opened or locked, now or later, is
 * closed and unlocked again. */
void meta_link_abandon(struct meta_link *link, struct meta_call *call);
/* Whether this mount holds the lock for certain, of that type, with nothing asked about it. */
bool meta_link_holds(const struct meta_link *link, const Drover__MetaLock *lock, int64_t now_ms);

uint64_t meta_link_progress(const struct meta_link *link); /* changes with every answer */
bool meta_link_is_joined(const struct meta_link *link);
bool meta_link_is_congested(const struct meta_link *link); /* too much is kept */
bool meta_link_is_idle(const struct meta_link *link);      /* nothing unanswered, nothing kept */
uint64_t meta_link_lapses(const struct meta_link *link);   /* how often the session was lost */
/* ERR_OK; ERR_DENIED: the owner refuses us for good, and the text says why. */
enum err_code meta_link_trouble(const struct meta_link *link, struct err *err);
/* What the last welcome said; NULL: there was none. */
const Drover__MetaWelcome *meta_link_welcome(const struct meta_link *link);
/* Packs below `floor` are in no draft of the mount's. Those in what is kept or unanswered the link
 * knows of. */
void meta_link_set_floor(struct meta_link *link, uint64_t floor);
void meta_link_bye(struct meta_link *link);

struct meta_link_counts {
    uint64_t asks, answers, again, kept, kept_bytes, hellos, lost;
    uint64_t known, known_bytes, forgets; /* answered without asking; now; told to forget */
};
void meta_link_counts(const struct meta_link *link, struct meta_link_counts *out);

#endif
