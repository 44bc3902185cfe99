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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_arrives_as_it_was_sent),
        cmocka_unit_test(test_what_is_no_message_is_refused_and_dropped),
        cmocka_unit_test(test_a_message_too_large_is_neither_sent_nor_accepted),
        cmocka_unit_test(test_fields_out_of_range_are_refused),
        cmocka_unit_test(test_an_unknown_outcome_is_refused),
        cmocka_unit_test(test_spoilt_bytes_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
