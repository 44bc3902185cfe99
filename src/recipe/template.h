/* template.h - text with {{placeholders}}, put into a shell line so that no value can ever become
 * shell syntax.
 *
 * A template is compiled once, when the recipe is checked: that is where every mistake is reported.
 * In TEMPLATE_SHELL mode the compiler follows the shell's quote state, for POSIX sh and bash at
 * once (shell_lex.h); a placeholder outside quotes, in '...' or in "..." is escaped for its place
 * when rendered. It is an error, unless written {{name|raw}}, where no escaping is safe:
 *  - in a here-document, backticks, a comment, ${...}, $((...)), ((...)), [[ ... ]], $'...' or a
 *    subscript, right after a $ or a backslash, and after >& or <&;
 *  - in words that the command evaluates: of eval, let, trap, `sh -c` and a few more;
 *  - behind a construct that the two shells may read differently.
 * Commands that hand a line to a shell of their own (ssh, su -c) are beyond its sight.
 * In TEMPLATE_PLAIN mode (exec arguments, env, workdir, outputs) values are inserted as they are.
 *
 * {{name}}        a parameter, a built-in (task, index, attempt, output, checkpoint, experiment,
 *                 workflow, seed) or another experiment's output folder ({{prepare.output}});
 *                 nothing at all (not '') when the parameter is absent
 * {{name|raw}}    inserted as it is, whatever the place; what follows is quoted on the
 *                 understanding that the value leaves no quote open
 * {{name|flag}}   "--name VALUE", or nothing when the parameter is absent; of a boolean, --name
 *                 when true and nothing when false. In a shell line a word of its own outside
 *                 quotes; in exec lists an item of its own: two arguments, one or none
 * {{{{            a literal {{
 *
 * Blanks are allowed inside the braces; a name is letters, digits and _ . - with neither . nor -
 * first.
 */
#ifndef RECIPE_TEMPLATE_H
#define RECIPE_TEMPLATE_H

#include "base/arena.h"
#include "base/str.h"
#include "recipe/diag.h"
#include "recipe/value.h"

#include <stdbool.h>
#include <stddef.h>

enum template_mode { TEMPLATE_PLAIN, TEMPLATE_SHELL };

struct template; /* lives in the arena it was compiled into; read-only, any thread */

/* Maps a placeholder's name to a slot number >= 0, or -1 for unknown. `context` is the caller's.
 * *suggestion may be set to a near name for the error text. */
typedef int (*template_resolve_fn)(void *context, const char *name, const char **suggestion);

/* Returns NULL with diagnoses at (line, column) plus the offset inside the text; later lines count
 * on from `line` and begin at `column` too, as in a block scalar. A shell template must end in a
 * neutral state: an unterminated quote, $(, here-document or backslash is an error. It may end in a
 * comment or a here-document's last line, so that only a new line can safely be put behind it. */
struct template *template_compile(struct arena *arena, enum template_mode mode, const char *text,
                                  int line, int column, template_resolve_fn resolve, void *context,
                                  struct diag_list *diags);

/* Appends the text with values[slot] filled in. Values hold no NUL. Pure; allocates only in out. */
void template_render(const struct template *tmpl, const struct value *values, struct str *out);

/* True if the template mentions this slot. */
bool template_uses(const struct template *tmpl, int slot);

/* For exec lists: true when the whole text is one {{name|flag}} placeholder (then *slot is its
 * slot and *name its name). Rendering such a template as plain text gives "--name VALUE" in one. */
bool template_is_flag(const struct template *tmpl, int *slot, const char **name);

#endif
