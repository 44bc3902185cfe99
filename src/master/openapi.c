/* openapi.c - the OpenAPI 3.1 document, written from the table of routes and the list of shapes. */
#include "master/openapi.h"

#include "master/api.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static void add_text(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_text(json, text);
}

/* --- types ----------------------------------------------------------------------------------- */

/* Words "a|b|c" as an enumeration; a nullable one takes null, too. */
static void add_words(struct json *json, const char *words, size_t size, char between)
{
    json_key(json, "enum");
    json_array(json);
    for (const char *end = words + size; words < end;) {
        const char *stop = memchr(words, between, (size_t)(end - words));
        stop = stop ? stop : end;
        json_bytes(json, words, (size_t)(stop - words));
        words = stop + (stop < end);
    }
    json_end(json);
}

static void add_plain_type(struct json *json, const char *type, bool nullable)
{
    json_key(json, "type");
    if (nullable) {
        json_array(json);
        json_text(json, type);
        json_text(json, "null");
        json_end(json);
    } else {
        json_text(json, type);
    }
}

static void add_ref(struct json *json, const char *name, size_t size)
{
    AUTO_STR struct str ref = {0};
    str_add(&ref, "#/components/schemas/");
    str_add_bytes(&ref, name, size);
    add_text(json, "$ref", str_text(&ref));
}

/* The keys of a schema, into an open object; see openapi.h for what a type is. */
static void add_type(struct json *json, const char *type, size_t size)
{
    static const char *const plain[] = {"string", "integer", "number", "boolean", "object"};
    bool nullable = size > 1 && type[size - 1] == '?';
    size -= nullable;
    if (size > 2 && memcmp(&type[size - 2], "[]", 2) == 0) {
        add_plain_type(json, "array", nullable);
        json_key(json, "items");
        json_object(json);
        add_type(json, type, size - 2);
        json_end(json);
        return;
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strlen(plain[i]) == size && memcmp(type, plain[i], size) == 0) {
            add_plain_type(json, plain[i], nullable);
            return;
        }
    }
    if (size == 4 && memcmp(type, "time", 4) == 0) {
        add_plain_type(json, "string", nullable);
        add_text(json, "format", "date-time");
    } else if (isupper((unsigned char)type[0]) && nullable) {
        json_key(json, "oneOf");
        json_array(json);
        json_object(json);
        add_ref(json, type, size);
        json_end(json);
        json_object(json);
        add_plain_type(json, "null", false);
        json_end(json);
        json_end(json);
    } else if (isupper((unsigned char)type[0])) {
        add_ref(json, type, size);
    } else {
        add_plain_type(json, "string", false);
        add_words(json, type, size, '|');
    }
}

static void add_fields(struct json *json, const struct openapi_field *fields)
{
    json_key(json, "properties");
    json_object(json);
    for (size_t i = 0; fields[i].name; i++) {
        json_key(json, fields[i].name);
        json_object(json);
        const char *type = fields[i].type + (fields[i].type[0] == '~');
        add_type(json, type, strlen(type));
        if (fields[i].about) {
            add_text(json, "description", fields[i].about);
        }
        json_end(json);
    }
}

static void add_shape(struct json *json, const struct openapi_shape *shape)
{
    json_key(json, shape->name);
    json_object(json);
    add_plain_type(json, "object", false);
    if (shape->about[0]) {
        add_text(json, "description", shape->about);
    }
    if (shape->fields) {
        add_fields(json, shape->fields);
        json_end(json);
        json_key(json, "required");
        json_array(json);
        for (size_t i = 0; shape->fields[i].name; i++) {
            if (shape->fields[i].type[0] != '~') {
                json_text(json, shape->fields[i].name);
            }
        }
        json_end(json);
    }
    json_end(json);
}

/* --- operations ------------------------------------------------------------------------------ */

static void add_param_type(struct json *json, const struct api_param *param)
{
    switch (param->type) {
    case API_TEXT:
        add_plain_type(json, "string", false);
        break;
    case API_NUMBER:
        add_plain_type(json, "integer", false);
        json_key(json, "minimum");
        json_u64(json, param->least);
        json_key(json, "maximum");
        json_u64(json, param->most);
        break;
    case API_FLAG:
        add_plain_type(json, "string", false);
        add_words(json, "0|1|true|false", strlen("0|1|true|false"), '|');
        break;
    case API_WORD:
        add_plain_type(json, "string", false);
        add_words(json, param->words, strlen(param->words), ' ');
        break;
    case API_TIME:
        add_plain_type(json, "string", false);
        add_text(json, "format", "date-time");
        break;
    }
}

static void add_query_param(struct json *json, const struct api_param *param)
{
    json_object(json);
    add_text(json, "name", param->name);
    add_text(json, "in", "query");
    add_text(json, "description", param->about);
    json_key(json, "schema");
    json_object(json);
    if (param->repeats) {
        add_plain_type(json, "array", false);
        json_key(json, "items");
        json_object(json);
        add_param_type(json, param);
        json_end(json);
    } else {
        add_param_type(json, param);
    }
    json_end(json);
    json_end(json);
}

static void add_text_param(struct json *json, const char *name, size_t size, const char *in)
{
    json_object(json);
    json_key(json, "name");
    json_bytes(json, name, size);
    add_text(json, "in", in);
    if (strcmp(in, "path") == 0) {
        json_key(json, "required");
        json_bool(json, true);
    }
    json_key(json, "schema");
    json_object(json);
    add_plain_type(json, "string", false);
    json_end(json);
    json_end(json);
}

static void add_params(struct json *json, const struct api_route *route)
{
    json_key(json, "parameters");
    json_array(json);
    for (const char *at = route->pattern; (at = strchr(at, '{')) != NULL;) {
        size_t size = strcspn(++at, "}");
        add_text_param(json, at, size, "path");
    }
    for (size_t i = 0; route->params && route->params[i]; i++) {
        add_query_param(json, route->params[i]);
    }
    if (route->takes_key) {
        add_text_param(json, "Idempotency-Key", strlen("Idempotency-Key"), "header");
    }
    if (route->stream) {
        add_text_param(json, "Last-Event-ID", strlen("Last-Event-ID"), "header");
    }
    json_end(json);
}

static void add_media(struct json *json, const char *media, const char *type)
{
    json_key(json, media);
    json_object(json);
    json_key(json, "schema");
    json_object(json);
    if (type) {
        add_type(json, type, strlen(type));
    }
    json_end(json);
    json_end(json);
}

static void add_body(struct json *json, const char *name)
{
    const struct openapi_body *body = NULL;
    for (size_t i = 0; i < openapi_body_count; i++) {
        body = strcmp(openapi_bodies[i].name, name) == 0 ? &openapi_bodies[i] : body;
    }
    CHECK(body);
    json_key(json, "requestBody");
    json_object(json);
    json_key(json, "required");
    json_bool(json, true);
    json_key(json, "content");
    json_object(json);
    for (size_t i = 0; i < 2 && body->types[i]; i++) {
        add_media(json, body->types[i], body->shape);
    }
    json_end(json);
    json_end(json);
}

static void add_list_media(struct json *json, const char *schema)
{
    AUTO_STR struct str items = {0};
    str_addf(&items, "%s[]", schema);
    struct openapi_field fields[] = {
        {"items", str_text(&items)}, {"next", "string?", "give it as `after`; null: the end"}, {0}};
    json_key(json, "application/json");
    json_object(json);
    json_key(json, "schema");
    json_object(json);
    add_plain_type(json, "object", false);
    add_fields(json, fields);
    json_end(json);
    json_key(json, "required");
    json_array(json);
    json_text(json, "items");
    json_text(json, "next");
    json_end(json);
    json_end(json);
    json_end(json);
}

static void add_answers(struct json *json, const struct api_route *route)
{
    char status[16];
    snprintf(status, sizeof status, "%d", route->status);
    json_key(json, "responses");
    json_object(json);
    json_key(json, status);
    json_object(json);
    add_text(json, "description", route->stream ? route->stream : "done");
    json_key(json, "content");
    json_object(json);
    if (route->is_list) {
        add_list_media(json, route->schema);
    } else if (route->schema) {
        add_media(json, "application/json", route->schema);
    } else if (route->type && strcmp(route->type, "text/event-stream") != 0) {
        add_media(json, route->type, "string");
    }
    if (route->stream) {
        add_media(json, "text/event-stream", "string");
    }
    json_end(json);
    json_end(json);
    json_key(json, "default");
    json_object(json);
    add_text(json, "$ref", "#/components/responses/Problem");
    json_end(json);
    json_end(json);
}

static void add_operation(struct json *json, const struct api_route *route)
{
    char method[8] = "";
    for (size_t i = 0; i + 1 < sizeof method && route->method[i]; i++) {
        method[i] = (char)tolower((unsigned char)route->method[i]);
    }
    json_key(json, method);
    json_object(json);
    add_text(json, "operationId", route->id);
    add_text(json, "summary", route->summary);
    add_text(json, "x-drover-role", token_role_name(route->role));
    if (route->role == TOKEN_NONE) {
        json_key(json, "security");
        json_array(json);
        json_end(json);
    }
    add_params(json, route);
    if (route->body) {
        add_body(json, route->body);
    }
    add_answers(json, route);
    json_end(json);
}

static void add_paths(struct json *json)
{
    json_key(json, "paths");
    json_object(json);
    for (size_t i = 0; i < api_route_count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i; j++) {
            seen = seen || strcmp(api_routes[j].pattern, api_routes[i].pattern) == 0;
        }
        if (seen) {
            continue;
        }
        json_key(json, api_routes[i].pattern);
        json_object(json);
        for (size_t j = i; j < api_route_count; j++) {
            if (strcmp(api_routes[j].pattern, api_routes[i].pattern) == 0) {
                add_operation(json, &api_routes[j]);
            }
        }
        json_end(json);
    }
    json_end(json);
}

static void add_components(struct json *json)
{
    json_key(json, "components");
    json_object(json);
    json_key(json, "securitySchemes");
    json_object(json);
    json_key(json, "bearer");
    json_object(json);
    add_text(json, "type", "http");
    add_text(json, "scheme", "bearer");
    json_end(json);
    json_end(json);
    json_key(json, "responses");
    json_object(json);
    json_key(json, "Problem");
    json_object(json);
    add_text(json, "description", "it was not done, and this is why");
    json_key(json, "content");
    json_object(json);
    add_media(json, "application/problem+json", "Problem");
    json_end(json);
    json_end(json);
    json_end(json);
    json_key(json, "schemas");
    json_object(json);
    for (size_t i = 0; i < openapi_shape_count; i++) {
        add_shape(json, &openapi_shapes[i]);
    }
    json_end(json);
    json_end(json);
}

void openapi_write(struct str *out)
{
    struct json json = {.out = out};
    json_object(&json);
    add_text(&json, "openapi", "3.1.0");
    json_key(&json, "info");
    json_object(&json);
    add_text(&json, "title", "drover");
    add_text(&json, "version", DROVER_VERSION);
    add_text(&json, "summary", "Drive a herd of unreliable machines through your work.");
    json_end(&json);
    json_key(&json, "security");
    json_array(&json);
    json_object(&json);
    json_key(&json, "bearer");
    json_array(&json);
    json_end(&json);
    json_end(&json);
    json_end(&json);
    add_paths(&json);
    add_components(&json);
    json_end(&json);
}
