#!/bin/bash
# Wrong usage and wrong recipes of every kind: a clear message, the right exit code, no change.
. "$(dirname "$0")/lib.sh"
t_start "usage, errors and exit codes"

commands="check plan run list status tasks logs trials best compare"

# ---- help -------------------------------------------------------------------------------------

for command in $commands; do
    check_output "$command --help shows its usage" "^usage: drover $command" \
        "$DROVER" "$command" --help
    check_equal "$command --help succeeds" 0 "$t_status"
    check_output "help knows $command" "^  $command " "$DROVER" help
    check_exit 2 "$command refuses an unknown option" "$DROVER" "$command" --frobnicate
    check_output "$command names the unknown option" "unknown option --frobnicate" \
        "$DROVER" "$command" --frobnicate
done
check_exit 2 "no command at all is wrong usage" "$DROVER"
check_output "no command at all shows the usage" "^usage: drover COMMAND" "$DROVER"
check_output "version says which drover this is" '^drover [0-9]+\.[0-9]+' "$DROVER" version
check_exit 2 "an unknown command is refused" "$DROVER" frobnicate
check_output "a command nearly right is suggested" "did you mean 'check'" "$DROVER" chekc x.yaml
check_exit 2 "run wants a recipe" "$DROVER" run
check_exit 2 "run wants one recipe only" "$DROVER" run a.yaml b.yaml
for option in --slots --state --set --resume --seed --durable; do
    check_output "run $option wants a value" "$option needs a value" "$DROVER" run x.yaml $option
done
for option in --slots=0 --slots=x --slots=-1 --slots=99999 --seed=x --seed=-1 --durable=maybe; do
    check_exit 2 "run refuses $option" "$DROVER" run x.yaml $option
done

# ---- files ------------------------------------------------------------------------------------

printf 'experiments:\n  a: {command: "true"}\n' >good.yaml
mkdir folder stuff
touch stuff/mine
for command in check plan run; do
    check_exit 2 "$command of a missing file exits with 2" "$DROVER" $command nope.yaml
    check_output "$command of a missing file says so" 'nope\.yaml: No such file' \
        "$DROVER" $command nope.yaml
    check_output "$command of a folder says so" 'folder: Is a directory' "$DROVER" $command folder
done
check_output "status before any run says how to begin" 'drover run' "$DROVER" status
check_exit 2 "status of an unknown run is refused" "$DROVER" status nope-1
check_exit 2 "status of a folder without state is refused" "$DROVER" status --state folder
check_output "resuming an unknown run names it" "no run 'nope-1'" "$DROVER" run --resume nope-1
check_exit 2 "resuming takes no recipe" "$DROVER" run --resume a-1 good.yaml
check_exit 2 "a log needs a task's name" "$DROVER" logs
check_exit 2 "a folder with other things in it is not taken for a state" \
    "$DROVER" run good.yaml --state stuff
check_output "and that is said" 'stuff is not empty' "$DROVER" run good.yaml --state stuff

# ---- recipes ----------------------------------------------------------------------------------

cat >wrong.yaml <<'END'
experimens: 3
experiments:
  one:
    comand: echo {{x}}
    parameters: {y: 0..3, z: {range: 0.1-0.3}}
    retries: many
  two:
    depends_on: [three, oen]
    command: echo {{y}}
  three:
    depends_on: [two]
    command: echo 'x
END
cat >expected <<'END'
wrong.yaml:1:1: unknown key 'experimens' \(did you mean 'experiments'\?\)
wrong.yaml:4:5: unknown key 'comand' \(did you mean 'command'\?\)
wrong.yaml:5:27: 'z' is continuous.*samples
wrong.yaml:6:14: retries must be
wrong.yaml:8:17: .*two -> three -> two
wrong.yaml:8:25: no experiment 'oen' \(did you mean 'one'\?\)
wrong.yaml:9:19: \{\{y\}\}: no such name
wrong.yaml:12:19: ' is never closed
END
for command in check plan run; do
    check_exit 2 "$command exits with 2 for a wrong recipe" "$DROVER" $command wrong.yaml
    while read -r line; do
        if grep -qaE "^$line" "$T/harness/out"; then
            t_ok "$command says $line"
        else
            t_not_ok "$command says $line" "$(t_seen)"
        fi
    done <expected
    check_equal "$command prints nothing but errors in their places" "" \
        "$(grep -av '^wrong.yaml:[0-9]*:[0-9]*: ' "$T/harness/out")"
done

wrong_recipe() { # SENTENCE REGEX : the recipe is on stdin
    cat >one.yaml
    check_output "$1" "^one.yaml:[0-9]+:[0-9]+: .*$2" timeout 10 "$DROVER" run one.yaml --state new
    check_equal "$1, exit 2" 2 "$t_status"
}
wrong_recipe "an empty recipe" 'empty' </dev/null
wrong_recipe "a recipe that is a word" 'mapping' <<<hello
wrong_recipe "a key written twice" "duplicate key 'command'" <<'END'
experiments: {a: {command: x, command: y}}
END
wrong_recipe "a tab as indentation" 'tab' <<<$'experiments:\n\ta: {command: x}'
wrong_recipe "bytes that are no UTF-8" 'UTF-8' <<<$'experiments: {a: {command: "\xff\xfe"}}'
wrong_recipe "a NUL byte" 'NUL' < <(printf 'experiments: {a: {command: "x\0y"}}\n')
wrong_recipe "a glob that matches nothing" 'no file matches' <<'END'
experiments: {a: {parameters: {f: {files: "*.none"}}, command: "cat {{f}}"}}
END
wrong_recipe "a placeholder in backticks" 'raw' <<'END'
experiments: {a: {parameters: {x: 1}, command: "echo `date {{x}}`"}}
END
wrong_recipe "an output of an experiment it does not wait for" 'depend' <<'END'
experiments: {a: {command: x}, b: {command: "ls {{a.output}}"}}
END
wrong_recipe "far too many tasks" '' <<'END'
experiments: {a: {parameters: {x: 0..99999, y: 0..99999}, command: "echo {{x}} {{y}}"}}
END
wrong_recipe "brackets two hundred thousand deep" 'deep' \
    < <(head -c 200000 /dev/zero | tr '\0' '[')
wrong_recipe "a command of three million letters" 'longer' \
    < <(printf 'experiments:\n  a:\n    command: ' && head -c 3000000 /dev/zero | tr '\0' 'x')
wrong_recipe "a billion laughs" 'aliases' < <(
    echo 'a0: &a0 [x,x,x,x,x,x,x,x,x]'
    for i in 1 2 3 4 5 6 7 8 9; do
        a="*a$((i - 1))"
        echo "a$i: &a$i [$a,$a,$a,$a,$a,$a,$a,$a,$a]"
    done
    echo 'experiments: {a: {command: *a9}}'
)
head -c 100000000 /dev/zero | tr '\0' 'x' >huge.yaml
check_exit 2 "a recipe of 100 MB is refused" timeout 10 "$DROVER" run huge.yaml
check_output "with its limit" 'larger than' timeout 10 "$DROVER" run huge.yaml
check_exit 2 "a recipe without end is refused" timeout 10 "$DROVER" check /dev/zero
rm huge.yaml

check_output "a --set that names nothing is refused" "sample.*did you mean 'samples'" \
    "$DROVER" run good.yaml --set a.sample=3
check_exit 2 "with exit 2" "$DROVER" run good.yaml --set a.sample=3
check_exit 2 "a --set of an unknown parameter is refused" "$DROVER" check good.yaml --set lr=3
check_exit 2 "a --set without = is refused" "$DROVER" check good.yaml --set lr

# ---- nothing changed --------------------------------------------------------------------------

rm -f one.yaml
check_equal "after all that, nothing was made anywhere" \
    "./expected ./folder ./good.yaml ./stuff ./stuff/mine ./wrong.yaml" \
    "$(find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"

check_exit 0 "a good recipe is good" "$DROVER" check good.yaml
check_output "and counted" '^ok: 1 experiments, 1 tasks$' "$DROVER" check good.yaml
check_exit 0 "work that is done exits with 0" "$DROVER" run good.yaml --state state
check_exit 1 "work that fails exits with 1" "$DROVER" run good.yaml --set a.command=false
