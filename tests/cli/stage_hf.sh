#!/bin/bash
# Goal:   a repository of Hugging Face comes from any node's hub cache into one hub cache of this node: only the revision that was
#         asked for, verified by its blobs' names, in both layouts; and nothing that is not whole or leads out of its cache.
# Method: real daemons, hub caches made here. What is staged is read through the hub as huggingface_hub reads it, whose real code
#         drives it where it is installed (hf_offline.py). Hostile caches, damaged blobs, SIGKILL, removal.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "400MiB"; grace = "0s"; };'
export FM_CLUSTER_STORE='layout = "hf";'
up 2
hub=$dir/c/n1/cache/hf/hub
from=$(store 2)

# commit TEXT: 40 digits.
commit() {
	sha1sum <<<"$1" | cut -c 1-40
}

git_name() {
	{ printf 'blob %s\0' "$(stat -c %s "$1")"; cat "$1"; } | sha1sum | cut -c 1-40
}

# file REPOSITORY COMMIT NAME sha256|git [shared]: what is in ./new becomes a file of that snapshot.
file() {
	local blobs=$from/$1/blobs up=../.. sum deep=${3//[^\/]/}
	if [ "$4" = sha256 ]; then sum=$(sha256sum <new | cut -c 1-64); else sum=$(git_name new); fi
	mkdir -p "$blobs" "$(dirname "$from/$1/snapshots/$2/$3")"
	if [ -n "${5:-}" ]; then
		mkdir -p "$from/blobs/ab"
		mv new "$from/blobs/ab/xet$sum"
		ln -sf "../../blobs/ab/xet$sum" "$blobs/$sum"
	else
		mv new "$blobs/$sum"
	fi
	ln -sf "${deep//\//..\/}$up/blobs/$sum" "$from/$1/snapshots/$2/$3"
}

ref() {
	mkdir -p "$(dirname "$from/$1/refs/$2")"
	printf %s "$3" >"$from/$1/refs/$2"
}

# The older layout, two revisions; and a repository of the newer one, whose large blob is the cache's own.
old=models--org--old
one=$(commit one) two=$(commit two)
for rev in "$one" "$two"; do
	random 3000000 new; file $old "$rev" model.safetensors sha256
	echo "{\"rev\": \"$rev\"}" >new; file $old "$rev" config.json git
	echo deep >new; file $old "$rev" sub/deep/tokenizer.json git
done
ref $old main "$two"
ref $old v1.0 "$one"
ref $old pr/1 "$one"
new=datasets--org--new
three=$(commit three)
random 2000000 new; file $new "$three" data/train.parquet sha256 shared
echo readme >new; file $new "$three" README.md git
mkdir "$from/$new/trees"
echo '{}' >"$from/$new/trees/$three.json"
ref $new main "$three"
random 1000 "$from/blobs/ab/other"

# The default is main: a path of a snapshot in the hub, the same files behind it, and no other revision's blobs.
path=$(fmove stage hf:org/old 2>err) || bad "stage: $(cat err)"
[ "$path" = "$hub/$old/snapshots/$two" ] || bad "another path: $path"
grep -q "HF_HOME=$dir/c/n1/cache/hf" err || bad "no HF_HOME: $(cat err)"
diff -r "$from/$old/snapshots/$two" "$path" || bad "the snapshot differs"
[ "$(readlink "$path/config.json")" = "$(readlink "$from/$old/snapshots/$two/config.json")" ] || bad "another link: $(ls -l "$path/")"
[ "$(cat "$hub/$old/refs/main")" = "$two" ] || bad "refs/main is not $two"
[ -L "$hub/$old/snapshots/$two" ] || bad "no link into the dataset"

blobs=$(cd -P "$path/../../blobs" && ls | wc -l)
[ "$blobs" -eq 3 ] || bad "$blobs blobs for three files"
[ "$(fmove stage hf:org/old@main 2>err)" = "$path" ] && grep -q unchanged err || bad "the second time: $(cat err)"

# What nobody waits for any more gets its names, too.
slow 2
ok fmove stage --detach hf:org/old@pr/1
[ ! -s out ] && grep -q 'comes, held for nobody' err || bad "detached: $(cat out err)"
fast 2
is_shown() {
	[ "$(cat "$hub/$old/refs/pr/1" 2>/dev/null)" = "$one" ]
}
await is_shown || bad "detached: not in the hub: $(ls -R "$hub/$old"; fmove datasets)"

# Its source is read again; a tree of links to its files, which are links out of the snapshot.
ok fmove stage --check content hf:org/old
grep -q 'read again and the same' err || bad "by its content: $(cat err)"
no 2 'check none.*HF_HOME=DIRECTORY/hf .*HF_HUB_OFFLINE=1' fmove stage --check none hf:org/old
[ "$(fmove stage --link tree hf:org/old 2>err)" = "$PWD/tree" ] || bad "a tree of links: $(cat err)"
diff -r "$from/$old/snapshots/$two" tree || bad "the tree of links differs"
[ -d tree/sub/deep ] && [ ! -L tree/sub ] && touch tree/sub/beside || bad "no real directories: $(ls -lR tree)"

# A tag, a reference with a slash, a commit.
[ "$(fmove stage hf:models/org/old@v1.0 2>err)" = "$hub/$old/snapshots/$one" ] || bad "a tag: $(cat err)"
[ "$(fmove stage hf:org/old@pr/1 2>err)" = "$hub/$old/snapshots/$one" ] || bad "a pull request: $(cat err)"
if command -v python3 >/dev/null; then	# the package for Python
	PYTHONPATH=$FM_SOURCE/client/python python3 -c 'import fmove; fm = fmove.connect(); print(*map(fm.stage, ["hf:org/old", "hf:models/org/old@v1.0"]))' >out 2>err
	[ "$(<out)" = "$path $hub/$old/snapshots/$one" ] || bad "Python: $(cat out err)"
	no 1 'NotFound: no hub cache.*spaces--org--none@x' env PYTHONPATH="$FM_SOURCE/client/python" python3 -c 'import sys, fmove
try: fmove.connect().stage("hf:spaces/org/none@x")
except FileNotFoundError as why: sys.exit(f"{type(why).__name__}: {why}")'
fi
[ "$(cat "$hub/$old/refs/v1.0")$(cat "$hub/$old/refs/pr/1")" = "$one$one" ] || bad "refs"
[ "$(fmove stage "hf:org/old@$one" 2>err)" = "$hub/$old/snapshots/$one" ] || bad "a commit: $(cat err)"
diff -r "$from/$old/snapshots/$one" "$hub/$old/snapshots/$one" || bad "the tagged snapshot differs"

# Another revision has blobs of those that are here: only what is new of it comes.
got() {
	fmove status --json | grep -o '"received_bytes":[0-9]*' | awk -F : '{ sum += $2 } END { print sum + 0 }'
}
four=$(commit four)
cp -a "$from/$old/snapshots/$two" "$from/$old/snapshots/$four"
echo four >new; file $old "$four" four git
before=$(got)
[ "$(fmove stage "hf:org/old@$four" 2>err)" = "$hub/$old/snapshots/$four" ] || bad "another revision: $(cat err)"
[ $(($(got) - before)) -lt 1000000 ] || bad "another revision: $(($(got) - before)) bytes came"
diff -r "$from/$old/snapshots/$four" "$hub/$old/snapshots/$four" || bad "another revision differs"
diff -r "$from/$old/snapshots/$two" "$path" || bad "the one before it changed"

# The newer layout; what others have in the cache's own blobs stays there.
fmove stage --json hf:datasets/org/new >out 2>err || bad "the newer layout: $(cat err)"
grep -q "\"path\":\"$hub/$new/snapshots/$three\".*\"hf_home\":\"$dir/c/n1/cache/hf\"" out || bad "the object: $(cat out)"
diff -r "$from/$new/snapshots/$three" "$hub/$new/snapshots/$three" || bad "the newer layout differs"
cmp "$from/$new/trees/$three.json" "$hub/$new/trees/$three.json" || bad "its list did not come"
[ -z "$(find "$dir/c/n1/cache/ready" -name other)" ] || bad "a blob of nobody's came"

# by_name: huggingface_hub makes the path of a blob of what one link says, and does not follow the snapshot's: it is there, too.
by_name() {
	find "$hub"/*/snapshots/*/ -type l | while read -r file; do
		blob=$(realpath -sm "$(dirname "$file")/$(readlink "$file")")
		case $blob in "$hub"/*/blobs/*) ;; *) echo "$blob is not in the hub" ;; esac
		cmp "$file" "$blob" 2>&1
	done >found
	[ ! -s found ] && [ "$(find "$hub" -name snapshots | wc -l)" -gt 0 ] || bad "$1: $(cat found)"
}
by_name "by name"

# A command has both, whatever was set before.
ok env HF_HUB_CACHE=/nowhere fmove stage hf:org/old -- sh -c 'test "$FMOVE_STAGED" = "$0" && test "$HF_HUB_CACHE" = "$HF_HOME/hub"' "$path"

# The real thing, where it is.
python=$(command -v python3) && "$python" "$FM_SOURCE/tests/cli/hf_offline.py" "$dir/c/n1/cache/hf" \
	"model org/old main $two model.safetensors" "dataset org/new main $three data/train.parquet" >out 2>&1
case $? in
0)	;;
77)	echo "not tried: $(cat out)" ;;
*)	bad "huggingface_hub: $(cat out)" ;;
esac

# This node's own hub cache goes before another's.
here=models--org--here
mkdir -p "$(store 1)"
from=$(store 1)
echo here >new; file $here "$one" f git; ref $here main "$one"
from=$(store 2)
held() {
	fmove stage "$1" -- sh -c 'echo "$FMOVE_STAGED"' 2>err
}
[ "$(held hf:org/here)" = "$hub/$here/snapshots/$one" ] && grep -q 'n1:s' err || bad "of this node: $(cat err)"

# What cannot be.
for name in org/../x ../x org/x/y org/.x org/a--b 'org/x@../y' 'org/x@' 'org/x@/a' ''; do
	no 2 'a repository is hf:ORG/NAME' fmove stage "hf:$name"
done
no 1 'no hub cache of any node has models--org--nowhere@main; asked: n1:s, n2:s' fmove stage hf:org/nowhere
no 1 'no hub cache.*models--org--old@nowhere' fmove stage hf:org/old@nowhere

# What only the caller's own cache has: it is said how it gets into a store, and so it does, in both layouts; a put keeps the links.
mkdir own
for name in "$old" "$new"; do
	cp -a "$from/$name" "own/${name/--org--/--me--}"
done
cp -a "$from/blobs" own
find own -type f -exec touch {} +
no 1 'asked: n1:s' env HF_HUB_CACHE="$PWD/own" fmove stage hf:me/nowhere
! grep -q 'for you alone' err || bad "what nobody has is the caller's: $(cat err)"
own="your own hub cache has it, for you alone: fmove put -r '$PWD/own/models--me--old' NODE:STORE/models--me--old .* layout = \"hf\"\$"
no 1 "no hub cache of any node has models--me--old@main.*$own" \
	env HF_HUB_CACHE="$PWD/own" fmove stage --detach hf:me/old
mkdir -p home/.cache/huggingface
ln -s "$PWD/own" home/.cache/huggingface/hub
ok env -u HF_HUB_CACHE -u HF_HOME -u XDG_CACHE_HOME -u HUGGINGFACE_HUB_CACHE HOME="$PWD/home" fmove stage "hf:datasets/me/new@$three"
[ "$(<out)" = "$dir/c/n1/cache/hf-$(id -u)/hub/datasets--me--new/snapshots/$three" ] || bad "the caller's own, of the newer layout: $(cat out err)"
diff -r "own/datasets--me--new/snapshots/$three" "$(<out)" || bad "the caller's own, of the newer layout, differs"
for name in models--me--old datasets--me--new; do
	ok fmove put -r "own/$name" "n2:s/$name"
done
ok fmove put -r --update own/blobs n2:s/blobs
[ "$(held hf:me/old)" = "$hub/models--me--old/snapshots/$two" ] || bad "the caller's own, put: $(cat err)"
diff -r "own/models--me--old/snapshots/$two" "$hub/models--me--old/snapshots/$two" || bad "the caller's own differs"
[ "$(held hf:datasets/me/new)" = "$hub/datasets--me--new/snapshots/$three" ] || bad "the caller's own, of the newer layout: $(cat err)"
diff -r "own/datasets--me--new/snapshots/$three" "$hub/datasets--me--new/snapshots/$three" || bad "the caller's own, of the newer layout, differs"

hostile=models--org--hostile
# made NAME: a whole repository again.
made() {
	rm -rf "${from:?}/$hostile"
	echo fine >new; file $hostile "$one" f git
	ref $hostile main "$one"
}
made; ln -s ../../../../../../etc/passwd "$from/$hostile/snapshots/$one/out"
no 1 'n2:.*leads to where no blobs' fmove stage hf:org/hostile
made; ln -s /etc/passwd "$from/$hostile/snapshots/$one/out"
no 1 'leads to where no blobs' fmove stage hf:org/hostile
made; ln -s ../../../$old/refs/main "$from/$hostile/snapshots/$one/out"
no 1 'leads to where no blobs' fmove stage hf:org/hostile
made; ln -s ../../blobs/nothing "$from/$hostile/snapshots/$one/gone"
no 1 'not whole' fmove stage hf:org/hostile
made; : >"$from/$hostile/blobs/abc.incomplete"
no 1 'download.*abc.incomplete' fmove stage hf:org/hostile
made; printf '../../x' >"$from/$hostile/refs/main"
no 1 'names no commit' fmove stage hf:org/hostile
made; mkdir -p "$from/$hostile/snapshots/$one/$(printf 'd/%.0s' $(seq 1900))"
no 1 'too deep' fmove stage hf:org/hostile
made; rm -r "$from/$hostile/blobs"; ln -s "../$old/blobs" "$from/$hostile/blobs"
no 1 'hostile/blobs' fmove stage hf:org/hostile

# A blob that is not what its name says: of either kind, and nothing of it stays.
for kind in sha256 git; do
	made; echo good >new; file $hostile "$one" bad $kind
	echo evil >"$(readlink -f "$from/$hostile/snapshots/$one/bad")"
	no 5 'not what its name says' fmove stage hf:org/hostile
	[ ! -e "$hub/$hostile" ] || bad "it is in the hub: $(ls -lR "$hub/$hostile")"
	fmove datasets --json | grep -q "\"name\":\"$hostile\"" && bad "something of it stays: $(fmove datasets)"
done

# SIGKILL before the links appear: the next call makes them; none leads to what is not ready.
big=models--org--big
random 30000000 new; file $big "$one" model.bin sha256
echo small >new; file $big "$one" config.json git
ref $big main "$one"
for round in $(seq "${FM_STAGE_KILLS:-3}"); do
	if [ "$round" -gt 1 ]; then
		await fmove unstage $big || bad "round $round: it stays: $(fmove datasets)"
		await test ! -L "$hub/$big/snapshots/$one" || bad "round $round: the hub keeps it: $(ls -lR "$hub/$big")"
	fi
	fmove stage hf:org/big -- true >out 2>err &
	stager=$!
	sleep "0.$((RANDOM % 6))$((RANDOM % 10))"
	crash n1
	wait $stager		# it may have been ready just before
	for link in "$hub"/*/snapshots/*; do
		[ ! -L "$link" ] || [ -d "$link/" ] || bad "round $round: $link leads nowhere"
	done
	[ ! -e "$hub/$big/refs/main" ] || diff -r "$from/$big/snapshots/$one" "$hub/$big/snapshots/$one" || bad "round $round: a ref of what is not whole"
	start_again n1
	reachable 2
	path=$(held hf:org/big) || bad "round $round: $(cat err)"
	diff -r "$from/$big/snapshots/$one" "$path" || bad "round $round: it differs"
done

# A daemon that ended between a dataset's removal and the sweep: the next one's first sweep does it.
crash n1
lost=models--org--lost
mkdir -p "$hub/$lost/snapshots" "$hub/$lost/refs"
ln -s "../../../../ready/$(sha256sum </dev/null | cut -c 1-64)/$lost/$lost/snapshots/$two" "$hub/$lost/snapshots/$two"
printf %s "$two" >"$hub/$lost/refs/main"
start_again n1
reachable 2
await test ! -e "$hub/$lost" || bad "a start keeps what leads nowhere: $(ls -lR "$hub/$lost")"

# It goes: the ref, the link, the repository. Others stay.
await fmove unstage $here 2>/dev/null || bad "it stays: $(fmove datasets)"
await test ! -e "$hub/$here" -a ! -L "$hub/$here/snapshots/$one" || bad "it is in the hub still: $(ls -lR "$hub/$here")"
[ "$(cat "$hub/$old/refs/main")" = "$two" ] || bad "another one's ref went"

# A blob of two revisions stays in the hub when that dataset goes by which it came there: the first one, which was asked for last.
pair=models--org--pair
for rev in "$one" "$two"; do
	echo both >new; file $pair "$rev" config.json git
	random 1000 new; file $pair "$rev" model.bin sha256
done
for rev in "$one" "$two" "$one"; do
	held "hf:org/pair@$rev" >/dev/null || bad "a pair: $(cat err)"
done
by_name "a pair"
await fmove unstage $pair
await test ! -L "$hub/$pair/snapshots/$one" || bad "it is in the hub still: $(ls -lR "$hub/$pair")"
[ -L "$hub/$pair/snapshots/$two" ] || bad "the other one went"
by_name "when one went"
[ "$(find "$hub/$pair/blobs" -type l | wc -l)" -eq 2 ] || bad "blobs of nobody: $(ls -l "$hub/$pair/blobs")"

# A ref that another one is in the way of: one line, and both stay as they are; nothing is pinned for it.
ref $pair v1 "$two"
held hf:org/pair@v1 >/dev/null || bad "a tag: $(cat err)"
rm "$from/$pair/refs/v1"
ref $pair v1/x "$two"
no 6 '"v1/x" cannot be in the hub beside "v1", which is there; fmove unstage that one first' fmove stage --pin hf:org/pair@v1/x
fmove unpin $pair >out 2>err && bad "what was refused is pinned"
grep -q 'nobody pins it\|you do not pin it' err || bad "unpin: $(cat err)"
[ "$(<"$hub/$pair/refs/v1")" = "$two" ] || bad "refs/v1 went"

# A node that is off may have what nobody else has: that is not as if it were nowhere.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
no 4 'models--org--nowhere@main: n2: .*; asked: n1:s' fmove stage hf:org/nowhere
grep -q HF_HOME err && bad "it tells of what never was here: $(cat err)"
no 4 "n2: .* in HF_HOME=${hub%/hub}, .* HF_HUB_OFFLINE=1" fmove stage hf:org/old
no 4 "n2: .*$own" env -u HF_HUB_CACHE HUGGINGFACE_HUB_CACHE="$PWD/own" fmove stage --detach hf:me/old
ok env -u HF_HUB_CACHE HUGGINGFACE_HUB_CACHE="$PWD/own" fmove stage hf:me/old
grep -q "hf://~$(id -u)/models--me--old@$two" err && grep -q 'warning: .*n2: ' err || bad "a node that is off is in the way of the caller's own: $(cat err)"
start_again n2
exit
