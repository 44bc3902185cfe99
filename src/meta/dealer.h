/* dealer.h - a link (link.h) over TCP. One thread owns it. */
#ifndef META_DEALER_H
#define META_DEALER_H

#include "base/err.h"
#include "meta/link.h"
#include "wire/door.h"

struct meta_dealer;

/* Connects in the background. url_file: read again whenever a new connection is made, since the
 * owner may have moved; or NULL. who: for people. All is copied. ERR_INVALID: no such address. */
MUST_USE enum err_code meta_dealer_open(const struct door_url *url, const char *url_file,
                                        const char *who, struct meta_dealer **out, struct err *err);
/* Says goodbye if asked to, and gives what was sent last a moment to go out. */
void meta_dealer_close(struct meta_dealer *dealer, bool says_bye);

struct meta_link *meta_dealer_link(struct meta_dealer *dealer);
int meta_dealer_fd(struct meta_dealer *dealer); /* readable: call run. May change with each run */
/* Takes what has come and does what is due. True: something came. */
bool meta_dealer_run(struct meta_dealer *dealer);

/* Waits until the owner has said welcome. ERR_DENIED: it refuses us. ERR_TIMEOUT. */
MUST_USE enum err_code meta_dealer_join(struct meta_dealer *dealer, int64_t timeout_ms,
                                        struct err *err);

/* @FILE or a literal URL. ERR_INVALID. */
MUST_USE enum err_code meta_url_read(const char *text, struct door_url *out, struct err *err);

#endif
