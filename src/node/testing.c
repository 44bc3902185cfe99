#include "node/testing.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/testing_net.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

enum { PATIENCE_MS = 10000 };

static void pause_ms(int64_t ms)
{
    usleep((unsigned)ms * 1000);
}

/* --- the node -------------------------------------------------------------------------------- */

static void *run_node(void *context)
{
    struct testing *testing = context;
    testing->returned = node_run(&testing->options, &testing->err);
    return NULL;
}

static void open_work(struct testing *testing)
{
    if (testing->work[0] == '\0') {
        snprintf(testing->work, sizeof testing->work, "/tmp/drover-node-test-XXXXXX");
        assert_non_null(mkdtemp(testing->work));
    }
    testing->context = zmq_ctx_new();
    testing->socket = zmq_socket(testing->context, ZMQ_PAIR);
    int linger_ms = 0;
    zmq_setsockopt(testing->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    assert_int_equal(zmq_bind(testing->socket, "inproc://node"), 0);
    testing->options = (struct node_options){
        .keep_fd = -1,
        .work_folder = testing->work,
        .name = "here",
        .zmq_context = testing->context,
        .endpoint = "inproc://node",
    };
}

void testing_open_with(struct testing *testing, const struct node_capacity *capacity)
{
    open_work(testing);
    testing->has_asked = false;
    testing->has_stopped = false;
    testing->order_count = 0;
    memset(testing->results, 0, sizeof testing->results);
    testing->options.capacity = *capacity;
    assert_int_equal(pthread_create(&testing->thread, NULL, run_node, testing), 0);
    testing_receive(testing, PATIENCE_MS); /* hello: from here on it can be sent to */
}

void testing_open(struct testing *testing, uint32_t slots)
{
    struct node_capacity capacity = {
        .cpu_milli = slots * 1000,
        .memory_bytes = UINT64_C(1) << 40,
    };
    testing_open_with(testing, &capacity);
}

void testing_tell(struct testing *testing, Drover__ToNode *message)
{
    if (testing->net) {
        testing_net_tell(testing, message);
    } else {
        assert_int_equal(wire_send_to_node(testing->socket, message, NULL), ERR_OK);
    }
}

void testing_stop(struct testing *testing, int64_t grace_ms)
{
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    Drover__Stop stop = DROVER__STOP__INIT;
    testing->has_asked = true;
    stop.grace_ms = grace_ms;
    message.stop = &stop;
    testing_tell(testing, &message);
}

void testing_close(struct testing *testing)
{
    if (!testing->has_asked) {
        testing_stop(testing, 0);
    }
    while (!testing->has_stopped) {
        testing_receive(testing, PATIENCE_MS);
    }
    pthread_join(testing->thread, NULL);
    assert_int_equal(testing->returned, ERR_OK);
    assert_false(testing_exists(testing, "slots"));
    zmq_close(testing->socket);
    zmq_ctx_term(testing->context);
    assert_int_equal(io_remove_tree(testing->work, NULL), ERR_OK);
    testing->work[0] = '\0';
}

/* --- messages -------------------------------------------------------------------------------- */

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static size_t fill(ProtobufCBinaryData *out, const char *const *words)
{
    size_t count = 0;
    while (count < TESTING_WORDS_MAX && words[count]) {
        out[count] = bytes_of(words[count]);
        count++;
    }
    return count;
}

static void name_task(Drover__Attempt *id, uint64_t task)
{
    drover__attempt__init(id);
    id->workflow = 1;
    id->task = task;
    id->attempt = 1;
    id->term = 1;
}

static void fill_run(Drover__Run *run, const struct testing *testing,
                     const struct testing_order *order)
{
    static char name[] = "train";
    run->experiment_name = name;
    run->workdir = bytes_of(order->workdir ? order->workdir : testing->work);
    run->timeout_ms = order->timeout_ms;
    run->grace_ms = order->grace_ms;
    run->log_limit_bytes = order->log_limit_bytes;
    run->memory_bytes = order->memory_bytes;
    run->cpu_milli = order->cpu_milli ? order->cpu_milli : 1000;
    run->gpus = order->gpus;
    run->inherit_env = order->inherit_env;
    run->checkpoint = order->checkpoint;
    run->checkpoint_name =
        (char *)(uintptr_t)(order->checkpoint_name ? order->checkpoint_name : "");
    run->message_only = order->message_only;
    if (order->root) {
        run->root = bytes_of(order->root);
    }
    run->code = (char *)(uintptr_t)(order->code ? order->code : "");
    run->inputs = (char **)(uintptr_t)order->inputs;
    while (run->n_inputs < TESTING_WORDS_MAX && order->inputs[run->n_inputs]) {
        run->n_inputs++;
    }
    static char id[] = "flow-1";
    run->workflow_id = id;
}

uint64_t testing_send(struct testing *testing, const struct testing_order *order)
{
    const char *const shell[TESTING_WORDS_MAX] = {"/bin/sh", "-c", order->script};
    ProtobufCBinaryData argv[TESTING_WORDS_MAX];
    ProtobufCBinaryData env[TESTING_WORDS_MAX];
    ProtobufCBinaryData outputs[TESTING_WORDS_MAX];
    Drover__Attempt id;
    Drover__Run run = DROVER__RUN__INIT;
    Drover__Run *runs[] = {&run};
    Drover__Secret secret = DROVER__SECRET__INIT;
    Drover__Secret *secrets[] = {&secret};
    uint64_t task = testing->order_count++;
    assert_true(task < TESTING_ORDERS_MAX);
    name_task(&id, task);
    fill_run(&run, testing, order);
    run.id = &id;
    run.n_argv = fill(argv, order->script ? shell : order->argv);
    run.argv = argv;
    run.n_env = fill(env, order->env);
    run.env = env;
    run.n_outputs = fill(outputs, order->outputs);
    run.outputs = outputs;
    AUTO_FREE char *secret_name = mem_strdup(order->secret_name ? order->secret_name : "");
    if (order->secret_name) {
        secret.name = secret_name;
        secret.file = bytes_of(order->secret_file);
        run.n_secrets = 1;
        run.secrets = secrets;
    }
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.n_run = 1;
    message.run = runs;
    testing_tell(testing, &message);
    return task;
}

void testing_kill(struct testing *testing, uint64_t task, int64_t grace_ms)
{
    Drover__Attempt id;
    name_task(&id, task);
    Drover__Kill kill = DROVER__KILL__INIT;
    Drover__Kill *kills[] = {&kill};
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    kill.id = &id;
    kill.grace_ms = grace_ms;
    message.n_kill = 1;
    message.kill = kills;
    testing_tell(testing, &message);
}

void testing_settle(struct testing *testing, uint64_t task, bool accepted)
{
    Drover__Attempt id;
    name_task(&id, task);
    Drover__Settled settled = DROVER__SETTLED__INIT;
    Drover__Settled *list[] = {&settled};
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    settled.id = &id;
    settled.accepted = accepted;
    message.n_settled = 1;
    message.settled = list;
    testing_tell(testing, &message);
}

static void take_ended(struct testing *testing, const Drover__Ended *ended)
{
    assert_true(ended->id->task < testing->order_count);
    struct testing_result *result = &testing->results[ended->id->task];
    assert_true(!result->has_ended || testing->net); /* nothing ends twice */
    result->has_ended = true;
    result->ended_count++;
    result->outcome = ended->outcome;
    result->code = ended->code;
    result->has_output = ended->has_output;
    result->duration_us = ended->duration_us;
    result->cpu_us = ended->cpu_us;
    result->log_bytes = ended->log_bytes;
    result->log_dropped_bytes = ended->log_dropped_bytes;
    snprintf(result->detail, sizeof result->detail, "%s", ended->detail);
    result->log_size = ended->log.len;
    snprintf(result->log, sizeof result->log, "%.*s", (int)ended->log.len,
             ended->log.len > 0 ? (const char *)ended->log.data : "");
}

void testing_take(struct testing *testing, const Drover__ToMaster *message)
{
    for (size_t i = 0; i < message->n_started; i++) {
        testing->results[message->started[i]->id->task].has_started = true;
    }
    for (size_t i = 0; i < message->n_ended; i++) {
        take_ended(testing, message->ended[i]);
    }
    if (message->hello && message->hello->n_notes > 0) {
        snprintf(testing->note, sizeof testing->note, "%s", message->hello->notes[0]);
    }
    testing->has_stopped = testing->has_stopped || message->stopped;
}

void testing_receive(struct testing *testing, int64_t timeout_ms)
{
    zmq_pollitem_t item = {.socket = testing->socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, (long)timeout_ms) <= 0) {
        fail_msg("the node is silent");
    }
    if (testing->net) {
        testing_net_receive(testing);
        return;
    }
    Drover__ToMaster *message = NULL;
    struct err err = {0};
    enum err_code code = wire_receive_to_master(testing->socket, &message, &err);
    if (code == ERR_AGAIN) {
        return;
    }
    assert_int_equal(code, ERR_OK);
    testing_take(testing, message);
    wire_free_to_master(message);
}

const struct testing_result *testing_wait(struct testing *testing, uint64_t task)
{
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (!testing->results[task].has_ended) {
        int64_t left_ms = until_ms - clock_mono_ms();
        testing_receive(testing, left_ms > 0 ? left_ms : 0);
    }
    return &testing->results[task];
}

void testing_wait_started(struct testing *testing, uint64_t task)
{
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (!testing->results[task].has_started) {
        int64_t left_ms = until_ms - clock_mono_ms();
        testing_receive(testing, left_ms > 0 ? left_ms : 0);
    }
}

const struct testing_result *testing_do(struct testing *testing, const struct testing_order *order)
{
    return testing_wait(testing, testing_send(testing, order));
}

/* --- files ----------------------------------------------------------------------------------- */

char *testing_read(const struct testing *testing, const char *name)
{
    AUTO_STR struct str path = {0};
    struct str text = {0};
    str_addf(&path, "%s/%s", testing->work, name);
    if (io_read_file(str_text(&path), 64 << 20, &text, NULL) != ERR_OK) {
        str_release(&text);
        return NULL;
    }
    return str_take(&text);
}

char *testing_log(const struct testing *testing, uint64_t task)
{
    char name[64];
    snprintf(name, sizeof name, "logs/train/%u/%u.1.log", (unsigned)(task / 1000), (unsigned)task);
    return testing_read(testing, name);
}

bool testing_exists(const struct testing *testing, const char *name)
{
    AUTO_STR struct str path = {0};
    struct stat stat;
    str_addf(&path, "%s/%s", testing->work, name);
    return lstat(str_text(&path), &stat) == 0;
}

pid_t testing_wait_pid(const struct testing *testing, const char *name)
{
    for (int64_t until_ms = clock_mono_ms() + PATIENCE_MS; clock_mono_ms() < until_ms;) {
        AUTO_FREE char *text = testing_read(testing, name);
        if (text && strchr(text, '\n')) {
            return (pid_t)strtol(text, NULL, 10);
        }
        pause_ms(2);
    }
    fail_msg("%s was never written", name);
    return 0;
}

/* --- processes ------------------------------------------------------------------------------- */

/* "PID (NAME) STATE PARENT ..."; false: no such process. */
static bool read_stat(pid_t pid, char *state, pid_t *parent, char *name, size_t name_size)
{
    char path[64];
    AUTO_STR struct str text = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (io_read_file(path, 4096, &text, NULL) != ERR_OK) {
        return false;
    }
    const char *open = strchr(str_text(&text), '(');
    const char *close = strrchr(str_text(&text), ')');
    if (!open || !close) {
        return false;
    }
    snprintf(name, name_size, "%.*s", (int)(close - open - 1), open + 1);
    *state = close[2];
    *parent = (pid_t)strtol(close + 3, NULL, 10);
    return true;
}

bool testing_is_alive(pid_t pid)
{
    char state = 0;
    pid_t parent = 0;
    char name[64];
    return read_stat(pid, &state, &parent, name, sizeof name) && state != 'Z' && state != 'X';
}

bool testing_is_gone_within(pid_t pid, int64_t limit_ms)
{
    for (int64_t until_ms = clock_mono_ms() + limit_ms; testing_is_alive(pid);) {
        if (clock_mono_ms() >= until_ms) {
            return false;
        }
        pause_ms(1);
    }
    return true;
}

/* The first child of the process with this name (NULL: any), and how many there are. */
static pid_t find_child(pid_t of, const char *wanted, size_t *count)
{
    pid_t found = 0;
    *count = 0;
    DIR *folder = opendir("/proc");
    assert_non_null(folder);
    for (const struct dirent *entry = NULL; (entry = readdir(folder)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        char state = 0;
        pid_t parent = 0;
        char name[64];
        if (pid > 0 && read_stat(pid, &state, &parent, name, sizeof name) && parent == of &&
            (!wanted || strcmp(name, wanted) == 0)) {
            found = found ? found : pid;
            (*count)++;
        }
    }
    closedir(folder);
    return found;
}

pid_t testing_find_slot(pid_t parent)
{
    size_t count = 0;
    return find_child(parent, "drover-slot", &count);
}

size_t testing_count_children(void)
{
    size_t count = 0;
    (void)find_child(getpid(), NULL, &count);
    return count;
}

size_t testing_count_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}
