#!/bin/bash
# The rules of the tree that need no analysis: who includes whom, what the core may call, what is
# banned, how long things may get. (make lint has the slower checks.)
. "$(dirname "$0")/lib.sh"
t_start "the rules of the source tree"

check "no file includes a header of a folder it may not" "$SOURCE/scripts/check-includes"
check "the core calls nothing but memory and arithmetic" \
    "$SOURCE/scripts/check-purity" "$DROVER_BUILD"
check "the banned functions do not compile" "$SOURCE/scripts/check-banned"
check "no file or function grew too long" "$SOURCE/scripts/check-size"

# The checks find what they are there to find.
mkdir -p tree/src/core tree/src/store tree/bench
echo '#include "base/err.h"' >tree/src/core/good.c
check "a good include is accepted" "$SOURCE/scripts/check-includes" tree
echo '#include "store/store.h"' >tree/src/core/bad.c
check_output "an include against the rules is found" 'bad.c:1: core may not use store' \
    "$SOURCE/scripts/check-includes" tree
rm tree/src/core/bad.c
echo "store_lib = static_library('store', dependencies: [base_dep, core_dep])" \
    >tree/src/store/meson.build
check_output "a link against the rules is found" 'meson.build:1: store may not use core' \
    "$SOURCE/scripts/check-includes" tree
rm tree/src/store/meson.build
echo '#include "err.h"' >tree/src/core/bad.c
check_exit 1 "an include without its folder is found" "$SOURCE/scripts/check-includes" tree

# A core that reads the clock, in a build folder of its own.
for name in core recipe base; do
    mkdir -p "built/src/$name"
done
compile() { # FOLDER SOURCE
    cc -x c -c -o "built/src/$1/x.o" - <<<"$2" &&
        rm -f "built/src/$1/lib$1.a" && ar rcs "built/src/$1/lib$1.a" "built/src/$1/x.o"
}
compile core 'int plan_next(void); int core_step(void) { return plan_next(); }'
compile recipe 'int plan_next(void) { return 1; }'
compile base 'int unused;'
check "a pure core is accepted" "$SOURCE/scripts/check-purity" built
compile recipe 'long time(long *); int plan_next(void) { return (int)time(0); }'
check_output "a clock read behind the recipe's back door is found" 'src/recipe/.*calls time' \
    "$SOURCE/scripts/check-purity" built
compile core 'int rand(void); int core_step(void) { return rand(); }'
check_output "randomness in the core is found" 'src/core/.*calls rand' \
    "$SOURCE/scripts/check-purity" built
