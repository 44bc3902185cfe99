#include "base/json.h"
#include "http/actor.h"

static const char *title_of(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Content"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        if (titles[i].status == status) {
            return titles[i].title;
        }
    }
    return status >= 500 ? "Server Error" : "Request Refused";
}

void problem_add(struct str *out, int status, const char *detail)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "type"), json_text(&json, "about:blank");
    json_key(&json, "title"), json_text(&json, title_of(status));
    json_key(&json, "status"), json_i64(&json, status);
    json_key(&json, "detail"), json_text(&json, detail);
    json_end(&json);
}
