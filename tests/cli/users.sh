#!/bin/bash
# Goal:   local files are touched with the caller's rights only: two users who may not read each other's files stay apart.
# Method: as root, become another user; files that only root can read, directories that only root can write.
. "$(dirname "$0")/lib.sh"
need_nobody
export FM_CLUSTER_STORE='owner = "caller";'
up 2
mkdir theirs && chown nobody theirs
random 50000 secret && chmod 600 secret
random 50000 theirs/file && chown nobody theirs/file && chmod 600 theirs/file

# Is the socket for everybody? The cluster decides; here it has to be.
chmod 666 "$dir"/c/n1/fmoved.sock
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
: >out && : >err && chmod 666 out err

no 6 'secret: Permission denied' as_nobody fmove put secret n2:s/secret
[ -e "$(store 2)/secret" ] && bad "another user's file was sent"
ok as_nobody fmove put theirs/file n2:s/file
same theirs/file "$(store 2)/file"
ok as_nobody fmove get n2:s/file theirs/back
same theirs/file theirs/back
[ "$(stat -c %U theirs/back)" = nobody ] || bad "what was received belongs to $(stat -c %U theirs/back)"
no 6 'ermission denied' as_nobody fmove get n2:s/file ./x
[ -e x ] && bad "something was made in a directory that is not the caller's"

# Directories: what in them cannot be read is named; what is received belongs to who received it, and the daemon could read none of it.
mkdir -p theirs/tree/sub && random 9000 theirs/tree/sub/f && random 5000000 theirs/tree/large && chown -R nobody theirs/tree
chmod 700 theirs theirs/tree theirs/tree/sub && chmod 600 theirs/tree/large
random 100 theirs/tree/sub/secret && chmod 600 theirs/tree/sub/secret
no 6 'sub/secret.*ermission denied' as_nobody fmove put -r theirs/tree n2:s/tree
[ -e "$(store 2)/tree" ] && bad "a tree with another user's file in it was published"
ok as_nobody fmove put -r --exclude secret theirs/tree n2:s/tree
ok as_nobody fmove get -r n2:s/tree theirs/tree2
rm theirs/tree/sub/secret
diff -r theirs/tree theirs/tree2 || bad "a tree came back as another one"
[ "$(find theirs/tree2 ! -user nobody)" = '' ] || bad "not all that was received belongs to its receiver"
no 6 'may not' as_nobody fmove get -r n2:s/tree ./x
[ -e x ] && bad "something was made in a directory that is not the caller's"

# In a store that keeps owners all belongs to who sent it, whatever his process says of the entries; only root's trees keep theirs.
theirs() {
	find "$(store 2)/$1" ! -user nobody
}
mkdir theirs/mixed && random 9000 theirs/mixed/roots && ln -s x theirs/mixed/link && random 5000000 theirs/mixed/large && chmod 644 theirs/mixed/*[es]
mkdir theirs/mixed/dir && random 100 theirs/mixed/dir/theirs && chown nobody theirs/mixed/dir/theirs
ok as_nobody fmove put theirs/file n2:s/a/b/file
[ "$(theirs a)" = '' ] || bad "not his: $(theirs a)"
ok as_nobody fmove mkdir n2:s/made
[ "$(theirs made)" = '' ] || bad "not his: $(theirs made)"
ok as_nobody fmove put -r theirs/mixed n2:s/mixed
[ "$(theirs mixed)" = '' ] || bad "not his: $(theirs mixed)"
ok fmove put -r theirs/mixed n2:s/roots
[ "$(cd "$(store 2)/roots" && find . -user nobody)" = ./dir/theirs ] || bad "root's tree lost its owners: $(ls -lR "$(store 2)/roots")"

# What one user left unfinished no other goes on with: it is his, and its content is his word. A tree, then a file.
mkdir common && for i in $(seq 40); do random 500000 "common/$i"; done
random 20000000 common.bin
for what in common common.bin; do
	recursive=
	[ ! -d $what ] || recursive=-r
	# shellcheck disable=SC2086
	setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups env --default-signal=INT \
		fmove put $recursive --keep-partial --limit 300kB/s $what n2:s/$what >/dev/null 2>err.left &
	moved $what 900000
	kill -INT $!
	wait $!
	[ $? -eq 130 ] || bad "put of $what, interrupted: $(cat err.left)"
	ended $what
	# shellcheck disable=SC2086
	ok fmove put $recursive $what n2:s/$what --json
	diff -r $what "$(store 2)/$what" || bad "$what is another one there"
	[ "$(find "$(store 2)/$what" ! -user root)" = '' ] || bad "of what root sent some is another's: $(find "$(store 2)/$what" ! -user root | head -n 5)"
	[ "$(json resumed_bytes out)" = 0 ] || bad "root went on with what another user had left of $what"
done

# A socket that is not for everybody.
chmod 600 "$dir"/c/n1/fmoved.sock
no 6 'may not be used by you: join the group' as_nobody fmove status
