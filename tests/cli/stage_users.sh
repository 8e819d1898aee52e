#!/bin/bash
# Goal:   what one user staged does no harm to another one: not to his bytes, not to his copy, not to his names.
# Method: sources that look alike and are not, one of them with the same CRCs too; datasets of one name; users who want
#         what is another's to go or to stay.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

# twin NAME TEXT: a source of one file, of a time that all of them have.
twin() {
	mkdir -p "$(store 2)/$1"
	echo "$2" >"$(store 2)/$1/weights"
	touch -d '2020-01-01 00:00:00' "$(store 2)/$1/weights"
}

# Names, sizes and times are the same, the bytes are not: each source has its own.
twin evil 'evil weights, for all to load'
twin good 'good weights, for all to load'
evil=$(fmove stage n2:s/evil 2>err) || bad "evil: $(cat err)"
good=$(fmove stage n2:s/good 2>err) || bad "good: $(cat err)"
same "$(store 2)/evil/weights" "$evil/weights"
same "$(store 2)/good/weights" "$good/weights"

# Both at once: a fetch is shared only by those who named the same source.
twin evil2 'Evil weights, for all to load'
twin good2 'Good weights, for all to load'
fmove stage n2:s/evil2 >out.evil 2>err.evil &
fmove stage n2:s/good2 >out.good 2>err.good
wait $!
same "$(store 2)/evil2/weights" "$(cat out.evil)/weights"
same "$(store 2)/good2/weights" "$(cat out.good)/weights"

# The CRC32C is the same, too: it is told, and what is there is not taken for what was asked for.
twin evil3 'evil weightsUWQZQPVQQP'
twin good3 'good weightsPPPPPPPPPP'
ok fmove stage n2:s/evil3 -- true
no 6 'evil3' fmove stage n2:s/good3
await fmove unstage evil3 2>/dev/null || bad "evil3 stays"
good=$(fmove stage n2:s/good3 2>err) || bad "good3: $(cat err)"
same "$(store 2)/good3/weights" "$good/weights"

# The same bytes under two names of a source are here once.
cp -a "$(store 2)/good" "$(store 2)/copy"
good=$(fmove stage n2:s/good 2>err) || bad "good again: $(cat err)"
copy=$(fmove stage n2:s/copy 2>err) || bad "copy: $(cat err)"
[ "$good" = "$copy" ] || bad "the same bytes are here twice: $good, $copy"

exit
