/* test_app.h - for the tests in this folder: an owner in a thread of its own with a few routes, and
 * plain sockets to talk to its server.
 *
 *   /hello         {"hello":true}              /echo           the body, with its content type
 *   /info          the request, a line a part  /big?size=N     N bytes
 *   /file?path=&offset=&size=                  /never          no reply
 *   /stream        an event stream             /push?text=     pushes to the newest stream
 *   /flood?count=  pushes pieces of 64 KiB     /end            closes it
 *   /counts        requests refused connections streams closed (streams the owner was told of)
 *   anything else  404
 */
#ifndef HTTP_TEST_APP_H
#define HTTP_TEST_APP_H

#include "base/str.h"
#include "http/client.h"
#include "http/http.h"

struct app;

struct app *app_start(const struct http_options *options);
void app_stop(struct app *app);
const char *app_url(const struct app *app);
int app_port(const struct app *app);

struct app_counts {
    unsigned long requests, refused, connections, streams, closed;
};
struct app_counts app_counts(const struct app *app);

/* Plain sockets; reading gives up after ten seconds. */
int raw_connect(const struct app *app);
void raw_send(int fd, const char *text);
bool raw_try_send(int fd, const void *bytes, size_t size); /* false: the other side has closed */
/* One response, or (false) the connection ended before it. out: status line, headers, body. */
bool raw_response(int fd, struct str *out);
/* Until the other side closes; true if it did. */
bool raw_until_closed(int fd, struct str *out);
/* One exchange on a new connection. */
void raw_exchange(const struct app *app, const char *request, struct str *out);
int raw_status(const struct str *response);

long app_rss_kb(void); /* 0 where a sanitizer keeps what is freed */

#endif
