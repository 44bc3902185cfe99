/* gate_join.c - opening the gate, and who may join: the secret in join.url and what it is changed
 * for, the node's own key.
 *
 *     FOLDER/server.key   the master's CURVE keys
 *     FOLDER/join.url     where to join, and the newest secret (mode 0600)
 *     FOLDER/probe        what only a process that can read this disk knows
 *
 * A secret is good for GATE_SECRET_MS and is replaced after half of that, so what join.url holds is
 * always good for a while. Nodes whose keys are known need none.
 */
#include "master/server_state.h"

#include "base/io.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define GATE_SECRET_MS (INT64_C(24) * 60 * 60 * 1000)

enum { LEASE_MS = 4000, NODES_MAX = 100000 };

static void add_path(const struct server *server, const char *name, struct str *out)
{
    str_addf(out, "%s/%s", server->session->folder, name);
}

static enum err_code write_file(const struct server *server, const char *name,
                                const struct str *text, struct err *err)
{
    AUTO_STR struct str path = {0};
    add_path(server, name, &path);
    return io_replace_file(str_text(&path), str_text(text), text->size, 0600, err);
}

/* --- secrets ------------------------------------------------------------------------------------
 */

void gate_add_url(const struct server *server, struct str *out)
{
    struct door_url url = {.port = server->gate.port};
    snprintf(url.host, sizeof url.host, "%s", server->gate.host);
    memcpy(url.server_key, server->gate.keys.public_key, sizeof url.server_key);
    if (server->gate.secret_count > 0) {
        memcpy(url.secret, server->gate.secrets[0].text, sizeof url.secret);
    }
    door_url_add(out, &url);
}

static enum err_code write_join_url(struct server *server, struct err *err)
{
    AUTO_STR struct str text = {0};
    gate_add_url(server, &text);
    str_add_char(&text, '\n');
    return write_file(server, "join.url", &text, err);
}

static void put_secrets(struct server *server)
{
    AUTO_STR struct str document = {0};
    for (size_t i = 0; i < server->gate.secret_count; i++) {
        str_addf(&document, "%s %" PRId64 "\n", server->gate.secrets[i].text,
                 server->gate.secrets[i].made_ms);
    }
    server_put_document(server, "join", str_text(&document), document.size);
}

enum err_code gate_rotate(struct server *server, bool revoke, struct err *err)
{
    struct gate *gate = &server->gate;
    size_t kept = revoke ? 0 : gate->secret_count;
    kept = kept < GATE_SECRETS - 1 ? kept : GATE_SECRETS - 1;
    memmove(gate->secrets + 1, gate->secrets, kept * sizeof *gate->secrets);
    door_make_secret(gate->secrets[0].text);
    gate->secrets[0].made_ms = server_now_ms(server);
    gate->secret_count = kept + 1;
    put_secrets(server);
    return write_join_url(server, err);
}

static bool is_good(const struct server *server, const struct gate_secret *secret)
{
    int64_t age_ms = server_now_ms(server) - secret->made_ms;
    return age_ms < GATE_SECRET_MS;
}

static bool secret_is_right(const struct server *server, const char *secret)
{
    bool right = false;
    for (size_t i = 0; i < server->gate.secret_count; i++) {
        right |= door_secret_equal(server->gate.secrets[i].text, secret) &&
                 is_good(server, &server->gate.secrets[i]);
    }
    return right;
}

void gate_renew_secret(struct server *server)
{
    const struct gate *gate = &server->gate;
    if (gate->secret_count > 0 &&
        server_now_ms(server) - gate->secrets[0].made_ms < GATE_SECRET_MS / 2) {
        return;
    }
    struct err err = {0};
    if (gate_rotate(server, false, &err) != ERR_OK) {
        server_note(server, "join.url could not be renewed: %s", err.text);
    }
}

enum err_code gate_load_secrets(struct server *server, struct err *err)
{
    struct gate *gate = &server->gate;
    AUTO_STR struct str document = {0};
    enum err_code code = server_get_document(server, "join", &document, err);
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        return code;
    }
    AUTO_FREE char *copy = mem_strdup(str_text(&document));
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line && gate->secret_count < GATE_SECRETS;
         line = strtok_r(NULL, "\n", &rest)) {
        struct gate_secret *secret = &gate->secrets[gate->secret_count];
        if (sscanf(line, "%64s %" SCNd64, secret->text, &secret->made_ms) == 2) {
            gate->secret_count++;
        }
    }
    return ERR_OK;
}

/* --- who may join -------------------------------------------------------------------------------
 */

void gate_put_nodes(struct server *server)
{
    AUTO_STR struct str document = {0};
    herd_record(&server->herd, &document);
    server_put_document_first(server, "nodes", str_text(&document), document.size);
    server->gate.has_news = false;
}

void gate_flush(struct server *server)
{
    if (server->gate.has_news) {
        gate_put_nodes(server);
    }
}

/* By a node that may come back, other than this one. */
static bool name_is_taken(const struct herd *herd, const char *name, const struct herd_node *but)
{
    for (size_t i = 0; i < herd->count; i++) {
        const struct herd_node *other = herd->nodes[i];
        if (other != but && other->state != HERD_LEFT && other->state != HERD_REVOKED &&
            strcmp(other->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Its own wish, unless that is taken. A thousand machines may all wish to be called the same. */
static void choose_name(const struct server *server, const char *wish, const struct herd_node *but,
                        struct str *out)
{
    enum { SMALL = 9 };
    str_add(out, wish);
    for (size_t n = 2; name_is_taken(&server->herd, str_text(out), but); n++) {
        if (n == SMALL + 1 && n < server->herd.count) {
            n = server->herd.count;
        }
        str_clear(out);
        str_addf(out, "%s-%zu", wish, n);
    }
}

/* While it had left, another may have been given its name. */
static void rename_returned(struct server *server, struct herd_node *node)
{
    AUTO_STR struct str name = {0};
    choose_name(server, node->name, node, &name);
    if (strcmp(node->name, str_text(&name)) != 0) {
        free(node->name);
        node->name = str_take(&name);
        server->gate.has_news = true;
    }
}

struct herd_node *gate_admit(struct server *server, const char *key, const Drover__Hello *hello,
                             struct err *err)
{
    struct herd_node *node = herd_find_key(&server->herd, key);
    if (node && node->state != HERD_REVOKED) {
        if (node->state == HERD_LEFT) {
            rename_returned(server, node);
        }
        return node;
    }
    if (node) {
        err_set(err, ERR_DENIED, "this node was revoked; remove its node.key to join as another");
        return NULL;
    }
    if (!secret_is_right(server, hello->join_secret)) {
        err_set(err, ERR_DENIED,
                "the join secret is wrong or has expired; take the newest join.url of the server");
        return NULL;
    }
    if (server->herd.count >= NODES_MAX) {
        err_set(err, ERR_QUOTA, "the server knows %d nodes already", (int)NODES_MAX);
        return NULL;
    }
    AUTO_STR struct str name = {0};
    choose_name(server, hello->name, NULL, &name);
    node = herd_add(&server->herd, str_text(&name), key);
    server->gate.has_news = true;
    return node;
}

/* --- opening and closing ------------------------------------------------------------------------
 */

static enum err_code restore_nodes(struct server *server, struct err *err)
{
    AUTO_STR struct str document = {0};
    enum err_code code = server_get_document(server, "nodes", &document, err);
    if (code == ERR_NOT_FOUND) {
        herd_add(&server->herd, "local", ""); /* number 0 is the node in a process */
        return ERR_OK;
    }
    return code == ERR_OK ? herd_restore(&server->herd, &document, err) : code;
}

/* The port that nodes know from last time, so that they find us again. */
static uint16_t port_of_last_time(const struct server *server)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    struct door_url url;
    add_path(server, "join.url", &path);
    if (io_read_file(str_text(&path), 4096, &text, NULL) != ERR_OK) {
        return 0;
    }
    AUTO_FREE char *line = mem_strndup(str_text(&text), strcspn(str_text(&text), "\n"));
    return door_url_parse(line, &url, NULL) == ERR_OK ? url.port : 0;
}

static enum err_code bind_port(struct server *server, struct err *err)
{
    struct gate *gate = &server->gate;
    const struct master_serve *serve = server->options->serve;
    gate->port = serve->wire_port ? serve->wire_port : port_of_last_time(server);
    uint16_t wish = gate->port;
    enum err_code code = door_bind(server->context, serve_wire_host(serve), &gate->port,
                                   &gate->keys, &gate->socket, err);
    if (code == ERR_EXISTS && !serve->wire_port) {
        gate->port = 0;
        code = door_bind(server->context, serve_wire_host(serve), &gate->port, &gate->keys,
                         &gate->socket, err);
        if (code == ERR_OK) {
            server_note(server,
                        "port %u of last time is taken; nodes that joined by it must join again "
                        "with the new join.url",
                        wish);
        }
    }
    return code;
}

enum err_code gate_open(struct server *server, struct err *err)
{
    struct gate *gate = &server->gate;
    const struct master_serve *serve = server->options->serve;
    AUTO_STR struct str key_path = {0};
    AUTO_STR struct str probe = {0};
    gate->lease_ms = serve->lease_ms ? serve->lease_ms : LEASE_MS;
    snprintf(gate->host, sizeof gate->host, "%s",
             serve->public_host ? serve->public_host : serve_wire_host(serve));
    add_path(server, "server.key", &key_path);
    enum err_code code = door_keys_load(str_text(&key_path), &gate->keys, err);
    if (code == ERR_OK) {
        gate->guard = door_guard_start(server->context);
        code = restore_nodes(server, err);
    }
    if (code == ERR_OK) {
        code = gate_load_secrets(server, err);
    }
    if (code == ERR_OK) {
        door_make_secret(gate->probe);
        str_add(&probe, gate->probe);
        code = write_file(server, "probe", &probe, err);
    }
    if (code == ERR_OK) {
        code = bind_port(server, err);
    }
    gate->frame = door_frame_create();
    return code;
}

enum err_code gate_announce(struct server *server, struct err *err)
{
    gate_renew_secret(server);
    return write_join_url(server, err);
}

void gate_close(struct server *server)
{
    struct gate *gate = &server->gate;
    if (gate->socket) {
        zmq_close(gate->socket);
        gate->socket = NULL;
    }
    door_guard_stop(gate->guard);
    gate->guard = NULL;
    if (gate->frame) {
        door_frame_destroy(gate->frame);
        gate->frame = NULL;
    }
    door_keys_wipe(&gate->keys);
}
