#!/bin/bash
# scripts/setup on machines that lack things, with stand-ins for dpkg-query, apt-get, id and sudo.
. "$(dirname "$0")/lib.sh"
t_start "scripts/setup"

mkdir bin
stand_in() { # NAME BODY
    printf '#!/bin/bash\n%s\n' "$2" >"bin/$1"
    chmod +x "bin/$1"
}
setup() { # ARGUMENT... : with a PATH of nothing but the stand-ins and what the script needs
    PATH=$PWD/bin /bin/bash "$SOURCE/scripts/setup" "$@"
}
for tool in awk bash sort comm paste cat mktemp rm env; do
    ln -s "$(command -v "$tool")" "bin/$tool"
done
stand_in id 'echo 0'
stand_in apt-get "echo \"\$*\" >>$PWD/apt.log"

stand_in dpkg-query 'shift 3; for p in "$@"; do echo "installed $p"; done'
check "nothing is done where nothing is missing" setup build test fuzz lint bench
check_equal "nor said" "" "$(setup build test 2>&1)"
check "apt-get is not called then" test ! -e apt.log

stand_in dpkg-query 'shift 3; for p in "$@"; do [ "$p" = meson ] || echo "installed $p"; done'
check_output "what is missing is said with its reason" '  meson +the build system' setup build
check "and installed" grep -q 'install -y .*meson' apt.log
check "after an update" grep -q update apt.log
rm apt.log
check_exit 1 "--check only looks" setup --check build
check "and installs nothing" test ! -e apt.log
check_exit 2 "an unknown group is refused" setup no-such-group

stand_in id 'echo 1000'
check_output "without root and sudo it says what to do" 'as root run: apt-get install meson' setup build
check_exit 1 "and fails" setup build
check "without trying" test ! -e apt.log
stand_in sudo '[ "$1" != -n ] || shift; "$@"'
check "sudo is used where there is one" setup build
check "for apt-get" grep -q 'install -y .*meson' apt.log

stand_in apt-get 'echo "E: no network"; exit 100'
check_output "when apt-get fails its words are shown" 'E: no network' setup build
check_exit 1 "and setup fails" setup build

rm bin/dpkg-query
check_output "elsewhere than on Debian it lists what is needed" 'not a Debian.* meson ' setup build
