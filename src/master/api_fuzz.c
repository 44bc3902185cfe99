/* Random requests, as they come out of the HTTP parser: whatever is asked, there is exactly one
 * answer, it is valid, and nothing breaks.
 *
 * Bytes: what to do, then fields ended by NUL: path, query, token, body, types. */
#include "base/json.h"
#include "base/mem.h"
#include "master/api.h"
#include "master/api_fake.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS = 6, REQUESTS_MAX = 16 };

struct input {
    const uint8_t *at;
    const uint8_t *end;
};

static uint8_t next_byte(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

static char *next_field(struct input *input)
{
    size_t left = (size_t)(input->end - input->at);
    size_t size = strnlen((const char *)input->at, left);
    char *field = mem_strndup((const char *)input->at, size);
    input->at += size + (size < left);
    return field;
}

/* A path that leads somewhere: a route's pattern, its {...} filled with known names or the
 * fuzzer's. */
static void add_path(struct str *path, struct input *input, const char *own)
{
    static const char *const names[] = {"1", "newest", "demo-1", "a", "0", "24", "ant", "admin"};
    uint8_t which = next_byte(input);
    if (which == 255) {
        str_addf(path, "/%s", own);
        return;
    }
    const char *at = api_routes[which % api_route_count].pattern;
    while (*at) {
        if (*at == '{') {
            uint8_t name = next_byte(input);
            str_add(path, name < 200 ? names[name % (sizeof names / sizeof names[0])] : own);
            at = strchr(at, '}') + 1;
        } else {
            str_add_char(path, *at++);
        }
    }
}

static void check_reply(const struct fake_reply *reply)
{
    CHECK(reply->status >= 200 && reply->status < 600);
    CHECK(reply->status != 500);
    if (strstr(reply->type, "json")) {
        CHECK(reply->body[0] == '{');
        for (size_t at = 0; at < reply->body_size;) {
            size_t length = json_utf8_length(reply->body + at, reply->body_size - at);
            CHECK(length > 0);
            at += length;
        }
    }
}

static void ask_one(struct fake *fake, struct input *input)
{
    static const char *const methods[] = {"GET", "POST", "DELETE", "PUT"};
    char *fields[FIELDS];
    const char *method = methods[next_byte(input) % 4];
    uint8_t flags = next_byte(input);
    AUTO_STR struct str path = {0};
    for (size_t i = 0; i < FIELDS; i++) {
        fields[i] = next_field(input);
    }
    add_path(&path, input, fields[0]);
    struct fake_request request = {
        .method = method,
        .path = str_text(&path),
        .query = fields[1],
        .token = flags & 1 ? fields[2] : NULL,
        .body = fields[3],
        .content_type = flags & 2 ? fields[4] : "",
        .accept = flags & 4 ? "text/event-stream" : "",
        .last_event_id = flags & 8 ? fields[5] : "",
        .key = flags & 16 ? fields[5] : "",
    };
    check_reply(fake_ask(fake, &request));
    if (flags & 32) {
        fake_work(fake, flags >> 6, flags >> 7);
    }
    if (flags & 64) {
        fake_pass_ms(fake, 500);
    }
    for (size_t i = 0; i < FIELDS; i++) {
        free(fields[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct fake *fake = fake_create();
    struct fake_request submit = {.method = "POST",
                                  .path = API_BASE "/workflows",
                                  .body =
                                      "name: demo\nexperiments: {a: {command: 'true', retries: 1, "
                                      "parameters: {x: {values: 0..24}}}}"};
    CHECK(fake_ask(fake, &submit)->status == 201);
    for (int i = 0; i < REQUESTS_MAX && input.at < input.end; i++) {
        ask_one(fake, &input);
    }
    fake_destroy(fake);
    return 0;
}
