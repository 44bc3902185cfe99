#include "base/rng.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zmq.h>

struct pair {
    void *context;
    void *here;
    void *there;
};

static struct pair pair_open(void)
{
    struct pair pair = {.context = zmq_ctx_new()};
    pair.here = zmq_socket(pair.context, ZMQ_PAIR);
    pair.there = zmq_socket(pair.context, ZMQ_PAIR);
    assert_int_equal(zmq_bind(pair.here, "inproc://pair"), 0);
    assert_int_equal(zmq_connect(pair.there, "inproc://pair"), 0);
    return pair;
}

static void pair_close(struct pair *pair)
{
    zmq_close(pair->here);
    zmq_close(pair->there);
    zmq_ctx_term(pair->context);
}

/* A valid message of one run, to be spoilt by the tests. */
struct sample {
    Drover__ToNode message;
    Drover__Run run;
    Drover__Run *runs[1];
    Drover__Attempt id;
    Drover__Secret secret;
    Drover__Secret *secrets[1];
    ProtobufCBinaryData argv[2];
};

static void sample_init(struct sample *sample)
{
    static char program[] = "/bin/true";
    static char name[] = "train";
    static char secret_name[] = "TOKEN";
    drover__to_node__init(&sample->message);
    drover__run__init(&sample->run);
    drover__attempt__init(&sample->id);
    drover__secret__init(&sample->secret);
    sample->secret.name = secret_name;
    sample->secrets[0] = &sample->secret;
    sample->argv[0] = (ProtobufCBinaryData){.data = (uint8_t *)program, .len = strlen(program)};
    sample->argv[1] = sample->argv[0];
    sample->id.task = 7;
    sample->run.id = &sample->id;
    sample->run.experiment_name = name;
    sample->run.n_argv = 2;
    sample->run.argv = sample->argv;
    sample->run.n_secrets = 1;
    sample->run.secrets = sample->secrets;
    sample->runs[0] = &sample->run;
    sample->message.n_run = 1;
    sample->message.run = sample->runs;
}

static enum err_code reparse(const Drover__ToNode *message)
{
    size_t size = drover__to_node__get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    drover__to_node__pack(message, bytes);
    Drover__ToNode *out = NULL;
    struct err err = {0};
    enum err_code code = wire_parse_to_node(bytes, size, &out, &err);
    wire_free_to_node(out);
    free(bytes);
    return code;
}

static void test_a_message_arrives_as_it_was_sent(void **state)
{
    (void)state;
    struct pair pair = pair_open();
    struct sample sample;
    sample_init(&sample);
    struct err err = {0};
    Drover__ToNode *got = NULL;
    assert_int_equal(wire_receive_to_node(pair.there, &got, &err), ERR_AGAIN);
    assert_int_equal(wire_send_to_node(pair.here, &sample.message, &err), ERR_OK);
    assert_int_equal(wire_receive_to_node(pair.there, &got, &err), ERR_OK);
    assert_int_equal(got->n_run, 1);
    assert_true(wire_attempt_equal(got->run[0]->id, &sample.id));
    assert_string_equal(got->run[0]->experiment_name, "train");
    assert_int_equal(got->run[0]->n_argv, 2);
    wire_free_to_node(got);
    pair_close(&pair);
}

static void test_what_is_no_message_is_refused_and_dropped(void **state)
{
    (void)state;
    struct pair pair = pair_open();
    struct err err = {0};
    Drover__ToMaster *got = NULL;
    assert_int_equal(zmq_send(pair.here, "\xff\xff\xff", 3, 0), 3);
    assert_int_equal(wire_receive_to_master(pair.there, &got, &err), ERR_INVALID);
    assert_int_equal(zmq_send(pair.here, "", 0, ZMQ_SNDMORE), 0);
    assert_int_equal(zmq_send(pair.here, "", 0, 0), 0);
    assert_int_equal(wire_receive_to_master(pair.there, &got, &err), ERR_INVALID);
    assert_int_equal(wire_receive_to_master(pair.there, &got, &err), ERR_AGAIN);
    pair_close(&pair);
}

static void test_a_message_too_large_is_neither_sent_nor_accepted(void **state)
{
    (void)state;
    struct pair pair = pair_open();
    struct sample sample;
    sample_init(&sample);
    struct err err = {0};
    size_t size = WIRE_MESSAGE_BYTES_MAX + 1;
    uint8_t *bytes = calloc(1, size);
    assert_non_null(bytes);
    sample.argv[1] = (ProtobufCBinaryData){.data = bytes, .len = size};
    assert_int_equal(wire_send_to_node(pair.here, &sample.message, &err), ERR_RANGE);
    Drover__ToNode *got = NULL;
    assert_int_equal(wire_parse_to_node(bytes, size, &got, &err), ERR_INVALID);
    free(bytes);
    pair_close(&pair);
}

static void test_fields_out_of_range_are_refused(void **state)
{
    (void)state;
    struct sample sample;
    char empty[] = "";
    char above[] = "..";
    char nested[] = "a/b";
    char *bad_names[] = {empty, above, nested};
    sample_init(&sample);
    assert_int_equal(reparse(&sample.message), ERR_OK);
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        sample_init(&sample);
        sample.run.experiment_name = bad_names[i];
        assert_int_equal(reparse(&sample.message), ERR_INVALID);
    }
    char *bad_numbers[] = {above,
                           nested,
                           (char *)(uintptr_t) "01",
                           (char *)(uintptr_t) "-1",
                           (char *)(uintptr_t) "7a",
                           (char *)(uintptr_t) "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad_numbers / sizeof *bad_numbers; i++) {
        sample_init(&sample);
        sample.run.checkpoint_name = bad_numbers[i];
        assert_int_equal(reparse(&sample.message), ERR_INVALID);
    }
    sample_init(&sample);
    sample.run.checkpoint_name = (char *)(uintptr_t) "1234567890123456789";
    assert_int_equal(reparse(&sample.message), ERR_OK);
    sample_init(&sample);
    sample.run.id = NULL;
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample_init(&sample);
    sample.run.n_argv = 0;
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample_init(&sample);
    sample.run.timeout_ms = -1;
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample_init(&sample);
    sample.run.grace_ms = INT64_MAX;
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample_init(&sample);
    sample.run.gpus = WIRE_GPUS_MAX + 1;
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample_init(&sample);
    sample.run.message_only = true; /* needs no program, but all the rest */
    sample.run.n_argv = 0;
    assert_int_equal(reparse(&sample.message), ERR_OK);
    sample_init(&sample);
    char assignment[] = "A=B";
    sample.secret.name = assignment;
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
}

static void test_an_unknown_outcome_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    for (int outcome = 0; outcome <= 9; outcome++) {
        Drover__Attempt id = DROVER__ATTEMPT__INIT;
        Drover__Ended ended = DROVER__ENDED__INIT;
        Drover__Ended *list[] = {&ended};
        Drover__ToMaster message = DROVER__TO_MASTER__INIT;
        ended.id = &id;
        ended.outcome = (Drover__Outcome)outcome;
        message.n_ended = 1;
        message.ended = list;
        uint8_t bytes[64];
        size_t size = drover__to_master__pack(&message, bytes);
        Drover__ToMaster *out = NULL;
        bool is_known = outcome >= 1 && outcome <= 8;
        assert_int_equal(wire_parse_to_master(bytes, size, &out, &err),
                         is_known ? ERR_OK : ERR_INVALID);
        wire_free_to_master(out);
    }
}

static void test_folders_of_a_run_are_safe(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool as_id;
        bool as_code;
        bool as_input;
    } CASES[] = {
        {"", true, true, false},
        {"20260801-a1b2", true, false, true},
        {"0123456789abcdef", true, true, true},
        {"../up", false, false, false},
        {".", false, false, false},
        {"a/b", false, false, false},
        {"a\nb", false, false, false},
        {"ABC", true, false, true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char text[32];
        char *inputs[] = {text};
        struct sample sample;
        snprintf(text, sizeof text, "%s", CASES[i].text);
        sample_init(&sample);
        sample.run.workflow_id = text;
        assert_int_equal(reparse(&sample.message), CASES[i].as_id ? ERR_OK : ERR_INVALID);
        sample_init(&sample);
        sample.run.code = text;
        assert_int_equal(reparse(&sample.message), CASES[i].as_code ? ERR_OK : ERR_INVALID);
        sample_init(&sample);
        sample.run.n_inputs = 1;
        sample.run.inputs = inputs;
        assert_int_equal(reparse(&sample.message), CASES[i].as_input ? ERR_OK : ERR_INVALID);
    }
    struct sample sample;
    uint8_t root[] = "/a\0b";
    sample_init(&sample);
    sample.run.root = (ProtobufCBinaryData){.data = root, .len = 4};
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample.run.root.len = 2;
    assert_int_equal(reparse(&sample.message), ERR_OK);
}

static void test_a_welcome_has_a_session_and_sane_times(void **state)
{
    (void)state;
    char name[] = "n1";
    char reason[] = "go\x1b[2J";
    uint8_t folder[] = "/state";
    Drover__Welcome good = DROVER__WELCOME__INIT;
    good.session = 1;
    good.name = name;
    good.heartbeat_ms = 1000;
    good.lease_ms = 4000;
    good.bulk_port = 65535;
    good.folder = (ProtobufCBinaryData){.data = folder, .len = 6};
    Drover__Welcome welcome = good;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.welcome = &welcome;
    assert_int_equal(reparse(&message), ERR_OK);
    welcome.session = 0;
    assert_int_equal(reparse(&message), ERR_INVALID);
    welcome = good;
    welcome.lease_ms = 1000;
    assert_int_equal(reparse(&message), ERR_INVALID);
    welcome = good;
    welcome.heartbeat_ms = 0;
    assert_int_equal(reparse(&message), ERR_INVALID);
    welcome = good;
    welcome.bulk_port = 65536;
    assert_int_equal(reparse(&message), ERR_INVALID);
    welcome = good;
    welcome.folder = (ProtobufCBinaryData){.data = folder + 1, .len = 5};
    assert_int_equal(reparse(&message), ERR_INVALID);
    Drover__Bye bye = DROVER__BYE__INIT;
    message.welcome = NULL;
    message.bye = &bye;
    assert_int_equal(reparse(&message), ERR_OK);
    bye.reason = reason;
    assert_int_equal(reparse(&message), ERR_INVALID);
}

/* A valid hello, to be spoilt by the tests. */
struct hello {
    Drover__ToMaster message;
    Drover__Hello hello;
    Drover__Holding holding;
    Drover__Holding *holdings[1];
    Drover__Attempt id;
    char label[80];
    char *labels[WIRE_LABELS_MAX + 1];
};

static void hello_init(struct hello *hello)
{
    static char name[] = "node-1";
    static char boot[] = "00112233445566778899aabbccddeeff";
    drover__to_master__init(&hello->message);
    drover__hello__init(&hello->hello);
    drover__holding__init(&hello->holding);
    drover__attempt__init(&hello->id);
    snprintf(hello->label, sizeof hello->label, "zone=a");
    for (int i = 0; i <= WIRE_LABELS_MAX; i++) {
        hello->labels[i] = hello->label;
    }
    hello->holding.id = &hello->id;
    hello->holdings[0] = &hello->holding;
    hello->hello.protocol = WIRE_PROTOCOL;
    hello->hello.name = name;
    hello->hello.boot = boot;
    hello->hello.labels = hello->labels;
    hello->hello.n_labels = 2;
    hello->hello.holding = hello->holdings;
    hello->hello.n_holding = 1;
    hello->message.hello = &hello->hello;
}

static enum err_code reparse_to_master(const Drover__ToMaster *message, Drover__ToMaster **out)
{
    size_t size = drover__to_master__get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    drover__to_master__pack(message, bytes);
    Drover__ToMaster *parsed = NULL;
    enum err_code code = wire_parse_to_master(bytes, size, &parsed, NULL);
    free(bytes);
    if (out) {
        *out = parsed;
    } else {
        wire_free_to_master(parsed);
    }
    return code;
}

static void test_a_hello_is_judged_field_by_field(void **state)
{
    (void)state;
    struct hello hello;
    hello_init(&hello);
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_OK);
    static const char *const BAD_LABELS[] = {"", "a b", "tab\t", "caf\xc3\xa9"};
    for (size_t i = 0; i < sizeof BAD_LABELS / sizeof BAD_LABELS[0]; i++) {
        snprintf(hello.label, sizeof hello.label, "%s", BAD_LABELS[i]);
        assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    }
    snprintf(hello.label, sizeof hello.label, "%065d", 1);
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    snprintf(hello.label, sizeof hello.label, "%064d", 1);
    hello.hello.n_labels = WIRE_LABELS_MAX;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_OK);
    hello.hello.n_labels = WIRE_LABELS_MAX + 1;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    hello_init(&hello);
    hello.holding.id = NULL;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    hello_init(&hello);
    hello.hello.price_micro_hour = -1;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    hello_init(&hello);
    char *texts[] = {hello.label};
    hello.hello.notes = texts;
    hello.hello.n_notes = 1;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_OK);
    char escape[] = "\x1b[2J";
    texts[0] = escape;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    hello_init(&hello);
    hello.hello.boot = escape;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
    hello_init(&hello);
    hello.hello.name = escape;
    assert_int_equal(reparse_to_master(&hello.message, NULL), ERR_INVALID);
}

static void test_another_protocol_is_told_apart_and_nothing_else_of_it_is_kept(void **state)
{
    (void)state;
    char up[] = "../up";
    char version[] = "0.0.9";
    for (unsigned protocol = 0; protocol < 5; protocol++) {
        struct hello hello;
        hello_init(&hello);
        hello.hello.protocol = protocol;
        hello.hello.version = version;
        if (protocol != WIRE_PROTOCOL) {
            hello.hello.name = up;
            hello.message.stopped = true;
        }
        Drover__ToMaster *out = NULL;
        struct err err = {0};
        assert_int_equal(reparse_to_master(&hello.message, &out), ERR_OK);
        assert_int_equal(out->hello->protocol, protocol);
        if (protocol == WIRE_PROTOCOL) {
            assert_int_equal(wire_check_protocol(out->hello, &err), ERR_OK);
            assert_int_equal(out->hello->n_labels, 2);
        } else {
            assert_int_equal(wire_check_protocol(out->hello, &err), ERR_UNSUPPORTED);
            assert_non_null(strstr(err.text, ", need 3: the node's drover 0.0.9 is "));
            assert_string_equal(out->hello->name, "");
            assert_int_equal(out->hello->n_labels, 0);
            assert_false(out->stopped);
        }
        wire_free_to_master(out);
    }
}

static void test_reports_have_bounds(void **state)
{
    (void)state;
    static uint8_t log[WIRE_LOG_BYTES_MAX + 1];
    Drover__Attempt id = DROVER__ATTEMPT__INIT;
    Drover__Ended ended = DROVER__ENDED__INIT;
    Drover__Ended *list[] = {&ended};
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    ended.id = &id;
    ended.outcome = DROVER__OUTCOME__OUTCOME_EXITED;
    message.n_ended = 1;
    message.ended = list;
    ended.log = (ProtobufCBinaryData){.data = log, .len = WIRE_LOG_BYTES_MAX};
    assert_int_equal(reparse_to_master(&message, NULL), ERR_OK);
    ended.log.len++;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_INVALID);
    ended.log.len = 0;
    ended.duration_us = INT64_MAX;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_INVALID);
    ended.duration_us = 0;
    ended.log_bytes = UINT64_MAX;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_INVALID);

    Drover__Usage usage = DROVER__USAGE__INIT;
    Drover__Usage *usages[] = {&usage};
    Drover__Notice notice = DROVER__NOTICE__INIT;
    drover__to_master__init(&message);
    message.n_usage = 1;
    message.usage = usages;
    message.notice = &notice;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_OK);
    notice.grace_ms = -1;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_INVALID);
    notice.grace_ms = 120000;
    usage.cpu_milli = WIRE_CPU_MILLI_MAX + 1;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_INVALID);
    usage.cpu_milli = 0;
    usage.net_in_bytes = UINT64_MAX;
    assert_int_equal(reparse_to_master(&message, NULL), ERR_INVALID);
    drover__to_master__init(&message);
    assert_int_equal(reparse_to_master(&message, NULL), ERR_OK); /* a heartbeat */
}

static void test_spoilt_bytes_never_crash(void **state)
{
    (void)state;
    struct sample sample;
    sample_init(&sample);
    uint8_t good[256];
    size_t size = drover__to_node__pack(&sample.message, good);
    struct rng rng = {.state = rng_seed_from_system()};
    printf("seed %llu\n", (unsigned long long)rng.state);
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[256];
        memcpy(bytes, good, size);
        for (uint64_t edits = 1 + rng_below(&rng, 4); edits > 0; edits--) {
            bytes[rng_below(&rng, size)] = (uint8_t)rng_next(&rng);
        }
        Drover__ToNode *out = NULL;
        if (wire_parse_to_node(bytes, 1 + rng_below(&rng, size), &out, NULL) == ERR_OK) {
            wire_free_to_node(out);
        }
    }
}

static void test_volumes_are_words_that_no_command_line_takes_amiss(void **state)
{
    (void)state;
    static char texts[][40] = {"data",  "s3://b/p", "v1",         "http://h", "eu",    "path",
                               "../up", "ftp://b",  "-o",         "a b",      "s3:\n", "odd",
                               "",      ".x",       "checkpoint", "file:///x"};
    struct sample sample;
    Drover__Volume volume = DROVER__VOLUME__INIT;
    Drover__Volume *volumes[] = {&volume};
    volume.name = texts[0];
    volume.store = texts[1];
    volume.snapshot = texts[2];
    volume.endpoint = texts[3];
    volume.region = texts[4];
    volume.addressing = texts[5];
    sample_init(&sample);
    sample.run.n_volumes = 1;
    sample.run.volumes = volumes;
    assert_int_equal(reparse(&sample.message), ERR_OK);
    const struct {
        char **field;
        char *bad;
    } cases[] = {
        {&volume.name, texts[6]},        {&volume.name, texts[12]},
        {&volume.store, texts[7]},       {&volume.store, texts[10]},
        {&volume.store, texts[12]},      {&volume.snapshot, texts[8]},
        {&volume.snapshot, texts[13]},   {&volume.snapshot, texts[6]},
        {&volume.endpoint, texts[8]},    {&volume.region, texts[9]},
        {&volume.addressing, texts[11]},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *before = *cases[i].field;
        *cases[i].field = cases[i].bad;
        assert_int_equal(reparse(&sample.message), ERR_INVALID);
        *cases[i].field = before;
    }
    sample.run.checkpoint_volume = texts[14];
    sample.run.volume_folder = texts[0];
    assert_int_equal(reparse(&sample.message), ERR_INVALID); /* there is none of that name */
    volume.name = texts[14];
    assert_int_equal(reparse(&sample.message), ERR_INVALID); /* and a snapshot will not do */
    volume.snapshot = texts[12];
    assert_int_equal(reparse(&sample.message), ERR_OK);
    sample.run.volume_folder = texts[6];
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
    sample.run.volume_folder = texts[12];
    assert_int_equal(reparse(&sample.message), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volumes_are_words_that_no_command_line_takes_amiss),
        cmocka_unit_test(test_a_message_arrives_as_it_was_sent),
        cmocka_unit_test(test_what_is_no_message_is_refused_and_dropped),
        cmocka_unit_test(test_a_message_too_large_is_neither_sent_nor_accepted),
        cmocka_unit_test(test_fields_out_of_range_are_refused),
        cmocka_unit_test(test_an_unknown_outcome_is_refused),
        cmocka_unit_test(test_folders_of_a_run_are_safe),
        cmocka_unit_test(test_a_welcome_has_a_session_and_sane_times),
        cmocka_unit_test(test_a_hello_is_judged_field_by_field),
        cmocka_unit_test(test_another_protocol_is_told_apart_and_nothing_else_of_it_is_kept),
        cmocka_unit_test(test_reports_have_bounds),
        cmocka_unit_test(test_spoilt_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
