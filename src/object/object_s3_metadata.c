#include "object/object_s3_metadata.h"

#include "base/io.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_MS = 1000, SECRET_BYTES_MAX = 4096 };

static const char instance_base[] = "http://169.254.169.254";
static const char container_base[] = "http://169.254.170.2";
static const char role_path[] = "/latest/meta-data/iam/security-credentials/";

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

bool s3_metadata_is_wanted(void)
{
    const char *disabled = variable("AWS_EC2_METADATA_DISABLED");
    return variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
           variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") ||
           !(disabled && strcasecmp(disabled, "true") == 0);
}

static void finish(struct s3_metadata *metadata, enum err_code code)
{
    metadata->is_busy = false;
    metadata->code = code;
    if (metadata->secret.text) {
        explicit_bzero(metadata->secret.text, metadata->secret.cap);
    }
    str_clear(&metadata->secret);
    if (metadata->exchange.text.text) {
        explicit_bzero(metadata->exchange.text.text, metadata->exchange.text.cap);
    }
    str_clear(&metadata->exchange.text);
    metadata->done(metadata);
}

static void on_answer(struct s3_exchange *exchange)
{
    struct s3_metadata *metadata = (struct s3_metadata *)exchange;
    if (exchange->code != ERR_OK) {
        finish(metadata, err_set(&metadata->err, ERR_DENIED, "S3 credentials: metadata server: %s",
                                 exchange->err.text));
    } else if (exchange->status != 200) {
        finish(metadata,
               err_set(&metadata->err, ERR_DENIED, "S3 credentials: the metadata server answers %d",
                       exchange->status));
    } else {
        metadata->step(metadata);
    }
}

static void ask(struct s3_metadata *metadata, const char *method, const char *name,
                const char *value, void (*step)(struct s3_metadata *metadata))
{
    metadata->step = step;
    metadata->header = (struct s3_header){name, value};
    struct s3_exchange *exchange = &metadata->exchange;
    exchange->method = method;
    exchange->url = metadata->url.text;
    exchange->headers = &metadata->header;
    exchange->header_count = value ? 1 : 0;
    exchange->timeout_ms = STEP_MS;
    exchange->is_direct = true;
    exchange->done = on_answer;
    s3_pump_start(metadata->pump, exchange);
}

static void read_keys(struct s3_metadata *metadata)
{
    finish(metadata,
           s3_credentials_parse(&metadata->credentials, &metadata->exchange.text, &metadata->err));
}

/* -- an instance: a token, the name of its role, the role's keys ------------------------------- */

static const char token_header[] = "x-aws-ec2-metadata-token";

static void read_role(struct s3_metadata *metadata)
{
    const struct str *text = &metadata->exchange.text;
    size_t size = strcspn(str_text(text), "\r\n");
    if (size == 0 || size > 128 ||
        strspn(text->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq"
                           "rstuvwxyz0123456789+=,.@_-") < size) {
        finish(metadata, err_set(&metadata->err, ERR_DENIED,
                                 "S3 credentials: the metadata server names no role"));
        return;
    }
    str_clear(&metadata->url);
    str_addf(&metadata->url, "%s%s", metadata->base.text, role_path);
    str_add_bytes(&metadata->url, text->text, size);
    ask(metadata, "GET", token_header, metadata->secret.text, read_keys);
}

static void read_token(struct s3_metadata *metadata)
{
    const struct str *text = &metadata->exchange.text;
    bool good = text->size > 0 && text->size <= SECRET_BYTES_MAX;
    for (size_t i = 0; i < text->size && good; i++) {
        good = text->text[i] > ' ' && text->text[i] <= '~';
    }
    if (!good) {
        finish(metadata, err_set(&metadata->err, ERR_DENIED,
                                 "S3 credentials: the metadata server gives no token"));
        return;
    }
    str_clear(&metadata->secret);
    str_add(&metadata->secret, str_text(text));
    str_clear(&metadata->url);
    str_addf(&metadata->url, "%s%s", metadata->base.text, role_path);
    ask(metadata, "GET", token_header, metadata->secret.text, read_role);
}

static void start_instance(struct s3_metadata *metadata)
{
    const char *base = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    str_clear(&metadata->base);
    str_add(&metadata->base, base ? base : instance_base);
    while (metadata->base.size > 0 && metadata->base.text[metadata->base.size - 1] == '/') {
        metadata->base.text[--metadata->base.size] = '\0';
    }
    str_addf(&metadata->url, "%s/latest/api/token", metadata->base.text);
    ask(metadata, "PUT", "x-aws-ec2-metadata-token-ttl-seconds", "21600", read_token);
}

/* -- a container: one question ----------------------------------------------------------------- */

/* Keys come back and a token goes out: not in clear text to just anywhere. */
static bool is_trusted(const char *url)
{
    static const char *const near[] = {"http://127.0.0.1",      "http://localhost",
                                       "http://[::1]",          "http://169.254.170.2",
                                       "http://169.254.170.23", "http://[fd00:ec2::23]"};
    if (strncmp(url, "https://", 8) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        size_t size = strlen(near[i]);
        if (strncmp(url, near[i], size) == 0 && strchr("/:", url[size])) {
            return true;
        }
    }
    return false;
}

static enum err_code read_container_token(struct s3_metadata *metadata)
{
    const char *file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (file) {
        enum err_code code =
            io_read_file(file, SECRET_BYTES_MAX, &metadata->secret, &metadata->err);
        if (code != ERR_OK) {
            return code;
        }
    } else if (token) {
        str_add(&metadata->secret, token);
    }
    struct str *secret = &metadata->secret;
    while (secret->size > 0 && strchr("\r\n", secret->text[secret->size - 1])) {
        secret->text[--secret->size] = '\0';
    }
    if (secret->size > 0 && strpbrk(secret->text, "\r\n")) {
        return err_set(&metadata->err, ERR_DENIED, "S3 credentials: the token has several lines");
    }
    return ERR_OK;
}

static void start_container(struct s3_metadata *metadata, const char *relative, const char *full)
{
    str_clear(&metadata->secret);
    if (relative) {
        str_addf(&metadata->url, "%s%s", container_base, relative);
    } else {
        str_add(&metadata->url, full);
    }
    enum err_code code = read_container_token(metadata);
    if (code == ERR_OK && !is_trusted(metadata->url.text)) {
        code = err_set(&metadata->err, ERR_DENIED,
                       "S3 credentials: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither HTTPS nor "
                       "of this machine");
    }
    if (code != ERR_OK) {
        finish(metadata, code);
        return;
    }
    ask(metadata, "GET", "authorization", metadata->secret.size > 0 ? metadata->secret.text : NULL,
        read_keys);
}

void s3_metadata_start(struct s3_metadata *metadata)
{
    CHECK(!metadata->is_busy);
    metadata->is_busy = true;
    str_clear(&metadata->url);
    const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative || full) {
        start_container(metadata, relative, full);
    } else {
        start_instance(metadata);
    }
}

void s3_metadata_cancel(struct s3_metadata *metadata)
{
    if (metadata->is_busy) {
        metadata->is_busy = false;
        s3_pump_cancel(&metadata->exchange);
    }
}

void s3_metadata_release(struct s3_metadata *metadata)
{
    CHECK(!metadata->is_busy);
    s3_exchange_release(&metadata->exchange);
    s3_credentials_release(&metadata->credentials);
    str_release(&metadata->base);
    str_release(&metadata->url);
    str_release(&metadata->secret);
}
