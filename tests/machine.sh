#!/bin/bash
# What a recipe asks of the machine: hardware, images, frameworks.
. "$(dirname "$0")/lib.sh"
t_start "hardware, images and frameworks"

said() { # SENTENCE REGEX : what the last check ran printed it
    if grep -qE -e "$2" "$T/harness/out"; then
        t_ok "$1"
    else
        t_not_ok "$1" "nothing matches '$2' in:" "$(t_seen)"
    fi
}

refused() { # HARDWARE REGEX
    printf 'experiments:\n  big: {hardware: {%s}, command: "true"}\n' "$1" >big.yaml
    check "{$1} is a good recipe" "$DROVER" check big.yaml
    check_exit 1 "{$1} is refused at once, exit 1" timeout 10 "$DROVER" run big.yaml --state big
    said "{$1}: what is missing is said" "experiment 'big' needs $2.*--ignore-hardware"
    check_equal "{$1}: nothing was made" 0 "$(find . -name big | wc -l)"
    check "{$1} runs with --ignore-hardware" "$DROVER" run big.yaml --state big --ignore-hardware
    check "{$1}: and needs it only once" "$DROVER" run big.yaml --state big
    rm -rf big
}
refused 'cpu: 10000' '10000 cpus'
refused 'memory: 900TiB' '.*(memory|TiB)'
refused 'disk: 900PiB' '.*disk'
refused 'gpu: nosuchgpu' '1 gpu of kind nosuchgpu'
refused 'gpus: 1000' '1000 gpus'

cat >fits.yaml <<'END'
experiments:
  a: {hardware: {cpu: 2, memory: 1MiB, disk: 1MiB, spot: true}, command: "true"}
END
check "what this machine has is enough" "$DROVER" run fits.yaml --state fits --slots 2
check_exit 1 "more cpus than slots are never there" "$DROVER" run fits.yaml --state one --slots 1

cat >image.yaml <<'END'
experiments:
  a: {image: "debian:12", command: "echo ran"}
END
check_exit 1 "an image needs a container runtime or our leave" \
    "$DROVER" run image.yaml --state image
said "which is said" "experiment 'a' asks for image 'debian:12'.*--no-containers"
check_equal "and nothing was made" 0 "$(find . -name image | wc -l)"
check "--no-containers gives it" "$DROVER" run image.yaml --state image --no-containers

cat >framework.yaml <<'END'
experiments:
  a: {framework: pytorch, parameters: {n: 1..5}, command: "true"}
  b: {framework: pytorch, command: "true"}
END
check "a framework runs in this machine's environment" \
    "$DROVER" run framework.yaml --state framework
check_equal "and that is said once" 1 "$(grep -c "pytorch" "$T/harness/out")"

cat >both.yaml <<'END'
experiments:
  a: {framework: pytorch, image: x, command: "true"}
END
check_exit 2 "framework and image together are refused" "$DROVER" check both.yaml
check_output "as a mistake in the recipe" '^both.yaml:2:[0-9]+: .*both framework: and image:' \
    "$DROVER" check both.yaml

check "the figure of the paper is a good recipe" \
    "$DROVER" check "$SOURCE/examples/mnist-search.yaml"
said "with its thousand tasks" '^ok: 1 experiments, 1000 tasks$'
