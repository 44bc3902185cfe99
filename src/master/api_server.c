/* api_server.c - the server itself: health, counters, the join URL, the code store's door. */
#include "master/api.h"
#include "master/words.h"

#include <inttypes.h>

void api_get_health(struct api_call *call)
{
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    json_object(&json);
    json_key(&json, "status");
    json_text(&json, "ok");
    json_key(&json, "version");
    json_text(&json, DROVER_VERSION);
    json_end(&json);
    api_reply_json(call, &body, 0);
}

void api_get_openapi(struct api_call *call)
{
    struct str *document = &call->api->openapi;
    if (document->size == 0) {
        openapi_write(document);
    }
    api_reply_json(call, document, 0);
}

static void add_number(struct json *json, const char *key, uint64_t number)
{
    json_key(json, key);
    json_u64(json, number);
}

static void add_counts(struct json *json, const struct api *api, const struct server_counts *counts)
{
    struct http_counts http = {0};
    http_counts(server_http(api->server), &http);
    json_key(json, "counts");
    json_object(json);
    add_number(json, "accepted", counts->accepted);
    add_number(json, "refused", counts->refused);
    add_number(json, "bad_messages", counts->bad_messages);
    add_number(json, "denied", counts->denied);
    add_number(json, "facts", counts->facts);
    add_number(json, "facts_not_durable", counts->unsafe_facts);
    add_number(json, "http_requests", http.requests);
    add_number(json, "http_refused", http.refused);
    add_number(json, "http_denied", api->denied);
    add_number(json, "http_connections", http.connections);
    add_number(json, "http_streams", http.streams);
    json_end(json);
}

void api_get_server(struct api_call *call)
{
    const struct server *server = call->server;
    const struct herd *herd = server_herd(server);
    struct server_counts counts = {0};
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    uint64_t here = 0;
    for (size_t i = 0; i < herd->count; i++) {
        here += herd->nodes[i] && herd->nodes[i]->state == HERD_HERE;
    }
    server_counts(server, &counts);
    json_object(&json);
    json_key(&json, "version");
    json_text(&json, DROVER_VERSION);
    json_key(&json, "folder");
    json_text(&json, server_folder(server));
    words_json_time(&json, "began_at", server_began_ms(server));
    words_json_time(&json, "now", server_now_ms(server));
    add_number(&json, "term", core_term(server_core(server)));
    add_number(&json, "workflows", server_flow_count(server));
    add_number(&json, "nodes", here);
    char last_event_id[24]; /* a text, like every id of an event */
    snprintf(last_event_id, sizeof last_event_id, "%" PRIu64,
             api_events_last_id(call->api->events));
    json_key(&json, "last_event_id");
    json_text(&json, last_event_id);
    json_key(&json, "paused");
    json_bool(&json, counts.paused);
    json_key(&json, "trouble");
    if (counts.trouble && counts.trouble[0]) {
        json_text(&json, counts.trouble);
    } else {
        json_null(&json);
    }
    add_counts(&json, call->api, &counts);
    json_end(&json);
    api_reply_json(call, &body, 0);
}

void api_rotate_join(struct api_call *call)
{
    struct err err = {0};
    AUTO_STR struct str url = {0};
    AUTO_STR struct str body = {0};
    struct json json = {.out = &body};
    if (server_rotate_join(call->server, api_flag(call, "revoke"), &url, &err) != ERR_OK) {
        api_fail(call, err.code == ERR_UNSUPPORTED ? 409 : 500, "%s", err.text);
        return;
    }
    json_object(&json);
    json_key(&json, "url");
    json_bytes(&json, str_text(&url), url.size);
    json_end(&json);
    api_reply_json(call, &body, core_last_fact(server_core(call->server)));
}

void api_post_code(struct api_call *call)
{
    struct server *server = call->server;
    server_post_code(server, api_give_away(call));
}
