/* SPDX-License-Identifier: MIT */
/*
 * cmd_completion - fmove completion bash|zsh|fish: what makes a shell ask "fmove completion words",
 * which answers with candidates (complete.h).
 *
 * So a shell knows neither verbs nor options, and what it shows is what this fmove has.
 */
#include "client/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/complete.h"

/*
 * bash breaks words at colons, and replaces only what stands behind the last one: the word is put
 * together again, and candidates lose what stands before. They are quoted here, since bash leaves
 * a dollar alone; in quotes that are open, and for files of this machine, it does that itself.
 */
static const char bash[] =
	"# Completion of fmove for bash; made by: fmove completion bash\n"
	"_fmove()\n"
	"{\n"
	"\tlocal line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} i=$COMP_CWORD\n"
	"\tlocal before= found file quote=\n"
	"\twhile [[ $i -gt 1 && ${line%\"$word\"} != *[[:blank:]] ]]; do\n"
	"\t\tword=${COMP_WORDS[--i]}$word\n"
	"\tdone\n"
	"\tcase $word in [\\'\\\"]*) quote=1 word=${word:1} ;; esac\n"
	"\t[[ $quote ]] || IFS= read word <<<\"$word\"\n"
	"\t[[ $quote || $word != *:* ]] || before=${word%:*}:\n"
	"\t[[ -z $quote ]] || compopt -o filenames\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r found; do\n"
	"\t\tif [[ $found == $'\\tfiles' ]]; then\n"
	"\t\t\twhile IFS= read -r file; do\n"
	"\t\t\t\tcompopt -o filenames\n"
	"\t\t\t\tCOMPREPLY+=(\"$file\")\n"
	"\t\t\tdone < <([[ $before ]] || compgen -f -- \"$word\")\n"
	"\t\telif [[ $found == \"$word\"* ]]; then\n"
	"\t\t\tcase $found in *[:/]) compopt -o nospace ;; esac\n"
	"\t\t\tfound=${found#\"$before\"}\n"
	"\t\t\t[[ $quote ]] || printf -v found %q \"$found\"\n"
	"\t\t\tCOMPREPLY+=(\"$found\")\n"
	"\t\tfi\n"
	"\tdone < <(fmove completion words -- \"${COMP_WORDS[@]:1:i-1}\" \"$word\" 2>/dev/null)\n"
	"}\n"
	"complete -F _fmove fmove\n";

static const char zsh[] =
	"#compdef fmove\n"
	"# Completion of fmove for zsh; made by: fmove completion zsh\n"
	"_fmove()\n"
	"{\n"
	"\tlocal found\n"
	"\tlocal -a more whole\n"
	"\tfor found in \"${(@f)$(fmove completion words -- \"${(@Q)words[2,CURRENT-1]}\" "
	"\"${(Q)PREFIX}\" 2>/dev/null)}\"; do\n"
	"\t\tcase $found in\n"
	"\t\t('') ;;\n"
	"\t\t($'\\tfiles') _files ;;\n"
	"\t\t(*[:/]) more+=(\"$found\") ;;\n"
	"\t\t(*) whole+=(\"$found\") ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\tcompadd -S '' -a more\n"
	"\tcompadd -a whole\n"
	"}\n"
	"if [[ $funcstack[1] == _fmove ]]; then _fmove \"$@\"; else compdef _fmove fmove; fi\n";

static const char fish[] =
	"# Completion of fmove for fish; made by: fmove completion fish\n"
	"function __fmove_words\n"
	"\tset -l before (commandline -opc)\n"
	"\tset -l word (commandline -ct | string unescape)\n"
	"\tfor found in (fmove completion words -- $before[2..-1] \"$word\" 2>/dev/null)\n"
	"\t\tif test \"$found\" = \\tfiles\n"
	"\t\t\t__fish_complete_path \"$word\"\n"
	"\t\telse\n"
	"\t\t\techo $found\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"complete -c fmove -f -a '(__fmove_words)'\n";

int fm_cmd_completion(int argc, char **argv)
{
	static const char *const shells[][2] = {
		{ "bash", bash },
		{ "zsh", zsh },
		{ "fish", fish },
	};
	struct fm_args args;

	fm_args_begin(&args, "completion", argc, argv);
	while (fm_args_next(&args) > 0)
		;
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	if (strcmp(args.operands[0], "words") == 0) {
		fm_stdout_raw();
		fm_complete(args.count - 1, args.operands + 1);
		return fm_stdout_end("completion", FM_EXIT_DONE);
	}
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (strcmp(args.operands[0], shells[i][0]) == 0 && args.count == 1) {
			(void)fputs(shells[i][1], stdout);	/* fm_stdout_end() looks */
			return fm_stdout_end("completion", FM_EXIT_DONE);
		}
	return fm_usage(&args, "%s: must be bash, zsh or fish", args.operands[0]);
}
