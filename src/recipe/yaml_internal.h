/* yaml_internal.h - what the parts of the YAML reader share; for yaml*.c only. */
#ifndef RECIPE_YAML_INTERNAL_H
#define RECIPE_YAML_INTERNAL_H

#include "recipe/yaml.h"

#include <yaml.h>

/* yaml_type.c: how plain text reads. */
enum ynode_type yaml_type_of(const char *text, size_t size);

/* yaml_text.c: refuses what libyaml should never see: NUL and control bytes, text that is not
 * UTF-8, and so many directives that libyaml's quadratic search through them would hang. */
bool yaml_check_text(const char *text, size_t size, struct diag_list *diags);

/* yaml_text.c: libyaml's own error in words a user can act on. */
void yaml_report_error(const yaml_parser_t *parser, const char *text, size_t size,
                       struct diag_list *diags);

/* yaml_mapping.c: gives a mapping its pairs from children (key, value, key, value ...), merging
 * what
 * `<<` names. False after a diagnosis; the mapping is whole either way. */
bool yaml_fill_mapping(struct arena *arena, struct ynode *node, struct ynode **children,
                       size_t pair_count, struct diag_list *diags);

/* yaml_weight.c: fills node->weight from its children's. */
void yaml_weigh(struct ynode *node);

/* yaml_weight.c: which limit a tree of this weight breaks, in words, or NULL. */
const char *yaml_overweight(const struct ynode_weight *weight);

#endif
