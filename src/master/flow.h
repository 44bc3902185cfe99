/* flow.h - a workflow as the master knows it: its recipe, its seed, its folder.
 *
 * Recorded as a document of the store ("workflow/N") before its submission is a fact; restored from
 * it after a restart. Its number in the core is N, from 1.
 */
#ifndef MASTER_FLOW_H
#define MASTER_FLOW_H

#include "base/err.h"
#include "base/str.h"
#include "master/stores.h"
#include "recipe/diag.h"
#include "recipe/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct ledger;

struct flow {
    uint32_t number;
    char *id;     /* "mnist-3": a name for people, unique on its server */
    char *folder; /* absolute: logs/, attempts/, outputs/... are in it; a server has one below
                     its state folder for each workflow */
    bool has_own_folder; /* it is STATE/workflows/ID, not STATE itself */
    char *recipe_folder; /* where its commands run on this machine */
    char *code;          /* version of its synced code, or "" (commands run in recipe_folder) */
    char *key;           /* idempotency key, or "" */
    char *owner;         /* name of the token that submitted it, or "" */
    struct recipe *recipe;
    char *volume_folder;  /* in volumes that hold checkpoints or outputs: its id and when it was
                             made,  for others may have workflows of the same id */
    struct stores stores; /* of the volumes that the recipe knows by name */
    uint64_t seed;
    bool ignore_hardware;
    bool no_containers;
    struct ledger *ledger; /* what its searches have made of their tasks; NULL: it has none */
    /* It asked through: goes into every plan_context. */
    plan_given_fn given;
    void *given_owner;
    int64_t created_ms;
    int64_t ended_ms; /* 0: not yet, or not known */
    uint32_t told;    /* of its webhooks, by their bits: know of this end, or cannot be told */
};

void flow_destroy(struct flow *flow); /* NULL does nothing */

/* Names the volume_folder, once its id and its time are known. */
void flow_name_folder(struct flow *flow);

/* Where a recipe's text comes from. */
struct flow_source {
    struct str text;
    char *file;   /* its name, for messages */
    char *folder; /* where its commands run */
    char *sets;   /* one --set a line */
};

MUST_USE enum err_code flow_source_from_file(const char *file, const char *const *sets,
                                             size_t set_count, struct flow_source *out,
                                             struct err *err);
MUST_USE enum err_code flow_source_set(const char *const *sets, size_t set_count,
                                       struct flow_source *out, struct err *err);
void flow_source_release(struct flow_source *source);

/* The checked recipe, or NULL with diagnoses. */
struct recipe *flow_parse(const struct flow_source *source, struct diag_list *diags);

/* The document that flow_restore reads back. */
void flow_record(const struct flow *flow, const struct flow_source *source, struct str *document);

/* The recorded flow as number `number`, with its task counts (manifests are in its folder). The
 * folder is the state folder for an only flow, else below it. ERR_CORRUPT: damaged. */
MUST_USE enum err_code flow_restore(const struct str *document, uint32_t number,
                                    const char *state_folder, struct flow **out, struct err *err);

/* Where a secret's file is: as the recipe names it, relative to its folder. */
void flow_add_secret_path(const struct flow *flow, const struct env_entry *secret, struct str *out);

/* Things that would make every task fail, found before anything is written: images without a
 * runtime (ERR_UNSUPPORTED), secrets that cannot be read (ERR_INVALID). */
MUST_USE enum err_code flow_check(const struct flow *flow, struct err *err);

#endif
