/* The credentials of a store over time. */
#include "object/object_s3_internal.h"

#include "base/clock.h"

#include <string.h>

enum {
    RENEW_BEFORE_MS = 300000, /* metadata servers have new keys five minutes before the end */
    STALE_BEFORE_MS = 10000,
    RENEW_AGAIN_MS = 5000, /* after a failure, or when the new ones are as old as the old ones */
};

int64_t s3_now_ms(const struct s3 *s3)
{
    return clock_unix_ms() + s3->skew_ms;
}

static void on_metadata(struct s3_metadata *metadata)
{
    struct s3 *s3 = metadata->context;
    if (metadata->code == ERR_OK) {
        s3_credentials_release(&s3->credentials);
        s3->credentials = metadata->credentials;
        metadata->credentials = (struct s3_credentials){0};
    }
    bool is_fresh = s3->credentials.expires_ms - s3_now_ms(s3) > RENEW_BEFORE_MS;
    s3->renew_not_before_ms = is_fresh ? 0 : clock_mono_ms() + RENEW_AGAIN_MS;
    s3_requests_advance(s3);
}

static void start(struct s3 *s3)
{
    s3->metadata.pump = &s3->pump;
    s3->metadata.context = s3;
    s3->metadata.done = on_metadata;
    s3_metadata_start(&s3->metadata);
}

enum err_code s3_renew_first(struct s3 *s3, struct err *err)
{
    enum err_code code = s3_credentials_load(&s3->credentials, &s3->profile, s3->is_named, err);
    if (code != ERR_OK || s3->credentials.source != S3_SOURCE_NONE) {
        return code;
    }
    if (s3_metadata_is_wanted()) {
        start(s3);
        while (s3->metadata.is_busy) {
            s3_pump_run(&s3->pump, -1);
        }
        if (s3->metadata.code == ERR_OK) {
            return ERR_OK;
        }
    }
    return err_set(
        err, ERR_DENIED,
        "S3 credentials: none in the environment (AWS_ACCESS_KEY_ID), in profile '%.64s' "
        "of ~/.aws/credentials or from a metadata server%s%s",
        s3->profile.name, s3->metadata.err.text[0] ? "; " : "", s3->metadata.err.text);
}

bool s3_renew_ready(struct s3 *s3, bool *coming, struct err *err)
{
    int64_t expires_ms = s3->credentials.expires_ms;
    int64_t left_ms = expires_ms - s3_now_ms(s3);
    if (expires_ms == 0 || left_ms > RENEW_BEFORE_MS) {
        return true;
    }
    bool may_start = !s3->is_closing && clock_mono_ms() >= s3->renew_not_before_ms;
    if (!s3->metadata.is_busy && may_start && s3->pump.count < S3_PUMP_MAX) {
        s3->renew_not_before_ms = clock_mono_ms() + RENEW_AGAIN_MS;
        start(s3);
    }
    if (left_ms > STALE_BEFORE_MS) {
        return true;
    }
    *coming = s3->metadata.is_busy;
    if (!*coming) {
        err_set(err, ERR_AGAIN, "the S3 credentials have expired; %s",
                s3->metadata.code != ERR_OK ? s3->metadata.err.text : "no newer ones are there");
    }
    return false;
}

static bool reread_profile(struct s3 *s3)
{
    struct s3_profile profile = {0};
    struct s3_credentials fresh = {0};
    if (s3_profile_load(&profile, s3->profile.name, NULL) != ERR_OK) {
        return false;
    }
    bool is_new = s3_credentials_load(&fresh, &profile, true, NULL) == ERR_OK &&
                  fresh.source == S3_SOURCE_PROFILE &&
                  (strcmp(fresh.access_key.text, s3->credentials.access_key.text) != 0 ||
                   strcmp(str_text(&fresh.token), str_text(&s3->credentials.token)) != 0);
    if (is_new) {
        struct s3_credentials old = s3->credentials;
        s3->credentials = fresh;
        fresh = old;
    }
    s3_credentials_release(&fresh);
    s3_profile_release(&profile);
    return is_new;
}

bool s3_renew_refused(struct s3 *s3)
{
    switch (s3->credentials.source) {
    case S3_SOURCE_PROFILE:
        return reread_profile(s3);
    case S3_SOURCE_METADATA:
        s3->credentials.expires_ms = s3_now_ms(s3); /* ask for others before the next request */
        return true;
    case S3_SOURCE_NONE:
    case S3_SOURCE_ENVIRONMENT:
        return false;
    }
    return false;
}
