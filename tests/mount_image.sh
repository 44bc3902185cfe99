#!/bin/bash
# timeout: 240
# A volume that does not change, shown by the kernel itself: it shows what FUSE shows of it, whatever there is, and
# nothing that dies, is full or does not answer leaves anything behind or waiting (src/mount/shown.c, image_tree.c, image_serve.c).
. "$(dirname "$0")/lib.sh"
t_start "a mount that the kernel shows"
. "$SOURCE/tests/mount.bash"
mount_possible || skip_all "$mount_why"

seed=${SEED:-$RANDOM}
echo "# seed $seed"
"$DROVER" volume create t --store "file://$PWD/store" >/dev/null
check "a volume is mounted for writing" mount_on t
check "everything that a file system can hold goes in" python3 "$SOURCE/tests/mount_image.py" make "$M" "$seed"
check "and is stored" mount_off
check "a snapshot" "$DROVER" data snapshot t now

kind() { # FOLDER : of the file system there
    awk -v f="$1" '$2 == f { kind = $3 } END { print kind }' /proc/mounts
}
log=$HOME/.local/state/drover/mount.log

mkdir other
check "it is mounted" mount_on t@now
if [ "$(kind "$M")" != erofs ]; then
    check_equal "by FUSE, here" fuse.drover "$(kind "$M")"
    check "and ends" mount_off
    skip "this kernel, or whoever runs the tests, cannot mount EROFS with its data behind FUSE"
    exit 0
fi
check_output "the table of mounts shows what it is" "^file://$PWD/store@now $M erofs ro,nosuid,nodev" cat /proc/mounts
check "and, beside it, by FUSE" "$DROVER" mount t@now "$PWD/other" --fuse
check_equal "which is asked for by --fuse" fuse.drover "$(kind "$PWD/other")"
check_output "both show the same" '^[0-9]{4,} are the same$' \
    python3 "$SOURCE/tests/mount_image.py" compare "$M" "$PWD/other" "$seed"
check "and again, from memory" python3 "$SOURCE/tests/mount_image.py" compare "$M" "$PWD/other" "$((seed + 1))"
check "programs can seek in folders" bash -c 'cd "$0" && tar -cf - . 2>/dev/null | tar -tf - | wc -l | grep -q ...' "$M/names"
check "the other ends" "$DROVER" unmount other
check_exit 1 "nothing can be written" touch "$M/new"
check_exit 1 "nor removed" rm -f "$M/kinds/one"
check_exit 1 "nor changed" chmod 600 "$M/kinds/one"

# ---- what it says of itself ----------------------------------------------------------------------

check_output "it says what it has done" '"has_image":1,.*"reads":[1-9]' "$DROVER" mount --stats --json "$M"
check_equal "to anybody" "$(mount_pid)" "$("$DROVER" mount --stats --json "$M" | sed -E 's/.*"pid":([0-9]+).*/\1/')"
before=$(mount_stat requests)
find "$M/tree" -type f -exec cat {} + >/dev/null
find "$M/tree" -printf '%s %m\n' >/dev/null
more=$(($(mount_stat requests) - before)) # the kernel may drop a page whenever it likes
check_equal "what the kernel has read it does not ask for again ($more requests for 600 files)" 1 "$((more < 30))"
mkdir copy
cp -r --preserve=all "$M/many-1/." copy
check_exit 2 "a copy of it is not taken for a mount" "$DROVER" mount --stats copy
check_output "from another network namespace, too, it is known to be there" 'mounted there already' \
    unshare -n "$DROVER" mount t@now "$M"
check_output "and who has it" "process $(mount_pid) serves it from another network namespace" \
    unshare -n "$DROVER" mount --stats "$M"
check_output "it is not mounted twice" 'mounted there already' "$DROVER" mount t@now "$M"
kill -STOP "$(mount_pid)"
stopped=$(pgrep -f "drover mount t@now $M")
check_exit 1 "a stopped one is known" "$DROVER" mount t@now "$M"
check_output "and said to be" 'does not answer' "$DROVER" mount t@now "$M"
kill -CONT "$stopped"

# ---- ends ----------------------------------------------------------------------------------------

exec 9<"$M/kinds/one"
check_exit 1 "it is busy while a file is open" "$DROVER" unmount "$M"
exec 9<&-
gone() { ! readlink "/proc/$pid/exe" >/dev/null; } # a zombie has none
pid=$(mount_pid)
check "umount ends it" umount "$M"
check "and its process" wait_until 5 gone
mount_on t@now
pid=$(mount_pid)
kill -TERM "$pid"
check "so does TERM" wait_until 5 gone
check_equal "and nothing is mounted" "" "$(kind "$M")"
mount_on t@now
pid=$(mount_pid)
exec 9<"$M/contents/9000001"
check "what is open when it is taken away (umount -l)" umount -l "$M"
check_equal "can be read to its end" 9000001 "$(wc -c <&9)"
check "and its process waits for that" kill -0 "$pid"
exec 9<&-
check "then it ends" wait_until 5 gone
check_equal "nothing is left of the image" "" "$(find "$HOME/.cache/drover" -name '.drover-mount-*' 2>/dev/null)"

# ---- a process that dies -------------------------------------------------------------------------

rm -rf "$HOME/.cache/drover"
mount_on t@now
pid=$(mount_pid)
cat "$M/kinds/one" >/dev/null
kill -KILL "$pid"
wait_until 5 gone
check_equal "killed, what the kernel has is still there" "one content" "$(cat "$M/kinds/one")"
check_exit 1 "and the rest is an error, at once" timeout 5 cat "$M/contents/9000001"
check_output "which mount knows" 'a mount that has died is there' "$DROVER" mount t@now "$M"
check_output "and says when asked" 'a mount that has died is there' "$DROVER" mount --stats "$M"
check "and unmount clears away" "$DROVER" unmount "$M"
check "for the next one" mount_on t@now
check "which is whole" cmp <(head -c 9000001 "$M/contents/9000001" | cksum) <(cksum <"$M/contents/9000001")
mount_off

# Killed at any moment while it is being mounted: neither a process nor the kernel waits for what never comes.
none_left() { ! pgrep -f "drover mount t@now $M" >/dev/null; }
RANDOM=$seed
bad=
for round in $(seq 40); do
    "$DROVER" mount t@now "$M" --foreground </dev/null >/dev/null 2>&1 &
    pid=$!
    sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
    if [ $((round % 4)) = 0 ]; then how=TERM; else how=KILL; fi
    kill -"$how" "$pid"
    wait "$pid" 2>/dev/null
    wait_until 5 none_left || bad="$bad $round:$how"
    umount "$M" 2>/dev/null
done
check_equal "killed while it is being mounted, nothing waits for ever" "" "$bad"
check_equal "and nothing is mounted twice" "" "$(kind "$M")"
find "$HOME/.cache/drover" -name '.drover-mount-*' -exec touch -d '2 minutes ago' {} +
mount_on t@now && mount_off
check_equal "what was left in the cache the next one clears away" "" "$(find "$HOME/.cache/drover" -name '.drover-mount-*')"

# ---- a store that loses things -------------------------------------------------------------------

rm -rf "$HOME/.cache/drover"
mount_on t@now
mapfile -t packs < <(find "$PWD/store" -path '*packs*' -type f)
for pack in "${packs[@]}"; do mv "$pack" "$pack.away"; done
: >"$log"
check_exit 1 "contents that the store has lost are an error" cat "$M/contents/9000001"
check_output "of which the log says why" 'inode [0-9]+: ' cat "$log"
check "names are still there" test -s "$M/contents/9000001"
for pack in "${packs[@]}"; do mv "$pack.away" "$pack"; done
check_equal "when it has them again, so has the mount" 9000001 "$(wc -c <"$M/contents/9000001")"
check "and ends" mount_off

# ---- where it cannot be had ----------------------------------------------------------------------

mkdir small
if mount -t tmpfs -o size=64k tmpfs small; then
    check "with a cache in memory" mount_on t@now --cache-dir "$PWD/small"
    check_equal "FUSE does it" fuse.drover "$(kind "$M")"
    check_output "and the log says why" 'without EROFS, since: .*reads from disks alone' cat "$log"
    check "it is whole" cmp <(head -c 5000 "$M/contents/65536") <(head -c 5000 "$M/contents/65536")
    check "and ends, too" mount_off
    umount small
fi
check "without a cache" mount_on t@now --cache-dir ''
check_equal "FUSE does it, too" fuse.drover "$(kind "$M")"
mount_off
if unshare -Urm true 2>/dev/null; then
    check_output "who is root of a part of the machine only gets FUSE" 'fuse.drover' \
        unshare -Urm bash -c '"$1" mount t@now "$2" && grep " $2 " /proc/mounts; "$1" unmount "$2"' _ "$DROVER" "$M"
fi
check "with a limit on the size of files" bash -c 'ulimit -f 1000000; "$1" mount t@now "$2"' _ "$DROVER" "$M"
check_equal "FUSE does it as well" fuse.drover "$(kind "$M")"
check_output "and says why" 'without EROFS, since: .*File too large' cat "$log"
mount_off
check "with a cache relative to where one is" mount_on t@now --cache-dir here
check_equal "EROFS does" erofs "$(kind "$M")"
check "that is where it is" test -d here
mount_off
check_equal "and nothing is left in it" "" "$(find here -name '.drover-mount-*')"
"$DROVER" volume create copied --store "file://$PWD/copied" >/dev/null
mount_on t@now
mkdir copy-of
"$DROVER" mount copied "$PWD/copy-of"
cp -a "$M/many-1" copy-of/
cp -a --attributes-only "$M/." copy-of/ 2>/dev/null
python3 -c 'import os, sys; os.setxattr(sys.argv[2], "user.drover.socket", os.getxattr(sys.argv[1], "user.drover.socket"))' "$M" copy-of
"$DROVER" unmount copy-of
mount_off
check "a copy of a mount's root" mount_on copied --read-only
check "answers for itself" mount_off
check "a volume of nothing" "$DROVER" volume create empty --store "file://$PWD/empty"
check "is mounted" mount_on empty --read-only
check_equal "with nothing in it" "" "$(ls -A "$M")"
check "and ends as well" mount_off
check_equal "nothing is mounted" "" "$(kind "$M")"
check_equal "no process is left" "" "$(pgrep -f "drover mount .* $M" | paste -sd ' ')"
