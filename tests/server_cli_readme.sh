#!/bin/bash
# The README's cluster, block by block as a newcomer copies it: every ```sh block of that section is
# run in one shell, in order, beside the README's own tour.yaml.
. "$(dirname "$0")/lib.sh"
t_start "the cluster of the README"
unset DROVER_SERVER DROVER_TOKEN DROVER_CA
mkdir bin
ln -s "$DROVER" bin/drover
PATH=$PWD/bin:$PATH

end_cluster() {
    drover down --server --now >/dev/null 2>&1
    t_end
}
trap end_cluster EXIT

# The recipe of the tour, and the blocks as 1.sh, 2.sh...
awk '/^```yaml$/ && !done { inside = 1; next } /^```$/ && inside { inside = 0; done = 1 } inside' \
    "$SOURCE/README.md" >tour.yaml
awk '/^## / { here = $0 == "## The same on a cluster" }
    here && /^```sh$/ { inside = 1; out = ++n ".sh"; next }
    /^```$/ { inside = 0 }
    inside { print >out }' "$SOURCE/README.md"
check "the recipe of the tour is there" drover check tour.yaml
check_equal "and four blocks of commands" 4 "$(find . -maxdepth 1 -name '*.sh' | wc -l)"

run_block() { # N : its output is in N.out
    timeout 100 bash -e "$1.sh" >"$1.out" 2>&1 </dev/null
}
check "a server and nodes are started, and the recipe runs on them" run_block 1
check_output "the server is named" '^started a server: http://127\.0\.0\.1:[0-9]+, 3 nodes joined$' cat 1.out
check_output "everything succeeded" '^succeeded: 12 of 12 tasks succeeded' cat 1.out
check "it can be looked at" run_block 2
check_output "nodes" '^local-3 +here +2 ' cat 2.out
check_output "tasks, with the node they ran on" '^train/0 +succeeded +1 .* local-[123] ' cat 2.out
check_output "logs" '^train/3\.1:1: training with lr 0\.0001225' cat 2.out
check_output "the view" '^nodes 3 here' cat 2.out
check_equal "a command on every node" 3 "$(grep -cx "$(uname -n)" 2.out)"
check_equal "and one on every line" "2 3 4 5 6" "$(tail -n 5 2.out | paste -sd ' ')"
check "a node is emptied and another killed, and nothing is lost" run_block 3
check_output "all of it succeeded" '^succeeded: 12 of 12 tasks succeeded' cat 3.out
check "it is ended" run_block 4
check_output "wholly" 'and the server$' cat 4.out
check_equal "nothing is left running" "" "$(grep -lzF "$HOME/.local" /proc/[0-9]*/cmdline 2>/dev/null)"
