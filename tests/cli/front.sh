#!/bin/bash
# Goal:   fmove loads none of the large libraries for what a daemon does. For the rest it becomes fmove-full, with the same words, wherever
#         the two lie; where there is none it says so.
# Method: what the loader says; copies of the programs, and a script in the place of fmove-full that says what it was given.
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
cat >"$dir/libexec/fmove/fmove-full" <<'END'
#!/bin/bash
printf '<%s>' "$@"
exit 42
END
chmod +x "$dir/libexec/fmove/fmove-full"
said=$("$dir/bin/fmove" --socket /nowhere top '' 'a b' --json </dev/null); status=$?
[ $status = 42 ] && [ "$said" = '<--socket></nowhere><top><><a b><--json>' ] || bad "libexec: $status: $said"
ln -s "$dir/bin/fmove" mine
said=$(./mine nvme units); status=$?
[ $status = 42 ] && [ "$said" = '<nvme><units>' ] || bad "by a link: $status: $said"
# What lies beside it comes first, and not what lies beside the link, or in PATH.
mv "$dir/libexec/fmove/fmove-full" "$dir/bin/"
said=$(PATH=/nowhere ./mine); status=$?
[ $status = 42 ] && [ "$said" = '<>' ] || bad "beside it: $status: $said"
mv "$dir/bin/fmove-full" .
if ! ls /usr/local/libexec/fmove/fmove-full /usr/libexec/fmove/fmove-full >/dev/null 2>&1; then
	PATH=$dir/w:$PATH "$dir/bin/fmove" doctor >out 2>err; status=$?
	[ $status = 1 ] && grep -qx 'fmove: doctor: start /.*/libexec/fmove/fmove-full: No such file or directory' err ||
		bad "without fmove-full: $status: $(cat out err)"
	said=$("$dir/bin/fmove" doctor --json 2>/dev/null)
	[[ $said = *'"exit":1'*libexec* ]] || bad "without fmove-full, as JSON: $said"
fi
