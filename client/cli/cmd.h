/* SPDX-License-Identifier: MIT */
/*
 * cmd - the verbs of fmove: one table (cmd_table.c), which the dispatcher, every --help, the
 * completion and the man page test read.
 *
 * A verb is `int fm_cmd_NAME(int argc, char **argv)` in cmd_NAME.c, argv[0] being the verb; it
 * returns the exit status. Its options are rows in the same file, `const struct fm_opt
 * fm_opts_NAME[]`, ended by a row without name. A verb begins like this:
 *
 *	struct fm_args args;
 *	int key;
 *
 *	fm_args_begin(&args, "put", argc, argv);
 *	while ((key = fm_args_next(&args)) > 0) {
 *		switch (key) {
 *		case OPT_FORCE: force = true; break;
 *		case OPT_LIMIT: limit_text = args.value; break;
 *		}
 *	}
 *	if (fm_args_end(&args, 2, 2) < 0)	// a mistake was said, or --help was printed
 *		return args.status;
 *	... args.operands[0 .. args.count - 1]
 *
 * --help, and --socket where the row says so, are dealt with in fm_args_next().
 *
 * A group of verbs, "nvme", is a row without run(); its verbs are rows too, named "nvme status" and
 * so on, each with its own options.
 */
#ifndef FM_CLIENT_CMD_H
#define FM_CLIENT_CMD_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/base/exit_code.h"

struct fm_err;
struct fmove_error;
struct fm_json_writer;

#define FM_OPTS_MAX 32		/* rows of one verb */

struct fm_opt {
	const char *name;	/* "force": --force */
	char letter;		/* 'f': -f too; 0: none */
	int key;		/* > 0, its own in the verb; what fm_args_next() returns */
	const char *arg;	/* what the help calls its value; NULL: a flag */
	const char *help;	/* a few words; wrapped to 80 columns */
	const char *values;	/* for completion: "auto rdma tcp", "FILE", or NULL */
};

struct fm_cmd {
	const char *name;	/* "put", "nvme", "nvme status" */
	const char *args;	/* "SRC... NODE:STORE/PATH" */
	const char *summary;	/* one line */
	const char *text;	/* paragraphs below the usage line, or NULL; wrapped */
	const struct fm_opt *opts;
	bool has_socket;	/* talks to the daemon: --socket */
	int (*run)(int argc, char **argv);	/* NULL: a group of verbs */
};

/* Ended by a row without name. */
extern const struct fm_cmd fm_cmds[];
/* What fmove does without a verb. */
extern const struct fm_cmd fm_cmd_alone;
extern const struct fm_opt fm_opts_global[];

/* By name, or NULL. */
const struct fm_cmd *fm_cmd_find(const char *name);

/*
 * What stands for a row within a group ("" is the whole of fmove): "put" within "", "status" within
 * "nvme". NULL: the row is not one of that group.
 */
const char *fm_cmd_word(const struct fm_cmd *cmd, const char *group);

/* Let the verb of that group which argv[0] names do its work, or say that there is none. Its exit
 * status. */
int fm_dispatch(const char *group, int argc, char **argv);

/* ---- arguments ---- */

struct fm_args {
	const char *value;	/* of the option returned last */
	char **operands;
	int count;
	int status;		/* once fm_args_end() returned -1: what the verb returns */
	/* fm_args's own: */
	const struct fm_cmd *cmd;
	char **argv;
	int argc;
	int at;
	const char *letters;	/* rest of "-rf" */
	bool is_operands_only;	/* "--" was seen */
	bool is_stopped;
};

void fm_args_begin(struct fm_args *args, const char *verb, int argc, char **argv);

/*
 * The key of the next option (its value in args->value), 0 at the end, -1 after a mistake or
 * --help. Operands are collected.
 */
int fm_args_next(struct fm_args *args);

/*
 * -1 if it was over already, or (said in a line) there are not min .. max operands. max < 0: no
 * limit.
 */
int fm_args_end(struct fm_args *args, int min, int max);

/* Say "fmove: VERB: what is wrong" and let the verb return status 2: `return fm_usage(...)`. */
int fm_usage(const struct fm_args *args, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- saying things ---- */

/*
 * "fmove: put a.dat: ..." on standard error, one line, control characters escaped. Returns the exit
 * status that belongs to err->code.
 */
int fm_fail(const char *verb, const struct fm_err *err);

/* The same of any text; code: the errno. */
int fm_fail_text(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What fmoved or libfmove said; next_step.h has the difference. */
int fm_fail_told(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An error of libfmove's kind that is found here and not by it. The code. */
int fm_found_wrong(struct fmove_error *why, int code, const char *text);

/* A line on standard error. */
void fm_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * From now on nothing reaches standard output that a terminal obeys (base/plain.h) but line ends
 * and tabs: whatever is printed, and whoever said it. Raw: names of files, where a program reads
 * them.
 */
void fm_stdout_begin(void);
void fm_stdout_raw(void);

/*
 * Flush standard output: status, or 1 (and a line) if it could not be written, a full disk for
 * instance.
 */
int fm_stdout_end(const char *verb, int status);

/* Before a verb that was called with --json: a signal that it does not catch (interrupt.h) ends
 * it with an object, too. */
void fm_stdout_json(void);

/* Only what is safe in a handler: ends at once, with an object after fm_stdout_json() if nothing
 * was printed; what was cannot be taken back. */
_Noreturn void fm_end_cancelled(void);

/*
 * The last of such a verb: if it failed before it printed anything, an object with its exit status
 * and the error that was said. The status.
 */
int fm_stdout_error(int status);

/* "error" of an object: the last error that was said, if there was one. */
void fm_said_json(struct fm_json_writer *w);

/* As --socket said; NULL: libfmove looks into the environment. */
const char *fm_socket_path(void);
void fm_socket_set(const char *path);

/* ---- help and suggestions ---- */

void fm_help_all(void);
void fm_help_cmd(const struct fm_cmd *cmd);
void fm_help_text(const char *text);		/* wrapped */

/* The name in a NULL-terminated list that is nearest to word, or NULL if none is near. */
const char *fm_nearest(const char *word, const char *const *names);

/* What to say here for a command that other tools have ("cp"), or NULL. */
const char *fm_other_word(const char *word);

int fm_cmd_put(int argc, char **argv);
int fm_cmd_get(int argc, char **argv);
int fm_cmd_ls(int argc, char **argv);
int fm_cmd_stat(int argc, char **argv);
int fm_cmd_rm(int argc, char **argv);
int fm_cmd_mkdir(int argc, char **argv);
int fm_cmd_mv(int argc, char **argv);
int fm_cmd_ln(int argc, char **argv);
int fm_cmd_group_begin(int argc, char **argv);
int fm_cmd_group_commit(int argc, char **argv);
int fm_cmd_group_list(int argc, char **argv);
int fm_cmd_group_discard(int argc, char **argv);
int fm_cmd_df(int argc, char **argv);
int fm_cmd_purge(int argc, char **argv);
int fm_cmd_verify(int argc, char **argv);
int fm_cmd_stage(int argc, char **argv);
int fm_cmd_datasets(int argc, char **argv);
int fm_cmd_pin(int argc, char **argv);
int fm_cmd_unpin(int argc, char **argv);
int fm_cmd_unstage(int argc, char **argv);
int fm_cmd_status(int argc, char **argv);
int fm_cmd_top(int argc, char **argv);
int fm_cmd_doctor(int argc, char **argv);
int fm_cmd_topology(int argc, char **argv);
int fm_cmd_bench(int argc, char **argv);
int fm_cmd_jobs(int argc, char **argv);
int fm_cmd_logs(int argc, char **argv);
int fm_cmd_wait(int argc, char **argv);
int fm_cmd_cancel(int argc, char **argv);
int fm_cmd_resume(int argc, char **argv);
int fm_cmd_keygen(int argc, char **argv);
int fm_cmd_nvme_discover(int argc, char **argv);
int fm_cmd_nvme_up(int argc, char **argv);
int fm_cmd_nvme_connect(int argc, char **argv);
int fm_cmd_nvme_down(int argc, char **argv);
int fm_cmd_nvme_disconnect(int argc, char **argv);
int fm_cmd_nvme_seal(int argc, char **argv);
int fm_cmd_nvme_unseal(int argc, char **argv);
int fm_cmd_nvme_ask(int argc, char **argv);
int fm_cmd_nvme_forget(int argc, char **argv);
int fm_cmd_nvme_status(int argc, char **argv);
int fm_cmd_nvme_list(int argc, char **argv);
int fm_cmd_nvme_units(int argc, char **argv);
int fm_cmd_init(int argc, char **argv);
int fm_cmd_invite(int argc, char **argv);
int fm_cmd_join(int argc, char **argv);
int fm_cmd_config(int argc, char **argv);
int fm_cmd_completion(int argc, char **argv);
int fm_cmd_help(int argc, char **argv);

extern const struct fm_opt fm_opts_put[];
extern const struct fm_opt fm_opts_get[];
extern const struct fm_opt fm_opts_ls[];
extern const struct fm_opt fm_opts_stat[];
extern const struct fm_opt fm_opts_rm[];
extern const struct fm_opt fm_opts_mkdir[];
extern const struct fm_opt fm_opts_mv[];
extern const struct fm_opt fm_opts_ln[];
extern const struct fm_opt fm_opts_group_begin[];
extern const struct fm_opt fm_opts_group_commit[];
extern const struct fm_opt fm_opts_group_discard[];
extern const struct fm_opt fm_opts_group_list[];
extern const struct fm_opt fm_opts_df[];
extern const struct fm_opt fm_opts_purge[];
extern const struct fm_opt fm_opts_verify[];
extern const struct fm_opt fm_opts_stage[];
extern const struct fm_opt fm_opts_datasets[];
extern const struct fm_opt fm_opts_pin[];
extern const struct fm_opt fm_opts_unstage[];
extern const struct fm_opt fm_opts_status[];
extern const struct fm_opt fm_opts_top[];
extern const struct fm_opt fm_opts_doctor[];
extern const struct fm_opt fm_opts_topology[];
extern const struct fm_opt fm_opts_bench[];
extern const struct fm_opt fm_opts_jobs[];
extern const struct fm_opt fm_opts_logs[];
extern const struct fm_opt fm_opts_wait[];
extern const struct fm_opt fm_opts_cancel[];
extern const struct fm_opt fm_opts_resume[];
extern const struct fm_opt fm_opts_keygen[];
extern const struct fm_opt fm_opts_nvme_discover[];
extern const struct fm_opt fm_opts_nvme_up[];
extern const struct fm_opt fm_opts_nvme_connect[];
extern const struct fm_opt fm_opts_nvme_down[];
extern const struct fm_opt fm_opts_nvme_disconnect[];
extern const struct fm_opt fm_opts_nvme_seal[];
extern const struct fm_opt fm_opts_nvme_unseal[];
extern const struct fm_opt fm_opts_nvme_ask[];
extern const struct fm_opt fm_opts_nvme_forget[];
extern const struct fm_opt fm_opts_nvme_status[];
extern const struct fm_opt fm_opts_nvme_list[];
extern const struct fm_opt fm_opts_nvme_units[];
extern const struct fm_opt fm_opts_init[];
extern const struct fm_opt fm_opts_invite[];
extern const struct fm_opt fm_opts_join[];
extern const struct fm_opt fm_opts_config[];
extern const struct fm_opt fm_opts_none[];

#endif
