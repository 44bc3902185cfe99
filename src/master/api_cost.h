/* api_cost.h - what a node has cost, and its state in a word. Private to the API. */
#ifndef MASTER_API_COST_H
#define MASTER_API_COST_H

#include "master/herd.h"

/* Price times the time here, in units of the price's currency; 0 where the price is not known. */
double api_node_cost(const struct herd_node *node, int64_t now_ms);

/* "here", "away", "suspect", "draining", "left", "revoked". */
const char *api_node_state(const struct herd_node *node);

/* False: a place that is kept for a node of this process and was never taken. */
bool api_node_exists(const struct herd_node *node);

enum { API_NODE_STATES = 6 };

#endif
