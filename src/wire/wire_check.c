#include "wire/wire_check.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/* A length of time no longer than this can be added to any clock without overflow. */
#define TIME_MS_MAX (INT64_C(1000) * 60 * 60 * 24 * 366 * 100)
/* The last instant that has four digits for its year. */
#define UNIX_MS_MAX INT64_C(253402300799999)
/* So much on each of a hundred CPUs; the sums of millions of them still fit. */
#define CPU_US_MAX (TIME_MS_MAX * 1000)
#define PRICE_MICRO_MAX INT64_C(1000000000000000)

enum {
    PATH_BYTES_MAX = 4096,
    PROBE_BYTES_MAX = 256,
    DETAIL_BYTES_MAX = 16 << 10,
    NOTES_MAX = 32,
    WORD_BYTES_MAX = 64, /* boot, secret, version, nonce, code */
    PERIOD_MS_MAX = 60 * 60 * 1000,
};

static bool time_is_sane(int64_t time_ms)
{
    return time_ms >= 0 && time_ms <= TIME_MS_MAX;
}

static bool instant_is_sane(int64_t unix_ms)
{
    return unix_ms >= 0 && unix_ms <= UNIX_MS_MAX;
}

bool wire_text_is_clean(const char *text, size_t bytes_max)
{
    size_t size = 0;
    for (; text[size]; size++) {
        unsigned char c = (unsigned char)text[size];
        if (size >= bytes_max || c < 0x20 || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Printable ASCII without spaces. */
static bool word_is_clean(const char *text, size_t bytes_max)
{
    size_t size = 0;
    for (; text[size]; size++) {
        if (size >= bytes_max || text[size] <= ' ' || text[size] > '~') {
            return false;
        }
    }
    return true;
}

/* As the name of one folder: not empty, not hidden or special, no separator. */
static bool name_is_safe(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/') &&
           wire_text_is_clean(name, WIRE_NAME_BYTES_MAX);
}

static bool variable_is_safe(const char *name)
{
    size_t size = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return size > 0 && size <= WIRE_NAME_BYTES_MAX && name[size] == '\0' &&
           !(name[0] >= '0' && name[0] <= '9');
}

static bool hex_is_safe(const char *text)
{
    size_t size = strspn(text, "0123456789abcdef");
    return size <= WORD_BYTES_MAX && text[size] == '\0';
}

static bool number_is_safe(const char *text)
{
    size_t size = strspn(text, "0123456789");
    return size > 0 && size < 20 && text[size] == '\0' && (size == 1 || text[0] != '0');
}

/* Bytes that can be used as a path: none of them ends it early. */
static bool path_is_sane(const ProtobufCBinaryData *path)
{
    return path->len <= PATH_BYTES_MAX && (path->len == 0 || !memchr(path->data, 0, path->len));
}

/* --- to a node -------------------------------------------------------------------------------- */

static enum err_code check_run_names(const Drover__Run *run, struct err *err)
{
    if (!name_is_safe(run->experiment_name)) {
        return err_set(err, ERR_INVALID, "run: the experiment's name cannot name a folder");
    }
    if (run->workflow_id[0] != '\0' && !name_is_safe(run->workflow_id)) {
        return err_set(err, ERR_INVALID, "run: the workflow's id cannot name a folder");
    }
    if (!hex_is_safe(run->code)) {
        return err_set(err, ERR_INVALID, "run: the version of the code is not hex");
    }
    if (run->checkpoint_name[0] != '\0' && !number_is_safe(run->checkpoint_name)) {
        return err_set(err, ERR_INVALID, "run: the checkpoint's name is no number");
    }
    if (!path_is_sane(&run->root)) {
        return err_set(err, ERR_INVALID, "run: the root is no path");
    }
    for (size_t i = 0; i < run->n_inputs; i++) {
        if (!name_is_safe(run->inputs[i])) {
            return err_set(err, ERR_INVALID, "run: an input's name cannot name a folder");
        }
    }
    for (size_t i = 0; i < run->n_secrets; i++) {
        if (!variable_is_safe(run->secrets[i]->name)) {
            return err_set(err, ERR_INVALID, "run: a secret's name cannot name a variable");
        }
    }
    return ERR_OK;
}

static enum err_code check_run(const Drover__Run *run, struct err *err)
{
    if (!run->id) {
        return err_set(err, ERR_INVALID, "run: no id");
    }
    if (!run->message_only && (run->n_argv == 0 || run->argv[0].len == 0)) {
        return err_set(err, ERR_INVALID, "run: no program");
    }
    if (!time_is_sane(run->timeout_ms) || !time_is_sane(run->grace_ms)) {
        return err_set(err, ERR_INVALID, "run: timeout or grace out of range");
    }
    if (run->gpus > WIRE_GPUS_MAX || run->cpu_milli > WIRE_CPU_MILLI_MAX ||
        run->memory_bytes > INT64_MAX || run->log_limit_bytes > INT64_MAX) {
        return err_set(err, ERR_INVALID, "run: a need out of range");
    }
    return check_run_names(run, err);
}

static enum err_code check_welcome(const Drover__Welcome *welcome, struct err *err)
{
    if (welcome->session == 0 || !name_is_safe(welcome->name)) {
        return err_set(err, ERR_INVALID, "welcome: no session, or a name that cannot be one");
    }
    if (welcome->heartbeat_ms == 0 || welcome->heartbeat_ms > PERIOD_MS_MAX ||
        welcome->lease_ms <= welcome->heartbeat_ms || welcome->lease_ms > PERIOD_MS_MAX) {
        return err_set(err, ERR_INVALID, "welcome: heartbeat or lease out of range");
    }
    if (welcome->bulk_port > UINT16_MAX || !path_is_sane(&welcome->folder) ||
        welcome->probe.len > PROBE_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "welcome: port, folder or probe out of range");
    }
    if (welcome->folder.len > 0 && welcome->folder.data[0] != '/') {
        return err_set(err, ERR_INVALID, "welcome: the folder is not absolute");
    }
    return ERR_OK;
}

enum err_code wire_check_to_node(const Drover__ToNode *message, struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < message->n_run && code == ERR_OK; i++) {
        code = check_run(message->run[i], err);
    }
    if (code == ERR_OK && message->welcome) {
        code = check_welcome(message->welcome, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < message->n_kill; i++) {
        if (!message->kill[i]->id || !time_is_sane(message->kill[i]->grace_ms)) {
            return err_set(err, ERR_INVALID, "kill: no id, or grace out of range");
        }
    }
    for (size_t i = 0; i < message->n_settled; i++) {
        if (!message->settled[i]->id) {
            return err_set(err, ERR_INVALID, "settled: no id");
        }
    }
    if (message->stop && !time_is_sane(message->stop->grace_ms)) {
        return err_set(err, ERR_INVALID, "stop: grace out of range");
    }
    if (message->bye && !wire_text_is_clean(message->bye->reason, WIRE_REASON_BYTES_MAX)) {
        return err_set(err, ERR_INVALID, "bye: the reason is no text");
    }
    return ERR_OK;
}

/* --- to the master ---------------------------------------------------------------------------- */

static enum err_code check_ended(const Drover__Ended *ended, struct err *err)
{
    if (!ended->id) {
        return err_set(err, ERR_INVALID, "ended: no id");
    }
    if (ended->outcome <= DROVER__OUTCOME__OUTCOME_NONE ||
        ended->outcome > DROVER__OUTCOME__OUTCOME_SLOT_LOST) {
        return err_set(err, ERR_INVALID, "ended: unknown outcome");
    }
    if (ended->code > 255 || ended->duration_us < 0 || ended->duration_us > TIME_MS_MAX * 1000 ||
        ended->cpu_us < 0 || ended->cpu_us > CPU_US_MAX * 100 ||
        !instant_is_sane(ended->started_unix_ms) || ended->peak_rss_bytes > INT64_MAX ||
        ended->log_bytes > INT64_MAX || ended->log_dropped_bytes > INT64_MAX) {
        return err_set(err, ERR_INVALID, "ended: a number out of range");
    }
    if (ended->log.len > WIRE_LOG_BYTES_MAX || strlen(ended->detail) > DETAIL_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "ended: log or detail too long");
    }
    return ERR_OK;
}

static enum err_code check_hello_words(const Drover__Hello *hello, struct err *err)
{
    if (!name_is_safe(hello->name) || !wire_text_is_clean(hello->gpu_kind, WIRE_NAME_BYTES_MAX)) {
        return err_set(err, ERR_INVALID, "hello: a name that cannot be one");
    }
    if (!word_is_clean(hello->boot, WORD_BYTES_MAX) ||
        !word_is_clean(hello->version, WORD_BYTES_MAX) ||
        !word_is_clean(hello->join_secret, WORD_BYTES_MAX)) {
        return err_set(err, ERR_INVALID, "hello: boot, version or secret are no words");
    }
    if (hello->n_labels > WIRE_LABELS_MAX) {
        return err_set(err, ERR_INVALID, "hello: %zu labels, at most %d", hello->n_labels,
                       (int)WIRE_LABELS_MAX);
    }
    for (size_t i = 0; i < hello->n_labels; i++) {
        if (!wire_label_is_valid(hello->labels[i])) {
            return err_set(err, ERR_INVALID, "hello: a label that cannot be one");
        }
    }
    bool are_notes_clean = hello->n_notes <= NOTES_MAX;
    for (size_t i = 0; i < hello->n_notes && are_notes_clean; i++) {
        are_notes_clean = wire_text_is_clean(hello->notes[i], WIRE_REASON_BYTES_MAX);
    }
    return are_notes_clean ? ERR_OK : err_set(err, ERR_INVALID, "hello: the notes are no text");
}

static enum err_code check_hello(const Drover__Hello *hello, struct err *err)
{
    if (hello->gpus > WIRE_GPUS_MAX || hello->cpu_milli > WIRE_CPU_MILLI_MAX ||
        hello->memory_bytes > INT64_MAX || hello->disk_bytes > INT64_MAX ||
        hello->price_micro_hour < 0 || hello->price_micro_hour > PRICE_MICRO_MAX ||
        hello->pid > INT32_MAX) {
        return err_set(err, ERR_INVALID, "hello: a number out of range");
    }
    for (size_t i = 0; i < hello->n_holding; i++) {
        if (!hello->holding[i]->id) {
            return err_set(err, ERR_INVALID, "holding: no id");
        }
    }
    return check_hello_words(hello, err);
}

static enum err_code check_usage(const Drover__Usage *usage, struct err *err)
{
    const uint64_t sizes[] = {usage->memory_bytes, usage->disk_read_bytes, usage->disk_write_bytes,
                              usage->net_in_bytes, usage->net_out_bytes,   usage->gpu_memory_bytes};
    bool good = instant_is_sane(usage->at_unix_ms) && usage->cpu_milli <= WIRE_CPU_MILLI_MAX &&
                usage->gpu_milli <= WIRE_GPUS_MAX * 1000;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        good = good && sizes[i] <= INT64_MAX;
    }
    return good ? ERR_OK : err_set(err, ERR_INVALID, "usage: a number out of range");
}

enum err_code wire_check_to_master(const Drover__ToMaster *message, struct err *err)
{
    enum err_code code = message->hello ? check_hello(message->hello, err) : ERR_OK;
    for (size_t i = 0; i < message->n_ended && code == ERR_OK; i++) {
        code = check_ended(message->ended[i], err);
    }
    for (size_t i = 0; i < message->n_usage && code == ERR_OK; i++) {
        code = check_usage(message->usage[i], err);
    }
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < message->n_started; i++) {
        const Drover__Started *started = message->started[i];
        if (!started->id || !instant_is_sane(started->started_unix_ms) ||
            started->output.len > PATH_MAX ||
            (started->output.len > 0 && (started->output.data[0] != '/' ||
                                         memchr(started->output.data, 0, started->output.len)))) {
            return err_set(err, ERR_INVALID, "started: no id, time out of range, or no such path");
        }
    }
    if (message->notice && (!time_is_sane(message->notice->grace_ms) ||
                            !wire_text_is_clean(message->notice->reason, WIRE_REASON_BYTES_MAX))) {
        return err_set(err, ERR_INVALID, "notice: grace out of range, or the reason is no text");
    }
    return ERR_OK;
}

bool wire_label_is_valid(const char *label)
{
    return label[0] != '\0' && word_is_clean(label, WIRE_LABEL_BYTES_MAX);
}

enum err_code wire_check_protocol(const Drover__Hello *hello, struct err *err)
{
    if (hello->protocol == WIRE_PROTOCOL) {
        return ERR_OK;
    }
    bool is_old = hello->protocol < WIRE_PROTOCOL;
    return err_set(err, ERR_UNSUPPORTED,
                   "hello: protocol %u, need %d: the node's drover%s%s is %s than the master's "
                   "(%s): install the same version on both",
                   hello->protocol, (int)WIRE_PROTOCOL, hello->version[0] ? " " : "",
                   hello->version, is_old ? "older" : "newer", DROVER_VERSION);
}
