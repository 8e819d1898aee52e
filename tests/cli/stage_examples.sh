#!/bin/bash
# Goal:   torchrun and a program that reads a Hugging Face model begin when their data is on this node, find it, hold it as long as they
#         live, and do not begin if it cannot be had.
# Method: the scripts of staging/examples, as they are installed, between real daemons. A script that says what it was given stands for
#         torchrun, which is the user's command here. Each exit status that the README names for them and that can be had here. Of the
#         manifests of Kubernetes the form is checked, and the commands in them are run; no cluster is there to begin them.
. "$(dirname "$0")/lib.sh"
command -v cmake >/dev/null || skip "no cmake to install the examples with"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
export FM_CLUSTER_STORE='layout = "hf";'
up 3
ok cmake -DCMAKE_INSTALL_PREFIX="$dir/usr" -P "$FM_BUILD/staging/cmake_install.cmake"
examples=$dir/usr/share/doc/fmove/examples/staging
diff -r "$FM_SOURCE/staging/examples" "$examples" || bad "what is installed is something else"
PATH=$examples:$dir/w/bin:$PATH

mkdir -p bin "$(store 2)/set/d"
random 3000000 "$(store 2)/set/d/large"
# What torchrun is given, and whether the data is held while it runs; it ends as it is told.
cat >bin/torchrun <<'T'
#!/bin/bash
printf '%s\n' "$FMOVE_STAGED" "$#" "$@" >"$SAID"
fmove datasets --json | grep -o '"holds":[0-9]*' >>"$SAID"
exit "$END"
T
chmod 755 bin/torchrun
export SAID=$dir/w/said END=0

# is_set PATH: a copy of the dataset.
is_set() {
	[ -d "$1" ] && diff -r "$(store 2)/set" "$1" >&2 || bad "what is in \"$1\" differs"
}

# Where torchrun is what is run: with its arguments, the data held by it, its status.
ok torchrun-staged n2:s/set -- --nnodes=1 'train me.py' --lr 1
is_set "$(sed -n 1p said)"
[ "$(sed -n '2,$p' said)" = $'4\n--nnodes=1\ntrain me.py\n--lr\n1\n"holds":1' ] || bad "torchrun was given: $(cat said)"
[ ! -s out ] || bad "standard output is torchrun's: $(cat out)"
END=17 torchrun-staged n2:s/set -- train.py 2>err
[ $? -eq 17 ] || bad "torchrun's status: $(cat err)"
no_holds() { fmove datasets --json | grep -q '"holds":0'; }
await no_holds || bad "it is held by nobody's torchrun: $(fmove datasets)"

# It is in the place of the wrapper: who ends that ends torchrun.
printf '#!/bin/bash\necho $$ >"$SAID"; exec sleep 1000\n' >bin/torchrun
rm said
torchrun-staged n2:s/set -- train.py 2>err &
wrapper=$!
await test -s said || bad "torchrun does not begin: $(cat err)"
[ "$(cat said)" = $wrapper ] || bad "torchrun is $(cat said), not $wrapper"
kill $wrapper "$(cat said)" 2>/dev/null
wait $wrapper 2>/dev/null

# On each of several nodes: it begins when all have it, and on none if one cannot.
printf '#!/bin/bash\necho "$FMOVE_STAGED" >"$SAID"\n' >bin/torchrun
for i in 1 3; do
	SAID=$dir/w/said.$i FMOVE_SOCKET=$dir/c/n$i/fmoved.sock torchrun-staged --nodes n1,n3 n2:s/set -- train.py 2>"err.$i" || bad "n$i: $(cat "err.$i")"
	is_set "$(cat "said.$i")"
done
rm -f said
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
torchrun-staged --nodes n1,n3 n2:s/set -- train.py 2>err
[ $? -eq 3 ] && grep -q 'n3: silent' err && [ ! -e said ] || bad "without n3: $(cat err)"
start_again n3
reachable 3

# Nothing is run if the data cannot be had.
no 1 nowhere torchrun-staged n2:s/nowhere -- train.py
no 2 '^usage: torchrun-staged ' torchrun-staged n2:s/set train.py
no 2 '^usage: torchrun-staged ' torchrun-staged n2:s/set --
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
no 4 'check none' torchrun-staged n2:s/set -- train.py
[ ! -e said ] || bad "torchrun was run without data: $(cat said)"
ok torchrun-staged --check none n2:s/set -- train.py
start_again n2
reachable 2
rm bin/torchrun said
torchrun-staged n2:s/set -- train.py 2>err
[ $? -eq 127 ] || command -v torchrun >/dev/null || bad "without torchrun: $(cat err)"

# A model: where huggingface_hub looks for it, and told to look nowhere else.
commit=$(sha1sum <<<one | cut -c 1-40)
model=$(store 2)/models--org--model
mkdir -p "$model"/{blobs,refs,snapshots/"$commit"}
random 1000000 new
sum=$(sha256sum <new | cut -c 1-64)
mv new "$model/blobs/$sum"
ln -s "../../blobs/$sum" "$model/snapshots/$commit/model.safetensors"
printf %s "$commit" >"$model/refs/main"
ok hf-staged org/model@main sh -c 'printf "%s\n" "$HF_HOME" "$HF_HUB_CACHE" "$HF_HUB_OFFLINE" "$FMOVE_STAGED" >said'
home=$dir/c/n1/cache/hf
[ "$(cat said)" = "$home"$'\n'"$home/hub"$'\n1\n'"$home/hub/models--org--model/snapshots/$commit" ] || bad "it was given: $(cat said)"
cmp "$model/blobs/$sum" "$(tail -n 1 said)/model.safetensors" || bad "the model differs"
if python3 -c 'import huggingface_hub' 2>/dev/null; then
	ok hf-staged org/model python3 -c 'import huggingface_hub, os
assert huggingface_hub.snapshot_download("org/model") == os.environ["FMOVE_STAGED"]'
fi
hf-staged org/model sh -c 'exit 9' 2>err
[ $? -eq 9 ] || bad "the command's status: $(cat err)"
no 1 'models--org--nowhere' hf-staged org/nowhere touch ran
no 2 'a repository is hf:ORG/NAME' hf-staged org/../x touch ran
no 2 '^usage: hf-staged ' hf-staged org/model
[ ! -e ran ] || bad "a command was run without its model"

# What a script of one's own has: the line of the README.
grep -qF 'DATA=$(fmove stage SOURCE) || exit' "$examples/README.md" || bad "the README has another line"
bash -c 'DATA=$(fmove stage n2:s/nowhere) || exit; touch ran' 2>err
[ $? -eq 1 ] && [ ! -e ran ] || bad "a script goes on without its data: $(cat err)"

# ---- Kubernetes ----

python3 -c 'import yaml' 2>/dev/null || { echo "Kubernetes was not tried: no python3-yaml"; exit; }
cat >manifests.py <<'P'
# What each kind must be, and what does not fit together. Then the init container's commands, for this test to run.
import sys, yaml

def volumes_fit(pod):
    volumes = {v["name"]: v.get("hostPath", {}).get("path") for v in pod["volumes"]}
    for container in pod.get("initContainers", []) + pod["containers"]:
        for mount in container["volumeMounts"]:
            path = volumes[mount["name"]]
            assert path in (None, mount["mountPath"]), "a path of the node has another name in the container: " + path
    assert set(volumes) == {m["name"] for c in pod.get("initContainers", []) + pod["containers"] for m in c["volumeMounts"]}
    return volumes

daemons, = yaml.safe_load_all(open(sys.argv[1]))
pod, = yaml.safe_load_all(open(sys.argv[2]))
assert (daemons["apiVersion"], daemons["kind"], pod["apiVersion"], pod["kind"]) == ("apps/v1", "DaemonSet", "v1", "Pod")
template = daemons["spec"]["template"]
assert daemons["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
node, train = template["spec"], pod["spec"]
for spec in node, train:
    assert spec["automountServiceAccountToken"] is False and "serviceAccountName" not in spec
assert node["hostNetwork"] and node["hostPID"]
here, there = volumes_fit(node), volumes_fit(train)
assert here["run"] == there["run"] and here["scratch"] == there["scratch"]
container, = node["containers"]
assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
assert train["securityContext"]["supplementalGroups"] == [container["securityContext"]["runAsGroup"]]
stage, = train["initContainers"]
assert stage["restartPolicy"] == "Always"
for name, words in ("stage", stage["command"]), ("probe", stage["startupProbe"]["exec"]["command"]):
    open(name, "w").write("\0".join(word.replace("/staged", sys.argv[3]) for word in words))
P
python3 manifests.py "$examples/fmove-daemonset.yaml" "$examples/staged-pod.yaml" "$PWD/staged" 2>err || bad "manifests: $(cat err)"
mkdir staged
mapfile -d '' -t stage_words <stage
mapfile -d '' -t probe_words <probe
SOURCE=n2:s/set "${stage_words[@]}" 2>err &
stage=$!
await "${probe_words[@]}" || bad "the init container does not stage: $(cat err)"
is_set "$(readlink staged/data)"
# n3 lets go within 10 s of what ended just before it stopped.
is_held_once() { fmove datasets --json | grep -q '"holds":1'; }
await is_held_once || bad "the init container does not hold it: $(fmove datasets)"
kill $stage && wait $stage || bad "it does not end well when the pod does"
await no_holds || bad "it is held by no pod any more: $(fmove datasets)"
rm staged/data
SOURCE=n2:s/nowhere "${stage_words[@]}" 2>err && bad "a source that is missing was staged"
"${probe_words[@]}" && bad "the training would begin without its data"
