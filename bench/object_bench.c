/* object_bench - objects of 64 MB into a store and out of it again: the limit that a volume in the
 * same store is measured against.
 *
 *   object_bench put URL ENDPOINT OBJECTS IN_FLIGHT     prints MB/s
 *   object_bench get URL ENDPOINT OBJECTS IN_FLIGHT
 *
 * ENDPOINT is "-" for none. Objects are bench/0, bench/1, ...
 */
#include "base/clock.h"
#include "base/mem.h"
#include "object/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECT_BYTES = 64 << 20 };

struct round {
    struct object_store *store;
    enum object_verb verb;
    const char *data;
    size_t next, count, done;
    uint64_t bytes;
};

struct one {
    struct object_call call;
    struct round *round;
    char key[32];
};

static void start(struct round *round);

static void on_done(struct object_call *call)
{
    struct one *one = call->context;
    struct round *round = one->round;
    if (call->code != ERR_OK) {
        fprintf(stderr, "object_bench: %s\n", call->err.text);
        exit(1);
    }
    round->done++;
    round->bytes += call->verb == OBJECT_GET ? call->body.size : call->data_size;
    object_call_release(call);
    free(one);
    start(round);
}

static void start(struct round *round)
{
    if (round->next == round->count) {
        return;
    }
    struct one *one = mem_alloc(sizeof *one);
    one->round = round;
    snprintf(one->key, sizeof one->key, "bench/%zu", round->next++);
    one->call = (struct object_call){.verb = round->verb,
                                     .key = one->key,
                                     .data = round->data,
                                     .data_size = round->data ? OBJECT_BYTES : 0,
                                     .done = on_done,
                                     .context = one};
    object_start(round->store, &one->call);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("usage: object_bench put|get URL ENDPOINT OBJECTS IN_FLIGHT\n", stderr);
        return 2;
    }
    struct object_options options = {.endpoint = strcmp(argv[3], "-") ? argv[3] : NULL,
                                     .create = true};
    struct round round = {.verb = argv[1][0] == 'p' ? OBJECT_PUT : OBJECT_GET,
                          .count = strtoull(argv[4], NULL, 10)};
    struct err err;
    if (object_open(argv[2], &options, &round.store, &err) != ERR_OK) {
        fprintf(stderr, "object_bench: %s\n", err.text);
        return 1;
    }
    char *data = mem_alloc(OBJECT_BYTES);
    for (size_t i = 0; i < OBJECT_BYTES; i++) {
        data[i] = (char)(i * 2654435761U >> 13);
    }
    round.data = round.verb == OBJECT_PUT ? data : NULL;
    int64_t began_us = clock_mono_us();
    for (size_t i = 0; i < strtoull(argv[5], NULL, 10); i++) {
        start(&round);
    }
    while (round.done < round.count) {
        object_run(round.store, 1000);
    }
    double seconds = (double)(clock_mono_us() - began_us) / 1e6;
    printf("%.1f\n", (double)round.bytes / seconds / 1e6);
    object_close(round.store);
    free(data);
    return 0;
}
