# SPDX-License-Identifier: MIT
#
# header.awk - a public header of libfmove as a manual page of section 3, which says nothing of its own:
#
#   awk -f header.awk client/lib/fmove/files.h >fmove_files.3
#
# What stands between the two pragmas becomes the description: declarations as they are, the comment before them behind them, other comments
# as paragraphs, and those with dashes as headings. The line that names the header says what the page is about.

function escaped(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return text ~ /^[.']/ ? "\\\&" text : text
}

# With its tabs as far as terminals go.
function expanded(line,  at, out) {
	for (at = index(line, "\t"); at > 0; at = index(line, "\t")) {
		out = out substr(line, 1, at - 1)
		do out = out " "; while (length(out) % 8)
		line = substr(line, at + 1)
	}
	return out line
}

function end_comment() {
	if (comment != "")
		body = body ".PP\n" escaped(comment) "\n"
	comment = ""
}

function end_code() {
	if (code != "")
		body = body ".PP\n.EX\n" code ".EE\n"
	code = ""
	end_comment()
}

# The words of a line of a comment.
function add_comment(text) {
	in_comment = !sub(/ *\*\/$/, "", text)
	sub(/^\/\*|^ \*/, "", text)
	gsub(/^ +| +$/, "", text)
	if (text ~ /^----.*----$/) {
		gsub(/^-+ +| +-+$/, "", text)
		body = body ".SS " escaped(toupper(substr(text, 1, 1)) substr(text, 2)) "\n"
	} else if (text != "") {
		comment = comment (comment ~ /^$|\n$/ ? "" : " ") text
	} else if (in_comment && comment != "") {
		comment = comment "\n.PP\n"
	}
}

FNR == 2 {
	about = $0
	sub(/^[^-]* - /, "", about)
	sub(/\. See <fmove\.h>\. \*\/$/, "", about)
	file = $2
}

/^#pragma GCC visibility push/ { is_public = 1; next }
/^#pragma GCC visibility pop/ { is_public = 0 }
!is_public { next }

in_comment || /^\/\*/ {
	if (!in_comment)
		end_code()
	add_comment($0)
	next
}

/^$/ { end_code(); next }

{
	code = code escaped(expanded($0)) "\n"
	if (match($0, /^[a-z].*[ *]fmove_[a-z0-9_]+\(/)) {
		name = substr($0, RSTART, RLENGTH - 1)
		sub(/\(.*/, "", name)
		sub(/.*[ *]/, "", name)
		names = names (names == "" ? "" : ", ") name
	}
}

END {
	end_code()
	page = file
	gsub(/\.h$/, "", page)
	gsub(/\//, "_", page)
	print ".\\\" SPDX-License-Identifier: MIT"
	print ".TH " toupper(page) " 3 \"\" \"fmove\" \"Library\""
	print ".SH NAME\n" names " \\- " escaped(about)
	print ".SH SYNOPSIS\n.nf\n.B #include <fmove.h>\n.fi"
	print ".SH DESCRIPTION\nThis is what\n.B <" file ">\ndeclares, which can be included alone."
	printf "%s", body
	print ".SH \"SEE ALSO\"\n.BR libfmove (3),\n.BR fmove (1)"
}
