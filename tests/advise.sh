#!/bin/bash
# The advisor from the command line: catalogs, the rules of the FC2 paper, ranking, choosing from past
# runs, engines, and profiling a command.
. "$(dirname "$0")/lib.sh"
t_start "catalog, advise and profile"

json() { # KEY: its value in the first object printed last
    python3 -c 'import json, sys
value = json.loads(open(sys.argv[2]).readline())
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1" "$T/harness/out"
}

# ---- catalogs ---------------------------------------------------------------------------------

check_output "every catalog that is shipped is sound" '^ok: [0-9]+ rows' \
    "$DROVER" catalog check current owned papers-2015 papers-2018 papers-2019
check_output "without a name it is the current one" '^ok: [1-9][0-9][0-9] rows' "$DROVER" catalog check
check_output "the current catalog has GPUs of AWS" '^aws .* x ' "$DROVER" catalog list -r 'provider = aws, gpus >= 1'
check_output "in several regions" '^aws +eu-west-1' "$DROVER" catalog list -r 'provider = aws, region = eu-*'
for provider in aws gcp azure; do
    for wanted in 'gpus >= 1' 'gpus = 0'; do
        regions=$("$DROVER" catalog list --json -r "provider = $provider, $wanted" |
            python3 -c 'import json, sys; print(len({json.loads(line)["region"] for line in sys.stdin}))')
        check "$provider has types with '$wanted' in two regions or more" test "$regions" -ge 2
    done
done
check_output "a requirement chooses" 'p2\.xlarge' "$DROVER" catalog list papers-2019 -r 'gpu = k80, memory >= 60'
check_no_output "and leaves out the rest" 'm4' "$DROVER" catalog list papers-2019 -r 'gpu = k80, memory >= 60'
check_output "a type is shown with its source" 'FC2 2019 table 1' "$DROVER" catalog show m4.large papers-2019
check_exit 2 "an unknown type is refused" "$DROVER" catalog show nope

head='provider,region,type,vcpus,memory_gib,gpu,gpus,network_mbps,price_hour,spot_hour,billing_s,date,source'
printf '%s\na,r,x,4,8,,0,450,0.5,,3600,2018,me\n' "$head" >old.csv
printf '%s\na,r,x,4,8,,0,450,0.4,0.1,1,2020-01,me\n' "$head" >new.csv
check "catalogs merge" "$DROVER" catalog merge old.csv new.csv -o both.csv
check_output "and the newer row counts" '^a,r,x,4,8,,0,,450,0.40,0.10,1,' cat both.csv
check_equal "what was merged reads back" 'ok: 1 rows, 1 with a spot price, 0 with GPUs' \
    "$("$DROVER" catalog check both.csv)"
printf '%s\na,r,x,4,8,,0,450,-1,,3600,2018,me\n' "$head" >bad.csv
check_exit 2 "a negative price is refused" "$DROVER" catalog check bad.csv
check_output "with file and line" 'bad\.csv:2: price_hour' "$DROVER" catalog check bad.csv
for price in nan 1e308 inf '' 1,5 -0.5; do
    printf '%s\na,r,x,4,8,,0,450,"%s",,3600,2018,me\n' "$head" "$price" >bad.csv
    check_output "a price of '$price' is refused with its line" 'bad\.csv:2:' "$DROVER" catalog check bad.csv
done
printf 'provider,type,price_hour\na,x,1\n' >bad.csv
check_output "a missing column is named" "no column 'region'" "$DROVER" catalog check bad.csv
check_output "a bad requirement is named" "did you mean 'vcpus'" "$DROVER" catalog list -r 'vcpu > 3'

# ---- the rules of the paper -------------------------------------------------------------------

printf 'type,batch,workers,bandwidth_mbps,steps_per_s,examples_per_s\n' >traffic.csv
printf 'p2.xlarge,%s,1,%s,,\n' 128 180 512 120 1280 80 >>traffic.csv
paper=(--catalog papers-2019 --region ap-southeast-1 --ps-type m4.large --max-workers 6
    --worker-types 'p2.xlarge,t2.xlarge,m4.xlarge,c4.xlarge')
for pair in 128:2 512:3 1280:5; do
    t_run "$DROVER" advise "${paper[@]}" --algorithm scala --p 0.95 --profile traffic.csv --batch "${pair%:*}" --json
    check_equal "scala-opt gives ${pair#*:} workers for batch ${pair%:*}" "p2.xlarge ${pair#*:}" \
        "$(json worker_type) $(json workers)"
done
t_run "$DROVER" advise "${paper[@]}" --algorithm time --json
check_equal "time-opt gives 6 of the most expensive" "p2.xlarge 6 m4.large 10.433" \
    "$(json worker_type) $(json workers) $(json ps_type) $(json hourly_cost)"
t_run "$DROVER" advise "${paper[@]}" --algorithm cost --json
check_equal "cost-opt gives 6 of the cheapest" "c4.xlarge 6" "$(json worker_type) $(json workers)"
t_run "$DROVER" advise --catalog papers-2019 --ps-type m4.large --worker-types c4.xlarge --algorithm cost --budget 2USD/h --json
check_equal "a budget an hour buys what is left after the server" "8" "$(json workers)"
t_run "$DROVER" advise --catalog papers-2019 --worker-types g3.4xlarge --algorithm scala-m --max-workers 6 \
    --ps-bandwidth 1000 --profile traffic.csv --json
check_equal "a type that was not measured cannot be scaled" 1 "$t_status"
t_run "$DROVER" advise --catalog papers-2019 --region ap-southeast-1 --algorithm time --max-workers 2 --json
check_equal "the server is the one with the largest bandwidth" m4.10xlarge "$(json ps_type)"
check_exit 2 "a budget or a number of workers is needed" "$DROVER" advise --catalog papers-2019 --algorithm cost
check_exit 1 "a budget too small for anything is said" "$DROVER" advise --catalog papers-2019 --algorithm cost --budget 0.01
check_output "currencies are not mixed" 'mixed currencies' "$DROVER" advise --catalog papers-2015 \
    --catalog papers-2019 --algorithm cost --max-workers 2
for option in --budget=-1 --budget=nan --p=2 --max-workers=0 --deadline=soon --algorithm=magic --batch=1e999; do
    check_exit 2 "advise refuses $option" "$DROVER" advise "$option"
done

# ---- ranking ----------------------------------------------------------------------------------

cat >runs.csv <<'END'
type,batch,workers,bandwidth_mbps,steps_per_s,mode
g4dn.xlarge,128,1,180,2.0,async
g5.xlarge,128,1,400,5.0,async
END
rank=(advise --profile runs.csv --examples 5e7 --region us-east-1)
t_run "$DROVER" "${rank[@]}" --json
check_equal "one run is enough for an answer" "0 best 1" "$t_status $(json algorithm) $(json rank)"
check_output "losers are told why" 'cheaper|faster' "$DROVER" "${rank[@]}"
check_output "types nobody measured are named at the end" 'never measured' "$DROVER" "${rank[@]}" --limit 5000
check_output "the next profile run is proposed" '^worth measuring next: ' "$DROVER" "${rank[@]}"
front=$("$DROVER" "${rank[@]}" --algorithm pareto --limit 1000 --json | python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin]
print(all(a["cost"] <= b["cost"] and a["time_s"] > b["time_s"] for a, b in zip(rows, rows[1:])), len(rows) > 3)')
check_equal "on the front, dearer is faster" "True True" "$front"
slow=$("$DROVER" "${rank[@]}" --json | python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["time_s"])')
t_run "$DROVER" "${rank[@]}" --deadline 1h --json
check_equal "a deadline is kept" True "$(python3 -c "print($(json time_s) <= 3600 < $slow)")"
check_exit 1 "what cannot be had is said" "$DROVER" "${rank[@]}" --deadline 1s
check_output "and by how much" 'misses the deadline' "$DROVER" "${rank[@]}" --deadline 1s
t_run "$DROVER" "${rank[@]}" --spot --json
check_equal "spot says how often to save" True "$(python3 -c "print($(json checkpoint_interval_s) > 0 and $(json preemptions) > 0)")"

# ---- records of spot machines -----------------------------------------------------------------

printf '{"metadata": {"gap_seconds": 3600}, "data": [2, 2, 1, 2, 0, 3]}' >trace.json # 3 losses in 10 hours
printf '{"metadata": {"gap_seconds": 1800}, "data": [0, 10.0, 10]}' >calm.json       # none in 10 hours
check_output "a trace gives the loss rate" '^spot: 0\.35 losses an hour .*from 3 in 10\.0 hours' \
    "$DROVER" "${rank[@]}" --spot --spot-trace trace.json
check_output "several add up" '^spot: 0\.175 losses .*from 3 in 20\.0 hours' \
    "$DROVER" "${rank[@]}" --spot --spot-trace trace.json calm.json
check_output "also as an option each" '^spot: 0\.175 losses' \
    "$DROVER" "${rank[@]}" --spot --spot-trace trace.json --spot-trace calm.json
check_output "none at all leaves some doubt" '^spot: 0\.05 losses .*\(0 to 0\.' "$DROVER" "${rank[@]}" --spot --spot-trace calm.json
t_run "$DROVER" "${rank[@]}" --spot --spot-trace trace.json --json
check_equal "it is what the ranking uses" 0.35 "$(json loss_rate_hour)"
check_output "a trace wants --spot" 'spot-trace goes with --spot' "$DROVER" "${rank[@]}" --spot-trace trace.json
check_exit 2 "and no second rate" "$DROVER" "${rank[@]}" --spot --spot-trace trace.json --loss-rate 1
check_exit 2 "a file that is not there is an error" "$DROVER" "${rank[@]}" --spot --spot-trace absent.json
bad_trace() { # WHAT PATTERN JSON
    printf '%s' "$3" >bad.json
    check_output "a trace with $1 is refused" "^drover: .*$2" "$DROVER" "${rank[@]}" --spot --spot-trace bad.json
    check_exit 2 "with exit 2" "$DROVER" "${rank[@]}" --spot --spot-trace trace.json bad.json
}
bad_trace "no JSON" 'bad\.json: not JSON' 'data: 1'
bad_trace "a list in place of an object" 'bad\.json: .*object' '[1, 0]'
bad_trace "no gap" 'gap_seconds must be' '{"metadata": {}, "data": [1, 0]}'
bad_trace "a gap of 0" 'gap_seconds must be' '{"metadata": {"gap_seconds": 0}, "data": [1, 0]}'
bad_trace "a gap of 1e308" 'gap_seconds must be' '{"metadata": {"gap_seconds": 1e308}, "data": [1, 0]}'
bad_trace "a gap in words" 'gap_seconds must be' '{"metadata": {"gap_seconds": "x"}, "data": [1, 0]}'
bad_trace "no data" 'data must be' '{"metadata": {"gap_seconds": 1}}'
bad_trace "one point" 'data must be' '{"metadata": {"gap_seconds": 1}, "data": [1]}'
bad_trace "fewer than no machines" 'data\[1\]' '{"metadata": {"gap_seconds": 1}, "data": [1, -1]}'
bad_trace "half a machine" 'data\[2\]' '{"metadata": {"gap_seconds": 1}, "data": [1, 0, 0.5]}'
bad_trace "1e308 machines" 'data\[0\]' '{"metadata": {"gap_seconds": 1}, "data": [1e308, 0]}'
bad_trace "a word among its data" 'data\[1\]' '{"metadata": {"gap_seconds": 1}, "data": [1, null]}'
printf '{"metadata": {"gap_seconds": 60}, "data": [0, 0, 0]}' >never.json
check_output "a machine that never was says nothing" 'no machine was ever there' \
    "$DROVER" "${rank[@]}" --spot --spot-trace never.json
traces=("${DROVER_TEST_DATA:-/nonexistent}"/spot/preemption/*.json)
if [ -e "${traces[0]}" ]; then
    check_output "real traces are read" '^spot: 0\.[0-9]+ losses an hour' "$DROVER" "${rank[@]}" --spot --spot-trace "${traces[@]}"
fi

printf 'g5.xlarge,128,8,380,36,async\n' >>runs.csv
width() { python3 -c 'import json, sys
r = json.loads(sys.stdin.readline()); print(r["time_high_s"] / r["time_low_s"])'; }
same=(--region us-east-1 --worker-types g5.xlarge --servers 1 --ps-type m5.24xlarge --max-workers 4 --goal time --json)
head -n 3 runs.csv >few.csv
before=$("$DROVER" advise --profile few.csv "${same[@]}" | width)
after=$("$DROVER" advise --profile runs.csv "${same[@]}" | width)
check_equal "a further run narrows the interval" True "$(python3 -c "print($after < $before)")"
check_exit 2 "ranking needs a profile" "$DROVER" advise --region us-east-1
printf 'type,workers,steps_per_s\ng5.xlarge,1,nan\n' >bad.csv
check_output "a bad profile is refused with its line" 'bad\.csv:2:' "$DROVER" advise --profile bad.csv

# ---- which configuration next -----------------------------------------------------------------

python3 - >table.csv <<'END'
print("job,type,workers,time_s,completed")
cores, memory = {"c5.large": 2, "m5.large": 2, "r5.large": 2}, {"c5.large": 4, "m5.large": 8, "r5.large": 16}
for job, work, need in (("a", 9e4, 60), ("b", 2e5, 100), ("c", 4e4, 30)):
    for type in cores:
        for workers in (2, 4, 6, 8, 12, 16):
            if job == "c" and (type, workers) not in (("m5.large", 4), ("c5.large", 2)):
                continue
            total = memory[type] * workers
            slow = 3 if total < need else 1
            failed = total < need / 4
            time = "" if failed else round(work / workers / cores[type] * slow + 20 * workers, 1)
            print(f"{job},{type},{workers},{time},{0 if failed else 1}")
END
t_run "$DROVER" advise --runs table.csv --job c --region us-east-1 --json
check_equal "the best paid run comes first" "best best" "$(json algorithm) $(json role)"
check_output "then the run to pay for next" '"role":"next"' "$DROVER" advise --runs table.csv --job c --region us-east-1 --json
check_equal "the same question has the same answer" "$("$DROVER" advise --runs table.csv --job c --region us-east-1)" \
    "$("$DROVER" advise --runs table.csv --job c --region us-east-1)"
check_output "a job without runs begins with what was best for others" '^ +1  next' \
    "$DROVER" advise --runs table.csv --job new --region us-east-1
check_exit 2 "a type that the catalog lacks is named" "$DROVER" advise --runs table.csv --job a --catalog papers-2019

# ---- engines ----------------------------------------------------------------------------------

printf 'server,engines,throughput\ngpu,1,0.6\ngpu,2,1.1\ngpu,4,1.7\ngpu,8,2.03\n' >engines.csv
t_run "$DROVER" advise --engines engines.csv --json
check_equal "the knee of the engines is found" True "$(python3 -c "print(4 <= $(json engines) <= 8)")"
printf 'engines,throughput\n1,-2\n' >bad.csv
check_exit 2 "a throughput below 0 is refused" "$DROVER" advise --engines bad.csv

# ---- profile ----------------------------------------------------------------------------------

cat >server.py <<'END'
import socket, threading
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
open("port.new", "w").write(str(s.getsockname()[1])); __import__("os").rename("port.new", "port")
while True:
    c, _ = s.accept()
    threading.Thread(target=lambda c: [None for _ in iter(lambda: c.recv(1 << 16), b"")], args=(c,), daemon=True).start()
END
cat >worker.py <<'END'
import os, socket, time
while not os.path.exists("port"): time.sleep(0.05)
c = socket.create_connection(("127.0.0.1", int(open("port").read())))
step = 0
while True:
    c.sendall(b"x" * 250000); step += 1; print("step", step, flush=True); time.sleep(0.1)
END
t_run "$DROVER" profile --type m5.large --batch 32 --mode async --warmup 1s --time 2s --json \
    --server 'exec python3 server.py' -- python3 worker.py
check_equal "a command is profiled" "0 True" "$t_status $(json measured)"
check_equal "its steps are counted" True "$(python3 -c "print(5 < $(json steps_per_s) < 10.5)")"
check_equal "its traffic is measured without root" True \
    "$(python3 -c "print(0.8 < $(json bandwidth_mbps) / ($(json steps_per_s) * 2) < 1.25)")"
check_equal "nothing is left running" "" "$(pgrep -f "$T/work/worker.py" || true)"
t_run "$DROVER" profile --type m5.large --batch 32 --json -- python3 worker.py
check_equal "the same code, type and batch are measured once" False "$(json measured)"
check "what was measured can be asked about" "$DROVER" advise --profile "$(json file)" --region us-east-1
check_exit 1 "a command that fails is not kept" "$DROVER" profile --time 1s --warmup 0s -- false
check_exit 2 "profile wants a command" "$DROVER" profile --time 1s
