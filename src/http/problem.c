#include "base/json.h"
#include "http/actor.h"

void problem_add(struct str *out, int status, const char *detail)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "type"), json_text(&json, "about:blank");
    json_key(&json, "title"), json_text(&json, http_title(status));
    json_key(&json, "status"), json_i64(&json, status);
    json_key(&json, "detail"), json_text(&json, detail);
    json_end(&json);
}
