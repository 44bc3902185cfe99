/* serve.c - everything by which others reach the master: the gate, the depot, HTTP.
 *
 *     FOLDER/api.url   where HTTP answers
 */
#include "master/server_state.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "master/series.h"
#include "master/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_WISH = 7643 }; /* of HTTP, where it is free */

const char *serve_wire_host(const struct master_serve *serve)
{
    return serve->wire_host ? serve->wire_host : serve->host;
}

static void add_url_path(const struct server *server, struct str *out)
{
    str_addf(out, "%s/api.url", server->session->folder);
}

/* The port that users know from last time. */
static uint16_t port_of_last_time(const struct server *server)
{
    uint16_t otherwise = server->options->serve->http_port_given ? 0 : PORT_WISH;
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    add_url_path(server, &path);
    if (io_read_file(str_text(&path), 4096, &text, NULL) != ERR_OK) {
        return otherwise;
    }
    const char *colon = strrchr(str_text(&text), ':');
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;
    return port > 0 && port <= UINT16_MAX ? (uint16_t)port : otherwise;
}

static enum err_code open_http(struct server *server, struct err *err)
{
    const struct master_serve *serve = server->options->serve;
    if (!serve->with_http) {
        return ERR_OK;
    }
    struct http_options options = {.zmq_context = server->context,
                                   .host = serve->host,
                                   .port = serve->http_port ? serve->http_port
                                                            : port_of_last_time(server),
                                   .port_is_wish = serve->http_port == 0,
                                   .certificate_file = serve->certificate_file,
                                   .key_file = serve->key_file};
    enum err_code code = http_start(&options, &server->http, err);
    return code == ERR_OK ? api_create(server, &server->api, err) : code;
}

/* Beside the port that was asked for, so that a firewall can let both through. */
static uint16_t bulk_port(const struct master_serve *serve)
{
    return serve->wire_port > 0 && serve->wire_port < UINT16_MAX ? (uint16_t)(serve->wire_port + 1)
                                                                 : 0;
}

static void note_owner(void *context, const char *text)
{
    struct server *server = context;
    server_note(server, "%s", text);
}

static void open_owners(struct server *server)
{
    const struct master_serve *serve = server->options->serve;
    AUTO_STR struct str folder = {0};
    str_addf(&folder, "%s/volumes", server->session->folder);
    server->owners_folder = str_take(&folder);
    struct owners_options options = {.folder = server->owners_folder,
                                     .listen_host = serve_wire_host(serve),
                                     .public_host = server->gate.host,
                                     .port = bulk_port(serve) > 0 ? (uint16_t)(bulk_port(serve) + 1)
                                                                  : 0,
                                     .note = note_owner,
                                     .context = server};
    server->owners = owners_create(&options);
}

/* Those of workflows that are under way. */
static void look_after_owners(struct server *server)
{
    enum { LOOK_MS = 20000 };
    int64_t now_ms = clock_mono_ms();
    if (now_ms >= server->owners_ms) {
        server->owners_ms = now_ms + LOOK_MS;
        for (size_t i = 0; i < server->session->flow_count; i++) {
            if (core_workflow_state(server->core, (uint32_t)i + 1) == WORKFLOW_RUNNING) {
                carry_need_volumes(server->owners, server->session->flows[i]);
            }
        }
    }
    owners_tick(server->owners);
}

enum err_code serve_open(struct server *server, struct err *err)
{
    const struct master_serve *serve = server->options->serve;
    enum err_code code = gate_open(server, err);
    if (code == ERR_OK) {
        struct depot_options depot = {.zmq_context = server->context,
                                      .host = serve_wire_host(serve),
                                      .port = bulk_port(serve),
                                      .port_is_wish = true,
                                      .keys = &server->gate.keys,
                                      .state_folder = server->session->folder};
        code = depot_start(&depot, &server->depot, err);
    }
    open_owners(server);
    AUTO_STR struct str usage = {0};
    str_addf(&usage, "%s/usage", server->session->folder);
    server->series = series_open(&(struct series_options){.folder = str_text(&usage)});
    struct retention_limits limits = retention_defaults();
    server->sweep = sweep_create(&limits);
    for (size_t i = 0; code == ERR_OK && i < server->session->flow_count; i++) {
        if (core_workflow_state(server->core, (uint32_t)i + 1) == WORKFLOW_RUNNING) {
            server_know_flow(server, server->session->flows[i]);
        }
    }
    return code == ERR_OK ? open_http(server, err) : code;
}

/* The versions that some workflow here was submitted with, however old: it may be retried. */
static void keep_code(struct server *server)
{
    const struct session *session = server->session;
    AUTO_FREE const char **versions = mem_array(session->flow_count + 1, sizeof *versions);
    size_t count = 0;
    for (size_t i = 0; i < session->flow_count; i++) {
        if (session->flows[i]->code[0]) {
            versions[count++] = session->flows[i]->code;
        }
    }
    depot_keep_code(server->depot, versions, count);
}

void serve_tick(struct server *server)
{
    enum { KEEP_CODE_MS = 3600 * 1000 };
    if (server->owners) {
        look_after_owners(server);
    }
    if (server->depot && clock_mono_ms() >= server->keep_code_ms) {
        keep_code(server);
        server->keep_code_ms = clock_mono_ms() + KEEP_CODE_MS;
    }
}

static enum err_code write_api_url(const struct server *server, struct err *err)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    add_url_path(server, &path);
    str_addf(&text, "%s\n", http_url(server->http));
    return io_replace_file(str_text(&path), str_text(&text), text.size, 0644, err);
}

bool serve_announce(struct server *server)
{
    if (!server->options->serve) {
        return true;
    }
    enum err_code code = gate_announce(server, &server->err);
    if (code == ERR_OK && server->http) {
        code = write_api_url(server, &server->err);
    }
    if (code == ERR_OK) {
        code = locals_start(server, &server->err);
    }
    if (code == ERR_OK) {
        const struct master_observer *observer = server->options->observer;
        if (observer->serving) {
            observer->serving(observer->context, server);
        }
    }
    server->broken = server->broken || code != ERR_OK;
    return code == ERR_OK;
}

void serve_close(struct server *server)
{
    http_stop(server->http);
    api_destroy(server->api);
    server->http = NULL;
    server->api = NULL;
    depot_stop(server->depot);
    server->depot = NULL;
    owners_destroy(server->owners);
    free(server->owners_folder);
    server->owners = NULL;
    server->carrier.owners = NULL;
    server->owners_folder = NULL;
    sweep_destroy(server->sweep);
    server->sweep = NULL;
    series_close(server->series);
    server->series = NULL;
    gate_close(server);
}
