#!/bin/bash
# Goal:   an update keeps what is another user's in the target as well, or refuses by name; in a store that keeps owners, and in a user's
#         directory. What is mounted in the target, or on it, is refused before anything is sent.
# Method: as root, become another user; files, links and directories of root in what that user updates.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
need_nobody
export FM_CLUSTER_STORE='owner = "caller"; old_keep = "0s";'
up 2
chmod 666 "$dir"/c/n1/fmoved.sock
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
: >out && : >err && chmod 666 out err
mkdir theirs && chown nobody theirs
ok as_nobody fmove put /etc/hostname n2:s/first
mkdir -p theirs/source/sub && echo 1 >theirs/source/f && chown -R nobody theirs/source

looks() {
	(cd "$1" && find . -printf '%y %m %u %T@ %l %p\n' | sort)
	sums "$1"
}

# In a store the daemon links whatever there is, and it stays whose it is.
ok as_nobody fmove put -r theirs/source n2:s/t
t=$(store 2)/t
mkdir "$t/rootdir" && echo secret >"$t/rootdir/secret" && chmod 600 "$t/rootdir/secret" && chmod 711 "$t/rootdir"
echo root >"$t/sub/root" && chmod 600 "$t/sub/root"
ln -s root "$t/sub/link"
mkfifo "$t/sub/fifo"
touch -d @1500000000 "$t/rootdir"
(cd "$t" && find rootdir sub/root sub/link sub/fifo -printf '%y %m %u %T@ %i %l %p\n' | grep -v '^d') >before
echo new >theirs/source/new && chown nobody theirs/source/new
ok as_nobody fmove put -r --json --update theirs/source n2:s/t
[ "$(json kept out)" -eq 5 ] || bad "kept in a store: $(cat out)"
(cd "$t" && find rootdir sub/root sub/link sub/fifo -printf '%y %m %u %T@ %i %l %p\n' | grep -v '^d') | diff before - >diff.out ||
	bad "what is root's is another now: $(cat diff.out)"
[ "$(stat -c '%U %a %Y' "$t/rootdir")" = 'root 711 1500000000' ] || bad "root's directory is another: $(stat -c '%U %a %Y' "$t/rootdir")"
[ "$(stat -c %U "$t/new")" = nobody ] || bad "the new file is not who sent it's"

# In a directory of his own a user may not link what he may not write (fs.protected_hardlinks), and read but what he may.
mkdir "$(store 2)/src" && echo 1 >"$(store 2)/src/f" && echo 2 >"$(store 2)/src/g"
mkdir theirs/t && echo 000 >theirs/t/f && chown -R nobody theirs/t
echo readable >theirs/t/readable && chmod 644 theirs/t/readable && touch -d @1500000000 theirs/t/readable
looks theirs/t >looks.before
ok as_nobody fmove get -r --update n2:s/src theirs/t
[ "$(cat theirs/t/readable)" = readable ] && [ "$(stat -c %Y theirs/t/readable)" = 1500000000 ] && [ "$(cat theirs/t/f)" = 1 ] ||
	bad "a file that may be read was not copied: $(ls -l theirs/t)"
# Nobody may ask who has it open but its owner.
[[ $(<out)$(<err) == *'may not be linked were copied'* ]] || [ "$(cat /proc/sys/fs/protected_hardlinks)" = 0 ] || bad "a copy is not told: $(cat out err)"
echo 3 >"$(store 2)/src/g"
echo secret >theirs/t/secret && chmod 600 theirs/t/secret
looks theirs/t >looks.before
if [ "$(cat /proc/sys/fs/protected_hardlinks)" = 1 ]; then
	no 6 'theirs/t/secret|t/secret.*another user' as_nobody fmove get -r --update n2:s/src theirs/t
	looks theirs/t | diff looks.before - >diff.out || bad "a refused update changed something: $(cat diff.out)"
fi
ok as_nobody fmove get -r -n --json --update --delete n2:s/src theirs/t
rm theirs/t/secret
# A directory that cannot be read is refused before anything comes: nobody knows what is in it.
mkdir -m 700 theirs/t/closed && echo secret >theirs/t/closed/secret
looks theirs/t >looks.before
no 6 'closed.*cannot be read' as_nobody fmove get -r --update n2:s/src theirs/t
no 6 'closed.*cannot be read' as_nobody fmove get -r -n --update n2:s/src theirs/t
looks theirs/t | diff looks.before - >diff.out || bad "a refused update changed something: $(cat diff.out)"
# Another user's directory he could only make his own.
chmod 755 theirs/t/closed
no 6 'closed.*another user.s directory' as_nobody fmove get -r --update n2:s/src theirs/t
looks theirs/t | diff looks.before - >/dev/null && bad "the test looks at nothing"
# Root can do all of that.
ok fmove get -r --update n2:s/src theirs/t
[ "$(cat theirs/t/closed/secret)" = secret ] && [ "$(cat theirs/t/g)" = 3 ] || bad "root's update: $(ls -lR theirs/t)"
no_trees theirs

# What is mounted in the target, and a directory that is bound into it.
if mkdir "$t/mounted" && mount -t tmpfs none "$t/mounted" 2>/dev/null; then
	echo there >"$t/mounted/f"
	echo more >theirs/source/more && chown nobody theirs/source/more
	no 6 't/mounted.*mounted' as_nobody fmove put -r --update theirs/source n2:s/t
	no 6 't/mounted.*mounted' as_nobody fmove put -r --update --delete theirs/source n2:s/t
	no 6 't/mounted.*mounted' as_nobody fmove put -r --replace theirs/source n2:s/t
	[ "$(cat "$t/mounted/f")" = there ] || bad "what is mounted in the target is gone"
	[ -e "$t/more" ] && bad "it was published all the same"
	umount "$t/mounted"
	mkdir bound && echo there >bound/f
	mount --bind bound "$t/mounted"
	no 6 't/mounted.*mounted' as_nobody fmove put -r --update theirs/source n2:s/t
	umount "$t/mounted"
	[ "$(cat bound/f)" = there ] || bad "what was bound into the target is gone"
	ok as_nobody fmove put -r --update theirs/source n2:s/t
	# Where nothing differs nothing is replaced.
	mount --bind bound "$t/mounted"
	ok as_nobody fmove put -r --update theirs/source n2:s/t
	grep -q ': unchanged, ' err || bad "what is mounted there makes it differ: $(cat err)"
	no 6 't/mounted.*mounted' as_nobody fmove put -r --update --delete theirs/source n2:s/t
	umount "$t/mounted"
	# Nothing of a directory that is to be replaced has come by then: all of it would take minutes.
	random 100000000 theirs/source/large && chown nobody theirs/source/large
	mount --bind bound "$t/mounted"
	no 6 't/mounted.*mounted' timeout "$HANG_S" fmove put -r --replace --limit 50kB/s theirs/source n2:s/t
	no 6 't/mounted.*mounted' timeout "$HANG_S" fmove put -r --update --delete --limit 50kB/s theirs/source n2:s/t
	# rm goes no further than that.
	no 1 't/mounted.*mounted there' fmove rm -r n2:s/t/mounted
	mkdir "$(store 2)/away" && mv "$t/rootdir" "$(store 2)/away" && mkdir -p "$(store 2)/away/in/mp"
	mount --bind bound "$(store 2)/away/in/mp"
	no 1 'away/in/mp.*mounted there' fmove rm -r n2:s/away
	[ "$(cat bound/f)" = there ] || bad "rm removed what is mounted in a directory"
	umount "$t/mounted" "$(store 2)/away/in/mp"
	ok fmove rm -r n2:s/away
	# A file on which another one is mounted.
	touch "$t/file"
	mount --bind bound/f "$t/file"
	for how in --update '--update --delete' --replace '--update -n'; do
		# shellcheck disable=SC2086
		no 6 't/file.*mounted' timeout "$HANG_S" fmove put -r $how --limit 50kB/s theirs/source n2:s/t
	done
	umount "$t/file"
	rm theirs/source/large
	# The target itself: nothing takes its name. Said before anything comes, so that nothing is left beside it.
	mount -t tmpfs none "$t" && echo there >"$t/f"
	mkdir mountpoint && mount -t tmpfs none mountpoint && echo there >mountpoint/f
	for how in --update '--update --delete' --replace '--update -n'; do
		# shellcheck disable=SC2086
		no 6 '"t".*mounted there' fmove put -r $how theirs/source n2:s/t
		# shellcheck disable=SC2086
		no 6 'mountpoint".*mounted there' fmove get -r $how n2:s/src mountpoint
	done
	# In the target of a get: nothing came, so nothing is said to be kept.
	ok fmove get -r n2:s/src around && mkdir around/mp && mount -t tmpfs none around/mp
	find around -type f -delete		# so that something would come
	for how in --update '--update --delete' --replace '--update -n'; do
		# shellcheck disable=SC2086
		no 6 'around/mp".*mounted there' fmove get -r $how n2:s/src around
		grep -q 'what came is kept' err && bad "$how: nothing came: $(cat err)"
	done
	umount around/mp
	[ -z "$(find . "$(store 2)" -maxdepth 1 -name '.fmove*' ! -name '*.manifest')" ] ||
		bad "refused, but something is left: $(find . "$(store 2)" -maxdepth 1 -name '.fmove*')"
	[ "$(cat "$t/f" mountpoint/f)" = "there
there" ] || bad "what is mounted was touched: $(ls -l "$t" mountpoint)"
	ok fmove put -r --update theirs/source n2:s/t/
	ok fmove get -r n2:s/src mountpoint/
	[ "$(cat "$t/source/more" mountpoint/src/g)" = "more
3" ] || bad "into what is mounted: $(ls -lR "$t" mountpoint)"
	umount "$t" mountpoint
else
	echo "SKIP: nothing can be mounted: that part is not tested"
fi
no_trees
