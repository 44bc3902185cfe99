/* core_world.h - what the unit tests of the core share: a small world with one workflow, and a look
 * at what was decided. For tests only. */
#ifndef CORE_CORE_WORLD_H
#define CORE_CORE_WORLD_H

#include "core/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORLD_FN __attribute__((unused)) static

enum { LEASE_MS = 4000 };

WORLD_FN const struct core_node_spec two_slots = {
    .capacity = {.cpu_milli = 2000, .memory_bytes = 8000000000, .disk_bytes = 8000000000}};

struct world {
    struct core *core;
    struct core_out out;
    int64_t now_ms;
};

WORLD_FN void world_begin(struct world *world, const struct core_experiment_spec *experiments,
                          size_t count)
{
    *world = (struct world){.core = core_create(), .now_ms = 1000};
    struct core_workflow_spec spec = {.experiments = experiments, .experiment_count = count};
    core_define(world->core, 1, &spec);
    core_set_lease(world->core, LEASE_MS);
    core_begin_term(world->core, CORE_NODES_GONE, world->now_ms, &world->out);
    core_submit(world->core, 1, world->now_ms, &world->out);
}

WORLD_FN void world_end(struct world *world)
{
    core_verify(world->core);
    core_destroy(world->core);
    core_out_release(&world->out);
}

/* The n-th effect of a kind among what was decided since the last clear, or NULL. */
WORLD_FN const struct core_effect *effect(const struct world *world, enum core_effect_kind kind,
                                          size_t n)
{
    for (size_t i = 0; i < world->out.effect_count; i++) {
        if (world->out.effects[i].kind == kind && n-- == 0) {
            return &world->out.effects[i];
        }
    }
    return NULL;
}

WORLD_FN size_t effect_count(const struct world *world, enum core_effect_kind kind)
{
    size_t count = 0;
    while (effect(world, kind, count)) {
        count++;
    }
    return count;
}

/* The node says how an attempt ended; what was decided before is forgotten. */
WORLD_FN void report_from(struct world *world, uint32_t node, const struct core_attempt *id,
                          enum core_outcome outcome, uint32_t code)
{
    struct core_result result = {
        .outcome = outcome, .code = code, .started_ms = world->now_ms, .duration_us = 60000000};
    struct core_attempt copy = *id;
    core_out_clear(&world->out);
    core_task_ended(world->core, node, &copy, &result, world->now_ms, &world->out);
    core_verify(world->core);
}

WORLD_FN void report(struct world *world, const struct core_attempt *id, enum core_outcome outcome,
                     uint32_t code)
{
    report_from(world, 0, id, outcome, code);
}

/* A node of so many slots joins with nothing; what was decided before is forgotten. */
WORLD_FN void join_slots(struct world *world, uint32_t node, uint32_t slots)
{
    struct core_node_spec spec = two_slots;
    spec.capacity.cpu_milli = slots * 1000;
    core_out_clear(&world->out);
    core_node_join(world->core, node, &spec, world->now_ms, &world->out);
    core_verify(world->core);
}

WORLD_FN void join_with(struct world *world, uint32_t node, const struct core_attempt *held,
                        size_t count)
{
    struct core_node_spec spec = two_slots;
    spec.held = held;
    spec.held_count = count;
    core_out_clear(&world->out);
    core_node_join(world->core, node, &spec, world->now_ms, &world->out);
    core_verify(world->core);
}

/* Time passes in silence. */
WORLD_FN void pass(struct world *world, int64_t ms)
{
    world->now_ms += ms;
    core_out_clear(&world->out);
    core_tick(world->core, world->now_ms, &world->out);
    core_verify(world->core);
}

WORLD_FN enum core_task_state state_of(const struct world *world, uint32_t experiment,
                                       uint64_t task)
{
    struct core_task_view view;
    core_task_view(world->core, 1, experiment, task, &view);
    return view.state;
}

WORLD_FN size_t fact_count(const struct world *world, enum fact_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < world->out.fact_count; i++) {
        count += world->out.facts[i].kind == kind;
    }
    return count;
}

/* The n-th attempt that was sent out since the last clear. */
WORLD_FN struct core_attempt started(const struct world *world, size_t n)
{
    const struct core_effect *start = effect(world, EFFECT_START, n);
    assert_non_null(start);
    return start->id;
}

WORLD_FN struct core_task_view view_of(const struct world *world, uint64_t task)
{
    struct core_task_view view;
    core_task_view(world->core, 1, 0, task, &view);
    return view;
}

WORLD_FN enum core_node_state node_state(const struct world *world, uint32_t node)
{
    struct core_node_view view;
    core_node_view(world->core, node, &view);
    return view.state;
}

#endif
