#!/bin/bash
# Goal:   fmove loads none of the large libraries for what a daemon does. For the rest it becomes fmove-full, with the same words, wherever
#         the two lie; where there is none it says so.
# Method: what the loader says; copies of the programs, and echo in the place of fmove-full, which says what it was given.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") && mkdir -p "$dir/bin" "$dir/libexec/fmove" "$dir/w" && cd "$dir/w" || exit 1
trap down EXIT

libraries=$(ldd "$FMOVE_BIN/fmove") || bad "ldd: $libraries"
for library in crypto ssl ibverbs rdmacm ncurses tinfo config nvme systemd uring; do
	[[ $libraries != *"/lib$library"* ]] || bad "fmove loads lib$library"
done

# Its verbs are those of the other, and so is what it says of each of them.
fmove --help >help && fmove-full --help | cmp -s - help || bad "fmove and fmove-full have other verbs"
for verb in put nvme 'nvme up' group; do
	# shellcheck disable=SC2086 # words
	fmove $verb --help | cmp -s - <(fmove-full $verb --help) || bad "fmove $verb --help is another"
done
no 2 'unknown command "docter", did you mean "doctor"' fmove docter
no 2 'nvme: unknown command "dicsover", did you mean "discover"' fmove nvme dicsover

# Each word arrives, options before the verb as well, and in the place of both the name that it was called by.
cp "$FMOVE_BIN/fmove" "$dir/bin/"
full=$dir/libexec/fmove/fmove-full
cp "$(type -P echo)" "$full"
said=$("$dir/bin/fmove" --socket /nowhere top '' 'a b' --json </dev/null)
[ "$said" = '--socket /nowhere top  a b --json' ] || bad "libexec: $said"
ln -s "$dir/bin/fmove" mine
said=$(./mine nvme units)
[ "$said" = 'nvme units' ] || bad "by a link: $said"
# What lies beside it comes first, and not what lies beside the link, or in PATH.
cp "$full" "$dir/bin/"
rm "$full"
said=$(PATH=/nowhere ./mine nvme units)
[ "$said" = 'nvme units' ] || bad "beside it: $said"
mv "$dir/bin/fmove-full" .

# What fmove says of itself to the other; a script, too, which the kernel has another program open.
cat >"$dir/bin/fmove-full" <<'END'
#!/bin/bash
printf '<%s>' "$@"
echo "$FMOVE_FRONT" >front
exit 42
END
chmod 755 "$dir/bin/fmove-full"
said=$(./mine top '' 'a b'); status=$?
[ $status = 42 ] && [ "$said" = '<top><><a b>' ] || bad "a script: $status: $said"
rm "$dir/bin/fmove-full"

# Of two versions neither runs, nor of two builds of one version, such as of two days before a release.
read -r version build <front
no 1 'fmove is of version 0.0.9 and fmove-full of .*: install both again$' env FMOVE_FRONT=0.0.9 fmove-full --version
no 1 'install both again$' env FMOVE_FRONT=0.0.9 fmove-full doctor --json
[ "$(json exit out)" = 1 ] && [[ $(json text out) = *'install both again' ]] || bad "of another version, as JSON: $(cat out)"
[ "$version" = "$(fmove --version | sed 's/.* //')" ] && [[ $build =~ ^[0-9a-f]{16}$ ]] || bad "fmove says of itself: $(cat front)"
no 1 "are of two builds of version $version \(0123, $build\): install both again$" env "FMOVE_FRONT=$version 0123" fmove-full --version
no 1 'two builds of version .*one that does not say' env "FMOVE_FRONT=$version" fmove-full --version
ok env "FMOVE_FRONT=$version $build" fmove-full --version
# A build is what is in its sources, wherever they lie.
cp "$FM_SOURCE/client/cli/full.c" one.c
cp one.c two.c
echo "$dir/w/one.c" >one
echo "$dir/w/two.c" >two
build_of() {
	ok cmake "-DLIST=$dir/w/$1" "-DOUT=$dir/w/id.c" -P "$FM_SOURCE/client/build_id.cmake"
	build=$(grep fm_build_id id.c)
}
build_of one && before=$build
build_of two && [ "$build" = "$before" ] || bad "the same source elsewhere is another build"
echo "/* changed */" >>two.c
build_of two && [ "$build" != "$before" ] || bad "a source that was changed is the same build"

# refuses STATUS PATTERN: fmove becomes no other program, and says why.
refuses() {
	PATH=$dir/w:$PATH "$dir/bin/fmove" doctor >out 2>err; status=$?
	[ $status = "$1" ] && grep -qx "fmove: doctor: start /.*/fmove-full: $2" err || bad "fmove-full: $status: $(cat out err)"
}
if ! ls /usr/local/libexec/fmove/fmove-full /usr/libexec/fmove/fmove-full >/dev/null 2>&1; then
	refuses 1 'No such file or directory; fmove is not installed whole: install .*'
	said=$("$dir/bin/fmove" doctor --json 2>/dev/null)
	[[ $said = *'"exit":1'*libexec* ]] || bad "without fmove-full, as JSON: $said"
	# Somebody else's program is not run, where he may put one beside a copy of fmove.
	cp fmove-full "$dir/bin/"
	chmod 777 "$dir/bin/fmove-full"
	others="it or its directory belongs to somebody else, or all may write there; make both root's, and writable by nobody else (.*)"
	refuses 6 "$others"
	chmod 644 "$dir/bin/fmove-full"
	refuses 6 'Permission denied; the modes there forbid it (namei -l)'
	# Nor is one that he led to from where he may make names.
	mkdir "$dir/bin2" && cp "$dir/bin/fmove" "$dir/bin2/"
	mkdir -p "$dir/libexec/fmove" && cp fmove-full "$dir/libexec/fmove/"
	ok "$dir/bin2/fmove" doctor
	chmod 777 "$dir"
	said=$("$dir/bin2/fmove" doctor 2>&1) && bad "by ../libexec of a directory for all: $said"
	chmod 755 "$dir"
	rm -r "$dir/libexec/fmove"
	# Nor is a good one that he led there, in a directory where he may make names.
	rm "$dir/bin/fmove-full"
	ln -s "$(type -P echo)" "$dir/bin/fmove-full"
	chmod 1777 "$dir/bin"
	refuses 6 "$others"
	chmod 755 "$dir/bin"
	ok "$dir/bin/fmove" doctor
	rm "$dir/bin/fmove-full"
	cp fmove-full "$dir/bin/"
	if [ "$(id -u)" = 0 ]; then
		chmod 755 "$dir/bin/fmove-full"
		chown nobody "$dir/bin/fmove-full"
		refuses 6 "$others"
	fi
fi
