#!/bin/bash
# Nodes that do not share the master's disk: what they made is on the master, to the byte, before it
# counts; it outlives them, and follows whoever needs it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cluster.bash"
t_start "remote nodes"
command -v python3 >/dev/null || skip_all "no python3 to compare trees"

# The same tree for the same number, wherever it is made.
cat >make.py <<'END'
import os, random, sys
top, kind = os.fsencode(sys.argv[1]), sys.argv[2]
rng = random.Random(kind)
def put(name, data, mode=0o644):
    path = os.path.join(top, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
if kind == "small":
    put(b"one", b"1\n")
elif kind == "large":
    put(b"large", rng.randbytes(24 << 20))
    put(b"zeros", bytes(8 << 20))
    put(b"exact", rng.randbytes(1 << 20))
elif kind == "many":
    for i in range(600):
        put(b"%d/%d" % (i % 17, i), rng.randbytes(rng.choice([0, 1, 100, 5000])))
elif kind == "odd":
    for name in (b"a b", b"-n", b"new\nline", b"\xff\xfe", "ü".encode(), b"x" * 255, b"d/" * 60 + b"deep", b"..a", b"'\"$(x)`"):
        put(name, rng.randbytes(300))
    put(b"run", b"#!/bin/sh\n", 0o755)
    put(b"empty", b"")
    os.makedirs(os.path.join(top, b"hollow/inside"))
    os.symlink(b"a b", os.path.join(top, b"link"))
    os.symlink(b"nowhere", os.path.join(top, b"dangling"))
    os.symlink(b"../odd", os.path.join(top, b"hollow/up"))
    os.symlink(b"d", os.path.join(top, b"folder"))
END
cat >list.py <<'END'
import hashlib, os, sys
def walk(top, below):
    for entry in sorted(os.scandir(os.path.join(top, below)), key=lambda e: e.name):
        name = os.path.join(below, entry.name)
        if entry.is_symlink():
            print(name, "->", os.readlink(entry.path))
        elif entry.is_dir():
            print(name, "folder")
            walk(top, name)
        else:
            with open(entry.path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            print(name, digest, "x" if entry.stat().st_mode & 0o100 else "-")
walk(os.fsencode(os.path.realpath(sys.argv[1])), b"")
END
cat >print.py <<'END'
import os, random, sys
kind = sys.argv[1]
rng = random.Random(kind)
data = {"small": b"a line\n", "large": rng.randbytes(3 << 20), "many": b"".join(b"%d\n" % i for i in range(200000)),
        "odd": bytes(range(256)) + b"\r\n\0no end"}[kind]
while data:
    data = data[os.write(1, data[:rng.randint(1, 90000)]):]
END

cat >tree.yaml <<END
experiments:
  make:
    parameters: {kind: [small, large, many, odd]}
    hardware: {labels: [maker]}
    command:
      - python3 $PWD/make.py {{output}} {{kind}}
      - python3 $PWD/print.py {{kind}}
  use:
    depends_on: make
    hardware: {labels: [user]}
    parameters: {i: 0..3}
    command: python3 $PWD/list.py {{make.output}}/{{i}}
END

check "a server starts" serve
node maker --slots 2 --label maker --no-share
check "a remote node joins" wait_until 10 are_here maker
submit tree.yaml
folder=$STATE/workflows/$id

all_made() {
    [ "$(drover tasks "$id" -e make --json | grep -c '"state":"succeeded"')" = 4 ]
}
check "it makes things" wait_until 60 all_made
kill_hard "${pid_of[maker]}"
rm -rf maker.work
node user --slots 2 --label user --no-share
check "another one, on which they are needed, comes when the first and its disk are gone" finished "$id" 60

i=0
for kind in small large many odd; do
    mkdir "want-$kind"
    python3 make.py "want-$kind" "$kind"
    python3 list.py "want-$kind" >"want-$kind.list"
    python3 list.py "$folder/outputs/make/$i" >"got-$kind.list" 2>&1
    check "the output '$kind' is on the master, to the byte" cmp "want-$kind.list" "got-$kind.list"
    drover logs "$id/use/$i" >"used-$kind.list"
    check "and was on the node that needed it" cmp "want-$kind.list" "used-$kind.list"
    python3 print.py "$kind" >"want-$kind.log"
    check "the log of '$kind' is on the master, to the byte" cmp "want-$kind.log" "$folder/logs/make/0/$i.1.log"
    drover logs "$id/make/$i" >"got-$kind.log"
    check "and so it is printed" cmp "want-$kind.log" "got-$kind.log"
    i=$((i + 1))
done
rm -rf want-* got-* used-*
check_equal "nothing half done is left on the master" "" "$(find "$folder" -path '*incoming/*')"

# ---- a result is refused rather than wrong -----------------------------------------------------------

cat >missing.yaml <<END
experiments:
  a: {outputs: never, hardware: {labels: [user]}, command: "echo here"}
END
submit missing.yaml
check_exit 1 "an output that was promised and is not there is a failure" finished "$id"
check_output "with its reason" 'an output is missing' drover status "$id"
check_output "and in its log which one" 'never' drover logs "$id/a/0"

# ---- a log limit ---------------------------------------------------------------------------------------

cat >limit.yaml <<END
experiments:
  a: {log_limit: 100KB, hardware: {labels: [user]}, command: "seq 1 200000"}
END
submit limit.yaml
check "a task that prints more than its limit is not harmed" finished "$id"
folder=$STATE/workflows/$id/logs/a/0
size=$(cat "$folder"/* | wc -c)
check_equal "its log is within the limit ($size)" 1 "$((size >= 50000 && size <= 100000))"
check_equal "and ends with what it printed last" "$(seq 198000 200000 | md5sum)" \
    "$(drover logs "$id/a/0" | tail -n 2001 | md5sum)"

# ---- cancelled: what nobody wants any more is not kept -------------------------------------------------

cat >cancel.yaml <<END
experiments:
  a: {hardware: {labels: [user]}, command: "seq 1 100000; touch $PWD/printed; sleep 100"}
END
submit cancel.yaml
wait_until 10 test -e printed
wait_until 10 grep -qs 100000 "$STATE/workflows/$id/logs/a/0/0.1.log"
drover cancel "$id" >/dev/null
check_exit 1 "a cancelled workflow ends" finished "$id"
nothing_left() { [ -z "$(find user.work/slots -type f)" ]; }
check "and nothing of it stays on its node" wait_until 10 nothing_left

# ---- a checkpoint follows its task -------------------------------------------------------------------

cat >steps.sh <<'END'
n=$(cat "$DROVER_CHECKPOINT/n" 2>/dev/null || echo 0)
echo "$n" >>"$1/began"
head -c 3000000 /dev/zero >"$DROVER_CHECKPOINT/big"
while [ ! -e "$1/finish" ]; do
    n=$((n + 1))
    echo "$n" >"$DROVER_CHECKPOINT/n.tmp"
    mv "$DROVER_CHECKPOINT/n.tmp" "$DROVER_CHECKPOINT/n"
    sleep 1.5 # only what has been left alone for half a second is shipped
done
stat -c %s "$DROVER_CHECKPOINT/big"
END
cat >steps.yaml <<END
experiments:
  a: {checkpoint: true, hardware: {labels: [first]}, command: bash $PWD/steps.sh $PWD/steps}
END
mkdir steps
node left --slots 1 --label first --no-share
wait_until 10 are_here left
submit steps.yaml
shipped() { # COUNT : a checkpoint with that number is on the master
    local file
    file=$(find "$STATE/workflows/$id/checkpoints" -name n | head -n 1)
    [ -n "$file" ] && [ "$(cat "$file")" -ge "$1" ]
}
check "a checkpoint is shipped as it is written" wait_until 15 shipped 2
kill_hard "${pid_of[left]}"
last=$(cat "$(find "$STATE/workflows/$id/checkpoints" -name n | head -n 1)")
rm -rf left.work
node right --slots 1 --label first --no-share
check "when its node is gone the task begins anew at another" wait_until 15 has_lines steps/began 2
check_equal "from the last checkpoint that was shipped" "$last" "$(sed -n 2p steps/began)"
touch steps/finish
check "it is done" finished "$id"
check_equal "all of the checkpoint was there" 3000000 "$(drover logs "$id/a/0")"
check_equal "in the second attempt" 2 "$(task_is a/0 attempt)"
stop_all
check_equal "no node left anything of a workflow behind" "" \
    "$(find ./*.work -mindepth 2 -type f -path '*/workflows/*' | head)"
