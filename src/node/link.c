#include "node/link.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "node/agent.h"
#include "wire/door.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum {
    HEARTBEAT_MS = 1000, /* these two until Welcome says otherwise */
    LEASE_MS = 4000,
    GREET_LEASES_MAX = 4,
    PAUSE_MS_MIN = 200, /* after a refusal; doubles */
    PAUSE_MS_MAX = 30 * 1000,
    BYE_GRACE_MS = 5000, /* at most: nobody wants their results any more */
    LINGER_MS = 1000,    /* for what was sent last */
    URL_BYTES_MAX = 4096,
};

/* --- the socket ------------------------------------------------------------------------------ */

static void tell(const struct agent *agent, enum node_event event, const char *text)
{
    if (agent->options->tell) {
        agent->options->tell(agent->options->tell_context, event, text);
    }
}

static void close_socket(struct link *link)
{
    if (link->socket) {
        zmq_close(link->socket);
    }
    link->socket = NULL;
    link->fd = -1;
    link->state = LINK_AWAY;
    link->session = 0;
}

/* Gives the connection up; the next one begins in pause_ms. */
static void drop(struct agent *agent, const char *why, int64_t pause_ms)
{
    struct link *link = &agent->link;
    close_socket(link);
    link->open_at_ms = clock_mono_ms() + pause_ms;
    if (!link->is_lost) {
        link->is_lost = true;
        tell(agent, NODE_LOST, why);
    }
}

/* The same after something that would come again at once. */
static void drop_and_pause(struct agent *agent, const char *why)
{
    struct link *link = &agent->link;
    int64_t pause_ms =
        link->pause_ms / 2 + (int64_t)rng_below(&link->rng, (uint64_t)link->pause_ms);
    link->pause_ms = link->pause_ms * 2 < PAUSE_MS_MAX ? link->pause_ms * 2 : PAUSE_MS_MAX;
    drop(agent, why, pause_ms);
}

static enum err_code take_descriptor(struct link *link, struct err *err)
{
    size_t size = sizeof link->fd;
    if (zmq_getsockopt(link->socket, ZMQ_FD, &link->fd, &size) != 0) {
        return err_set(err, ERR_IO, "socket: %s", zmq_strerror(zmq_errno()));
    }
    link->has_news = true;
    return ERR_OK;
}

static enum err_code open_pair(struct agent *agent, struct err *err)
{
    struct link *link = &agent->link;
    const char *endpoint = agent->options->endpoint;
    link->socket = zmq_socket(agent->options->zmq_context, ZMQ_PAIR);
    if (!link->socket) {
        return err_set(err, ERR_IO, "socket: %s", zmq_strerror(zmq_errno()));
    }
    int unlimited = 0; /* what is outstanding is bounded by the master */
    int linger_ms = LINGER_MS;
    zmq_setsockopt(link->socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(link->socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(link->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (zmq_connect(link->socket, endpoint) != 0) {
        return err_set(err, ERR_IO, "%s: %s", endpoint, zmq_strerror(zmq_errno()));
    }
    return take_descriptor(link, err);
}

/* Whoever runs the master may have changed the secret, or moved it to another port. */
static void read_url_again(struct node_join *join)
{
    AUTO_STR struct str text = {0};
    struct door_url url;
    if (join->url_file && io_read_file(join->url_file, URL_BYTES_MAX, &text, NULL) == ERR_OK) {
        size_t size = strcspn(str_text(&text), "\r\n");
        if (size < text.size) {
            text.text[size] = '\0';
        }
        if (door_url_parse(str_text(&text), &url, NULL) == ERR_OK) {
            join->url = url;
        }
        explicit_bzero(&url, sizeof url);
    }
    if (text.text) {
        explicit_bzero(text.text, text.cap);
    }
}

/* --- Hello ----------------------------------------------------------------------------------- */

static size_t count_list(const struct attempt_list *list)
{
    size_t count = 0;
    const struct attempt *attempt = NULL;
    TAILQ_FOREACH(attempt, list, link)
    {
        count++;
    }
    return count;
}

/* Everything this node has, for the master to compare with what it believes. */
struct holding {
    Drover__Holding *items;
    Drover__Holding **pointers;
    size_t count;
};

static void add_holding(struct holding *holding, const struct attempt_list *list, bool ended)
{
    const struct attempt *attempt = NULL;
    TAILQ_FOREACH(attempt, list, link)
    {
        Drover__Holding *item = &holding->items[holding->count];
        drover__holding__init(item);
        item->id = attempt->run->id;
        item->ended = ended;
        holding->pointers[holding->count++] = item;
    }
}

static void list_holding(struct agent *agent, struct holding *holding)
{
    const struct attempt_list *const lists[] = {&agent->fetching, &agent->queued, &agent->running,
                                                &agent->delivering, &agent->ended};
    enum { LISTS = sizeof lists / sizeof lists[0] };
    size_t count = 0;
    for (size_t i = 0; i < LISTS; i++) {
        count += count_list(lists[i]);
    }
    holding->items = mem_array(count, sizeof *holding->items);
    holding->pointers = mem_array(count, sizeof *holding->pointers);
    for (size_t i = 0; i < LISTS; i++) {
        add_holding(holding, lists[i], lists[i] == &agent->ended);
    }
    CHECK(holding->count == count);
}

/* protobuf-c's structs have no const; what is sent is not written to. */
static char *as_field(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void fill_hello(const struct agent *agent, Drover__Hello *hello)
{
    const struct node_options *options = agent->options;
    hello->protocol = WIRE_PROTOCOL;
    hello->name = as_field(options->name);
    hello->cpu_milli = options->capacity.cpu_milli;
    hello->memory_bytes = options->capacity.memory_bytes;
    hello->disk_bytes = options->capacity.disk_bytes;
    hello->gpus = options->capacity.gpus;
    hello->gpu_kind = as_field(options->capacity.gpu_kind);
    hello->boot = as_field(agent->link.boot);
    hello->labels = (char **)(uintptr_t)options->labels;
    hello->n_labels = options->label_count;
    hello->price_micro_hour = options->price_micro_hour;
    hello->version = as_field(DROVER_VERSION);
    hello->pid = (uint32_t)getpid();
    if (options->join) {
        hello->join_secret = as_field(options->join->url.secret);
    }
}

static enum err_code say_hello(struct agent *agent, struct err *err)
{
    Drover__Hello hello = DROVER__HELLO__INIT;
    fill_hello(agent, &hello);
    char *notes[] = {agent->link.note};
    if (agent->link.note[0] != '\0') {
        hello.n_notes = 1;
        hello.notes = notes;
    }
    struct holding holding = {0};
    list_holding(agent, &holding);
    hello.n_holding = holding.count;
    hello.holding = holding.pointers;
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.hello = &hello;
    agent->link.session = 0;
    enum err_code code = link_send(agent, &message, err);
    free(holding.items);
    free(holding.pointers);
    return code;
}

/* Over the connection that is there. If it fails the connection is gone, and a turn will see it. */
static enum err_code greet(struct agent *agent, struct err *err)
{
    agent->link.state = LINK_GREETING;
    agent->link.heard_ms = clock_mono_ms(); /* the answer has as long as any other */
    enum err_code code = say_hello(agent, err);
    return code == ERR_AGAIN ? ERR_OK : code;
}

static enum err_code connect_again(struct agent *agent, struct err *err)
{
    struct link *link = &agent->link;
    struct node_join *join = agent->options->join;
    struct err why = {0};
    read_url_again(join);
    struct door_address master = {join->url.host, join->url.port, join->url.server_key};
    enum err_code code =
        door_connect(agent->options->zmq_context, &master, &join->keys, &link->socket, &why);
    if (code == ERR_OK) {
        code = take_descriptor(link, &why);
    }
    if (code == ERR_CANCELLED) {
        return err_set(err, code, "%s", why.text);
    }
    if (code != ERR_OK) {
        drop_and_pause(agent, why.text);
        return ERR_OK;
    }
    return greet(agent, err);
}

/* --- what the master says about us ------------------------------------------------------------ */

static void begin_session(struct agent *agent, const Drover__Welcome *welcome)
{
    struct link *link = &agent->link;
    link->state = LINK_JOINED;
    link->session = welcome->session;
    link->heartbeat_ms = welcome->heartbeat_ms;
    link->lease_ms = welcome->lease_ms;
    link->heard_ms = clock_mono_ms();
    link->pause_ms = PAUSE_MS_MIN;
    link->greet_ms = welcome->lease_ms;
    haul_welcome(agent, welcome);
    attempt_report_again(agent);
    agent->notice.is_unsent = agent->notice.is_given;
    if (!link->was_joined || link->is_lost) {
        tell(agent, link->was_joined ? NODE_BACK : NODE_JOINED, welcome->name);
    }
    link->was_joined = true;
    link->is_lost = false;
}

static void hear_bye(struct agent *agent, const Drover__Bye *bye)
{
    struct link *link = &agent->link;
    if (bye->again) {
        char why[sizeof link->reason];
        snprintf(why, sizeof why, "%s", bye->reason);
        drop_and_pause(agent, why);
        return;
    }
    snprintf(link->reason, sizeof link->reason, "%s",
             bye->reason[0] ? bye->reason : "the master sent this node away");
    close_socket(link);
    link->is_over = true;
    int64_t grace_ms = agent->options->grace_ms;
    agent_stop(agent, grace_ms < BYE_GRACE_MS ? grace_ms : BYE_GRACE_MS, 0);
}

/* The master does not know this connection. Of several such answers, to messages that were on
 * their way together, the first one counts: its Hello is out. */
static enum err_code hear_who(struct agent *agent, struct err *err)
{
    struct link *link = &agent->link;
    bool is_waiting = link->state == LINK_GREETING &&
                      clock_mono_ms() < link->sent_ms + (int64_t)link->heartbeat_ms;
    return is_waiting ? ERR_OK : greet(agent, err);
}

/* This process did not get its turn for as long as a lease lasts. */
static bool was_frozen(const struct link *link, int64_t now_ms)
{
    return now_ms - link->turned_ms >= (int64_t)link->lease_ms;
}

/* True: the message is of our session and about our work. */
static bool is_ours(struct agent *agent, const Drover__ToNode *message, struct err *err,
                    enum err_code *code)
{
    struct link *link = &agent->link;
    int64_t now_ms = clock_mono_ms();
    if (was_frozen(link, now_ms)) {
        return false; /* it is of the past, and the next turn sees to it */
    }
    if (message->bye) {
        hear_bye(agent, message->bye);
        return false;
    }
    if (message->who) {
        *code = hear_who(agent, err);
        return false;
    }
    if (message->welcome &&
        (link->state == LINK_GREETING || message->welcome->session != link->session)) {
        begin_session(agent, message->welcome);
    }
    if (link->state != LINK_JOINED || message->session != link->session) {
        return false;
    }
    link->heard_ms = now_ms;
    return true;
}

enum err_code link_receive(struct agent *agent, Drover__ToNode **out, struct err *err)
{
    struct link *link = &agent->link;
    bool is_remote = agent->options->join != NULL;
    enum err_code code = ERR_OK;
    while (code == ERR_OK && link->socket) {
        Drover__ToNode *message = NULL;
        code = wire_receive_to_node(link->socket, &message, err);
        if (code == ERR_OK && (!is_remote || is_ours(agent, message, err, &code))) {
            *out = message;
            return ERR_OK;
        }
        wire_free_to_node(message);
        if (is_remote && code != ERR_OK && code != ERR_AGAIN && code != ERR_CANCELLED) {
            drop_and_pause(agent, "the master sent what makes no sense");
        }
    }
    link->has_news = false;
    bool is_gone = is_remote && !link->socket;
    return code == ERR_OK || (is_gone && code != ERR_CANCELLED) ? ERR_AGAIN : code;
}

/* --- sending and time ------------------------------------------------------------------------ */

enum err_code link_send(struct agent *agent, Drover__ToMaster *message, struct err *err)
{
    struct link *link = &agent->link;
    if (!link->socket) {
        return err_set(err, ERR_AGAIN, "not connected");
    }
    message->session = link->session;
    struct err why = {0};
    enum err_code code = wire_send_to_master(link->socket, message, &why);
    link->has_news = true;
    link->sent_ms = clock_mono_ms();
    if (code == ERR_OK) {
        return code;
    }
    if (agent->options->join && code != ERR_CANCELLED) {
        drop_and_pause(agent, "the connection takes no more");
        code = ERR_AGAIN;
    }
    return err_set(err, code, "%s", why.text);
}

enum err_code link_open(struct agent *agent, const char *note, struct err *err)
{
    struct link *link = &agent->link;
    if (note) {
        snprintf(link->note, sizeof link->note,
                 "memory limits are not enforced and out-of-memory cannot be told apart: %s", note);
    }
    link->rng.state = rng_seed_from_system();
    snprintf(link->boot, sizeof link->boot, "%016" PRIx64 "%016" PRIx64, rng_seed_from_system(),
             rng_next(&link->rng));
    if (agent->options->join) {
        link->fd = -1;
        link->heartbeat_ms = HEARTBEAT_MS;
        link->lease_ms = LEASE_MS;
        link->pause_ms = PAUSE_MS_MIN;
        link->greet_ms = LEASE_MS;
        link->turned_ms = clock_mono_ms();
        return ERR_OK;
    }
    enum err_code code = open_pair(agent, err);
    link->state = LINK_JOINED;
    return code == ERR_OK ? say_hello(agent, err) : code;
}

void link_close(struct link *link)
{
    if (link->socket) {
        int linger_ms = LINGER_MS;
        zmq_setsockopt(link->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    }
    close_socket(link);
}

/* A master that is busy with hundreds of others is not helped by more handshakes. */
static int64_t patience_ms(const struct link *link)
{
    return link->state == LINK_GREETING ? link->greet_ms : (int64_t)link->lease_ms;
}

enum err_code link_turn(struct agent *agent, struct err *err)
{
    struct link *link = &agent->link;
    if (!agent->options->join || link->is_over) {
        return ERR_OK;
    }
    int64_t now_ms = clock_mono_ms();
    bool has_slept = was_frozen(link, now_ms);
    /* What waits in the socket is heard first, even if we come to it late. */
    bool is_silent = !link->has_news && now_ms - link->heard_ms >= patience_ms(link);
    link->turned_ms = now_ms;
    if (link->state == LINK_GREETING && is_silent) {
        int64_t most_ms = GREET_LEASES_MAX * (int64_t)link->lease_ms;
        link->greet_ms = 2 * link->greet_ms < most_ms ? 2 * link->greet_ms : most_ms;
    }
    if (link->state != LINK_AWAY && (has_slept || is_silent)) {
        drop(agent, has_slept ? "this node was not running" : "the master is silent", 0);
    }
    if (link->state == LINK_AWAY) {
        return now_ms >= link->open_at_ms ? connect_again(agent, err) : ERR_OK;
    }
    if (link->state == LINK_JOINED && now_ms - link->sent_ms >= (int64_t)link->heartbeat_ms) {
        Drover__ToMaster heartbeat = DROVER__TO_MASTER__INIT;
        enum err_code code = link_send(agent, &heartbeat, err);
        return code == ERR_AGAIN ? ERR_OK : code;
    }
    return ERR_OK;
}

int64_t link_wake_ms(const struct agent *agent)
{
    const struct link *link = &agent->link;
    if (!agent->options->join || link->is_over) {
        return INT64_MAX;
    }
    if (link->state == LINK_AWAY) {
        return link->open_at_ms;
    }
    int64_t silent_ms = link->heard_ms + patience_ms(link);
    /* Also while greeting, so that a pause in our turns means what it says. */
    int64_t due_ms = (link->state == LINK_JOINED ? link->sent_ms : link->turned_ms) +
                     (int64_t)link->heartbeat_ms;
    return due_ms < silent_ms ? due_ms : silent_ms;
}
