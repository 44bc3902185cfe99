#!/bin/bash
# Hostile parameter values arrive byte for byte wherever they are used, never as shell syntax.
. "$(dirname "$0")/lib.sh"
t_start "quoting"
command -v python3 >/dev/null || skip_all "no python3 to make and compare the values with"

cat >values.py <<'END'
import json, os, random, sys

VALUES = [
    "plain", "", " ", "two words", "  spaces  around  ", "'", "''", '"', '""', "it's", 'say "hi"',
    "\\", "\\\\", "ends with \\", "\\n", "\\'", '\\"', "$", "$HOME", "${HOME}", "$$", "$'\\x41'",
    "$(touch PWNED)", "`touch PWNED`", "; touch PWNED", "&& touch PWNED", "| touch PWNED",
    "> PWNED", "\ntouch PWNED\n", "'; touch PWNED; '", '"; touch PWNED; "', "\\$(touch PWNED)",
    "'\"'\"'; touch PWNED #", "\\`touch PWNED\\`", "<(x)", "$((1+1))", "&", "^", "(", ")", "<", ">",
    "*", "?", "[a-z]", "~", "~root", "#", "# not a comment", "!", "!!", "a=b", "-n", "--help", "-",
    "%s%n", "{a,b}", "{{v}}", "}}", "{{", "\t", "tab\there", "\n", "line\n", "\nline", "a\n\nb",
    "\r\n", "é ü 漢字 🐄", "\u2028", "\u00a0", "\ufeff", "\x1b[31m", "\x7f",
    "x" * 5000, "0", "007", "1e3", "true", "null", "EOF", "a/b/../c",
]

def more(count, seed):
    rng = random.Random(seed)
    letters = list("ab '\"\\$`;|&<>(){}[]*?~#!=%\n\t-") + ["$(", "${", "{{", "é"]
    return ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 12))) for _ in range(count)]

def all_values():
    seen = []
    for value in VALUES + more(60, 4):
        if value not in seen:
            seen.append(value)
    return seen

def yaml(tree): # JSON, but YAML has no surrogate pairs
    text = json.dumps(tree, ensure_ascii=False)
    return "".join(letter if " " <= letter <= "~" else f"\\U{ord(letter):08x}" for letter in text)

def folder_name(value): # what can be the name of one folder
    return value and "/" not in value and value not in (".", "..") and len(value.encode()) < 200

if sys.argv[1] == "recipe":
    values = all_values()
    names = [value for value in values if folder_name(value)]
    shell = {
        "parameters": {"v": {"values": values}},
        "env": {"V": "{{v}}", "MIXED": "<{{v}}|{{v}}>"},
        "command": [
            "printf %s {{v}} >$DROVER_OUTPUT/bare",
            "printf %s '{{v}}' >$DROVER_OUTPUT/single",
            'printf %s "{{v}}" >"$DROVER_OUTPUT/double"',
            "printf %s pre{{v}}'in{{v}}'\"{{v}}\"post >{{output}}/joined",
            'printf %s "$(printf %s_ {{v}})" >{{output}}/nested',
            'printf %s "$V" >{{output}}/env; printf %s "$MIXED" >{{output}}/mixed',
            'printf %s "$DROVER_PARAMS" >{{output}}/params',
            "set -- {{v}} last; echo $# >{{output}}/words",
        ],
    }
    experiments = {
        "sh": shell,
        "bash": {**shell, "shell": "bash"},
        "exec": {
            "parameters": {"v": {"values": values}},
            "exec": ["sh", "-c", 'printf %s "$1" >$DROVER_OUTPUT/exec; printf %s "$2" '
                     '>$DROVER_OUTPUT/exec_joined', "sh", "{{v}}", "<{{v}}>{{v}}"],
        },
        "flag": {
            "parameters": {"v": {"values": values}},
            "command": 'set -- {{v|flag}}; printf %s "$1" >{{output}}/flag; '
                       'printf %s "$2" >{{output}}/value',
        },
        "folder": {
            "parameters": {"v": {"values": names}},
            "workdir": "folders/{{v}}",
            "outputs": ["{{v}}"],
            "command": ["cat me >{{output}}/workdir", "cp me {{output}}/{{v}}"],
        },
    }
    for index, name in enumerate(names):
        os.makedirs("folders/" + name)
        with open(f"folders/{name}/me", "w") as file:
            file.write(name)
    with open("hostile.yaml", "w") as file:
        file.write(yaml({"experiments": experiments}))
    print(len(values))
else:
    values = all_values()
    names = [value for value in values if folder_name(value)]
    wrong = 0
    def expect(what, value, path, wanted):
        global wrong
        try:
            with open(path, "rb") as file:
                got = file.read()
        except OSError as error:
            got = str(error).encode()
        if got != wanted.encode():
            wrong += 1
            if wrong < 20:
                print(f"{what}: {value!r:.80} arrived as {got!r:.200}")
    for index, value in enumerate(values):
        for shell in ("sh", "bash"):
            base = f"state/outputs/{shell}/{index}/"
            for place in ("bare", "single", "double", "env"):
                expect(f"{shell} {place}", value, base + place, value)
            expect(f"{shell} joined", value, base + "joined", f"pre{value}in{value}{value}post")
            expect(f"{shell} nested", value, base + "nested", value + "_")
            expect(f"{shell} mixed", value, base + "mixed", f"<{value}|{value}>")
            expect(f"{shell} words", value, base + "words", "2\n")
            try:
                with open(base + "params") as file:
                    if json.load(file) != {"v": value}:
                        raise ValueError("another value")
            except (OSError, ValueError) as error:
                wrong += 1
                print(f"{shell} DROVER_PARAMS: {value!r:.80}: {error}")
        expect("exec", value, f"state/outputs/exec/{index}/exec", value)
        expect("exec joined", value, f"state/outputs/exec/{index}/exec_joined", f"<{value}>{value}")
        expect("flag", value, f"state/outputs/flag/{index}/flag", "--v")
        expect("flag value", value, f"state/outputs/flag/{index}/value", value)
    for index, value in enumerate(names):
        expect("workdir", value, f"state/outputs/folder/{index}/workdir", value)
        expect("output", value, f"state/outputs/folder/{index}/{value}", value)
    print(wrong, "wrong")
END

count=$(python3 values.py recipe)
check "a recipe with $count hostile values is good" "$DROVER" check hostile.yaml
check "every task of it succeeds" "$DROVER" run hostile.yaml --state state
check_equal "and every value arrived as it was" "0 wrong" "$(python3 values.py compare)"
check_equal "and none of them was run" "" "$(find . -name PWNED -type f)"
"$DROVER" plan hostile.yaml --json >rows
check_equal "the plan shows each as it is" ok "$(python3 -c '
import json, sys
sys.argv = ["values.py", "none"]
exec(open("values.py").read().split("\nif sys.argv")[0])
rows = [json.loads(line) for line in open("rows")]
assert [row["params"]["v"] for row in rows if row["experiment"] == "exec"] == all_values()
print("ok")')"
"$DROVER" plan hostile.yaml >rows
check_equal "and in plain rows one task stays one line" \
    "$("$DROVER" check hostile.yaml | sed 's/.* \([0-9]*\) tasks/\1/')" "$(wc -l <rows)"

cat >raw.yaml <<'END'
experiments:
  a: {parameters: {v: ["1; echo two"]}, command: "echo {{v|raw}}"}
END
check "raw opts out" "$DROVER" run raw.yaml --state raw
check_equal "and then the value is syntax" $'1\ntwo' "$("$DROVER" logs a/0 --state raw)"

# Between master and node \x01 marks the folders that only the node knows; a value that looks like such a mark is
# still only a value.
cat >signs.yaml <<'END'
experiments:
  a: {parameters: {v: ["\x01OUTPUT\x01"]}, exec: [printf, "%s", "{{v}}"]}
END
check "a value that looks like a mark of ours" "$DROVER" run signs.yaml --state signs
check_equal "arrives as it is" $'\x01OUTPUT\x01' "$("$DROVER" logs a/0 --state signs)"
