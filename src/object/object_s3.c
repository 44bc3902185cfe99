/* The S3 driver: a store from its opening to its end. */
#include "object/object_s3_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void s3_call_end(struct s3 *s3, struct object_call *call)
{
    object_line_add(&s3->ended, call);
}

static void s3_start(struct object_store *store, struct object_call *call)
{
    struct s3 *s3 = (struct s3 *)store;
    if (s3->is_closing) {
        object_call_fail(call, ERR_CANCELLED, "the store was closed");
        s3_call_end(s3, call);
        return;
    }
    s3_call_begin(s3, call);
}

/* Those that have ended by now; what their owners start and what ends at once comes later. */
static size_t tell_ended(struct s3 *s3)
{
    size_t count = 0;
    struct object_call *last = s3->ended.last;
    struct object_call *call = NULL;
    while (call != last) {
        call = object_line_take(&s3->ended);
        call->done(call);
        count++;
    }
    return count;
}

static size_t s3_run(struct object_store *store, int wait_ms)
{
    struct s3 *s3 = (struct s3 *)store;
    int64_t deadline_ms = clock_mono_ms() + (wait_ms > 0 ? wait_ms : 0);
    int64_t left_ms = wait_ms > 0 ? wait_ms : 0;
    for (;;) {
        s3_pump_run(&s3->pump, s3->ended.first ? 0 : (int)left_ms);
        left_ms = deadline_ms - clock_mono_ms();
        if (s3->ended.first || left_ms <= 0) {
            return tell_ended(s3);
        }
    }
}

static int s3_fd(struct object_store *store)
{
    return ((struct s3 *)store)->pump.fd;
}

static void s3_stats(const struct object_store *store, struct object_stats *out)
{
    const struct s3 *s3 = (const struct s3 *)store;
    *out = s3->stats;
    out->bytes_in = s3->pump.bytes_in;
    out->bytes_out = s3->pump.bytes_out;
}

static void destroy(struct s3 *s3)
{
    s3_metadata_cancel(&s3->metadata);
    s3_metadata_release(&s3->metadata);
    s3_pump_release(&s3->pump);
    object_line_release(&s3->ended);
    s3_credentials_release(&s3->credentials);
    s3_profile_release(&s3->profile);
    s3_config_release(&s3->config);
    free(s3->flight);
    free(s3);
}

static void s3_close(struct object_store *store)
{
    struct s3 *s3 = (struct s3 *)store;
    s3->is_closing = true;
    s3_requests_cancel(s3, NULL);
    s3_uploads_close(s3);
    for (struct object_call *call = NULL; (call = object_line_take(&s3->ended));) {
        call->done(call);
    }
    destroy(s3);
}

static const struct object_ops s3_ops = {
    .start = s3_start,
    .run = s3_run,
    .fd = s3_fd,
    .stats = s3_stats,
    .close = s3_close,
};

static enum err_code open_parts(struct s3 *s3, const char *bucket, const char *prefix,
                                const struct object_options *options, struct err *err)
{
    s3->is_named = options->profile && options->profile[0];
    enum err_code code = s3_profile_load(&s3->profile, s3->is_named ? options->profile : NULL, err);
    if (code == ERR_OK) {
        code = s3_config_init(&s3->config, bucket, prefix, options, &s3->profile, err);
    }
    if (code == ERR_OK) {
        code = object_line_init(&s3->ended, err);
    }
    if (code == ERR_OK) {
        code = s3_pump_init(&s3->pump, err);
    }
    if (code == ERR_OK) {
        s3_pump_watch(&s3->pump, s3->ended.fd);
        code = s3_renew_first(s3, err);
    }
    return code;
}

enum err_code object_s3_open(const char *bucket, const char *prefix,
                             const struct object_options *options, struct object_store **out,
                             struct err *err)
{
    static const struct object_options none = {0};
    struct s3 *s3 = mem_alloc(sizeof *s3);
    s3->store.ops = &s3_ops;
    s3->ended.fd = -1;
    s3->pump.fd = s3->pump.timer = -1;
    s3->flight = mem_array(OBJECT_IN_FLIGHT_MAX, sizeof(struct s3_request *));
    enum err_code code = open_parts(s3, bucket, prefix, options ? options : &none, err);
    if (code != ERR_OK) {
        destroy(s3);
        return code;
    }
    *out = &s3->store;
    return ERR_OK;
}

void object_s3_set_skew(struct object_store *store, int64_t skew_ms)
{
    CHECK(store->ops == &s3_ops);
    ((struct s3 *)store)->skew_ms = skew_ms;
}
