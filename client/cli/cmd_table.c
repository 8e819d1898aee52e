/* SPDX-License-Identifier: MIT */
/*
 * cmd_table - every verb of fmove. Each one's options stand in its own file. See cmd.h.
 *
 * It is compiled twice. In the program `fmove` (FM_WITHOUT_FULL) a verb that needs more than the
 * daemon's answer, and with it large libraries, is one of `fmove-full`: see full.h.
 */
#include "client/cli/cmd.h"

#include <string.h>

#include "client/cli/full.h"
#include "client/cli/overview.h"

#ifdef FM_WITHOUT_FULL
#define FULL(opts, has_socket, run) fm_opts_none, has_socket, fm_cmd_full
#else
#define FULL(opts, has_socket, run) opts, has_socket, run
#endif

const struct fm_opt fm_opts_none[] = {
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_global[] = {
	{ "help", 'h', 1, NULL, "print this and end", NULL },
	{ "version", 'V', 1, NULL, "print the version and end", NULL },
	{ "socket", 0, 1, "PATH", "fmoved's socket (FMOVE_SOCKET, else /run/fmove/fmoved.sock)",
	  "FILE" },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_cmd fm_cmds[] = {
	{"put", "SRC... NODE:STORE/PATH...", "Send files or directories to other nodes.",
	 "SRC is a file, or - for standard input. With several sources, or if PATH ends with / or "
	 "is a directory, the files go into it under their own names.\n"
	 "\n"
	 "A file appears under its name only when all of it has arrived and was checked; with "
	 "--durability disk, when it is on disk.\n"
	 "\n"
	 "With -r SRC may be a directory: PATH becomes its copy, as a whole, or PATH/SRC if PATH "
	 "ends with /.\n"
	 "\n"
	 "SRC may also be NODE:STORE/PATH of this node itself; then the daemon opens it.\n"
	 "\n"
	 "With several destinations a file gets to all of them or to none. It is read once, if "
	 "they keep pace. With --detach each is a job of its own.",
	 fm_opts_put, true, fm_cmd_put},
	{"get", "NODE:STORE/PATH... DST", "Receive files or directories from other nodes.",
	 "A PATH with * ? or [ is a pattern, unless that very name is there: quote it, and each "
	 "file that it matches is received, a / by a / only and a dot at the beginning of a name "
	 "by a dot. Several files go into DST, a directory.\n"
	 "\n"
	 "DST is a file, a directory to put it into, or - for standard output. It appears under "
	 "its name only when all of it has arrived and was checked.\n"
	 "\n"
	 "With -r PATH may be a directory: DST becomes its copy, as a whole, or DST/PATH if DST "
	 "ends with / or is a dot.\n"
	 "\n"
	 "DST may also be NODE:STORE/PATH of this node itself; then the daemon makes it.",
	 fm_opts_get, true, fm_cmd_get},
	{"ls", "[NODE:[STORE[/PATH]]]", "List nodes, the stores of one, or a directory of a store.",
	 "Without an operand: this node and its peers, and which are connected. NODE: the stores "
	 "of that node that you may read (r) or write to (w). A PATH with * ? or [ is a pattern, "
	 "unless that very name is there: quote it, and the names that it matches are listed, "
	 "below the store, and not what is in them.",
	 fm_opts_ls, true, fm_cmd_ls},
	{"stat", "NODE:STORE/PATH", "Show size, mode and time of a file or directory.",
	 "Of a symbolic link itself, and where it leads.",
	 fm_opts_stat, true, fm_cmd_stat},
	{"rm", "NODE:STORE/PATH...", "Remove files or directories.",
	 "A PATH with * ? or [ is a pattern, unless that very name is there: quote it, and each "
	 "name that it matches is removed. -n says beforehand what would go.",
	 fm_opts_rm, true, fm_cmd_rm},
	{"mkdir", "NODE:STORE/PATH...", "Make directories, with missing parents.", NULL,
	 fm_opts_mkdir, true, fm_cmd_mkdir},
	{"mv", "NODE:STORE/PATH NODE:STORE/PATH",
	 "Give a file or directory another name in its store.",
	 "It has the old name or the new one, whatever happens: it is one rename, which is on the "
	 "disk when this ends. Both names are in one store of one node. With a / at the end of the "
	 "second, it goes into that directory under its own name.",
	 fm_opts_mv, true, fm_cmd_mv},
	{"ln", "TARGET NODE:STORE/PATH", "Make a symbolic link in a store.",
	 "TARGET is what the link says: a path that begins at the link's directory and leads to "
	 "something in the same store, which need not be there. With -f the link takes the place "
	 "of another one at once: who opens it finds the old target or the new one.",
	 fm_opts_ln, true, fm_cmd_ln},
	{"group", "COMMAND ...", "Publish what many put in one step.",
	 "begin opens a group for PATH and prints its ID, a secret. Any process of that user on "
	 "any node puts members below PATH with it: fmove put --group ID, or FMOVE_GROUP=ID. "
	 "commit publishes them all by one rename, or says which are missing; discard drops them. "
	 "Nothing is at PATH before.",
	 fm_opts_none, false, NULL},
	{"group begin", "NODE:STORE/PATH...", "Open a group for a directory, and print its ID.",
	 "With several destinations it is opened at each, or at none. What is expected may be "
	 "said here or with the commit.",
	 fm_opts_group_begin, true, fm_cmd_group_begin},
	{"group commit", "[ID] NODE:STORE/PATH...", "Publish all members of a group.",
	 "ID may be left out if FMOVE_GROUP has it. The directory is there as a whole, and on "
	 "disk, when this ends. With several destinations each is asked first whether all is "
	 "there, and none is committed if one is not. Committing again what was committed is no "
	 "error.",
	 fm_opts_group_commit, true, fm_cmd_group_commit},
	{"group discard", "[ID] NODE:STORE/PATH...", "Drop a group with all that came.",
	 "ID may be left out if FMOVE_GROUP has it.", fm_opts_group_discard, true,
	 fm_cmd_group_discard},
	{"group list", "[NODE[:STORE]]", "List the groups that are open, and their members.",
	 "Of this node, of another, or of one store, of the stores that you may read: who began "
	 "each, when, until when it is kept, and which members are there, come now, or are missing "
	 "of those that begin said. The ID is not said. The stores are looked through as a whole.",
	 fm_opts_group_list, true, fm_cmd_group_list},
	{"verify", "NODE:STORE/PATH", "Read again what is stored, and compare.",
	 "PATH is a file, or a directory with all that is in it. The node that has it reads it "
	 "from its disk and compares it with the checksums that were kept when it came.\n"
	 "\n"
	 "Files that were changed since, and such that fmove did not bring, are only counted.",
	 fm_opts_verify, true, fm_cmd_verify},
	{"df", "[NODE[:STORE]]|DIR", "Show what stores have room for.",
	 "Of this node, of another, or of one store: what is free and used, what running "
	 "transfers were promised, and what goes with the directories that were replaced and are "
	 "kept for a while (old_keep); with --unfinished also what transfers that were cut off "
	 "left. Of a directory of yours, DIR (with a / or . before it): "
	 "what is free, and what gets keep aside and left unfinished in it.",
	 fm_opts_df, true, fm_cmd_df},
	{"purge", "NODE:STORE|DIR", "Remove what was replaced and is kept aside.",
	 "A directory of a store that --replace, --update or --delete replaced is kept for a "
	 "while (old_keep), so that who reads it can read on. It goes by itself when room is "
	 "needed. So is what get replaced in a directory of yours, DIR, for ten minutes, or until "
	 "a later get there needs the room. Nothing else is removed: nothing of yours, and what "
	 "transfers that were cut off left only with --unfinished.",
	 fm_opts_purge, true, fm_cmd_purge},
	{"stage", "[NODE:]STORE/PATH | /PATH | hf:ORG/NAME[@REVISION] [-- COMMAND...]",
	 "Have a directory or file of another node, or of a store, on this node's disk.",
	 "Prints the path of the copy, and nothing else, on standard output, so that DATA=$(fmove "
	 "stage n2:data/set) works. A copy that is here is the answer, if the source is what it "
	 "was by names, sizes and times. It is read-only, and stays as long as the process that "
	 "runs fmove, and for staging.grace.\n"
	 "\n"
	 "With -- COMMAND the command runs with FMOVE_STAGED set to that path, and the copy stays "
	 "as long as it does. fmove ends as the command does. To fetch it ahead and hold nothing: "
	 "-- true.\n"
	 "\n"
	 "An absolute path stands for the store of this node that it is in. hf:ORG/NAME is a model "
	 "of Hugging Face, from a store with layout = \"hf\" of any node: HF_HOME stands on "
	 "standard error, and is set for COMMAND.\n"
	 "\n"
	 "staging.directory of fmove.conf(5) says where this node keeps copies. Ctrl-C ends the "
	 "waiting; what is fetched goes on: fmove jobs lists it, fmove cancel ends it.\n"
	 "\n"
	 "With --nodes it is on each of them, and its source is read once; staging.peers of "
	 "fmove.conf(5) says which nodes stage together.",
	 fm_opts_stage, true, fm_cmd_stage},
	{"datasets", "[NAME | check NAME]", "List what is staged on this node.",
	 "State, version, size, holds, pins, age, how long ago a hold of it began or ended, when "
	 "it was checked, name and source of each; with NAME, or its source, all that is known of "
	 "that, its path too. planned, copying, fetching, checking: it comes; partial: what came "
	 "of it waits; ready: it is here. Last stands what other nodes have of it.\n"
	 "\n"
	 "check NAME reads all of one that is ready again and compares it with its manifest. What "
	 "is damaged is printed, and comes again from its source or another node; the exit status "
	 "is 5 if something stays damaged.",
	 fm_opts_datasets, true, fm_cmd_datasets},
	{"pin", "NAME", "Keep a dataset until it is unpinned.",
	 "NAME, or NODE:STORE/PATH that it came from, as fmove datasets lists them.",
	 fm_opts_pin, true, fm_cmd_pin},
	{"unpin", "NAME", "Keep a dataset no longer than it is used.",
	 "What you pinned; as root, what anybody did. It stays until its room is wanted; fmove "
	 "unstage removes it now.",
	 fm_opts_pin, true, fm_cmd_unpin},
	{"unstage", "NAME", "Remove a dataset from this node's disk.",
	 "One that is pinned, held, fetched or open is left, and it is said which. A shell that "
	 "ran fmove stage holds it until "
	 "it ends.",
	 fm_opts_unstage, true, fm_cmd_unstage},
	{"jobs", "", "List your jobs: transfers that run, wait, or have ended.", NULL, fm_opts_jobs,
	 true, fm_cmd_jobs},
	{"wait", "JOB...", "Wait for jobs, and end as they did.", NULL, fm_opts_wait, true,
	 fm_cmd_wait},
	{"cancel", "JOB...", "Cancel jobs.", NULL, fm_opts_cancel, true, fm_cmd_cancel},
	{"resume", "JOB...", "Let jobs go on that are paused, failed or were cancelled.",
	 "A job on a file of yours needs that file again after fmoved was restarted: it is opened "
	 "here, with your rights, and handed over. One that waits begins its next try at once.",
	 fm_opts_resume, true, fm_cmd_resume},
	{"logs", "JOB", "Show what this node's journal has of a job.",
	 "The lines of its daemons, oldest first, each with the unit that it came from. The other "
	 "node of the job calls it by the same id: run this there, too. Not all lines that a job "
	 "causes name it.",
	 fm_opts_logs, false, fm_cmd_logs},
	{"status", "", "Show this node: peers, rails with state and rate, memory, transfers.", NULL,
	 fm_opts_status, true, fm_cmd_status},
	{"top", "", "Watch rails, transfers, stores, volumes and the cache, live.",
	 "On a terminal. q ends it, ? lists the keys. What has gone wrong is red, or stands out. A "
	 "daemon that is restarted, or a disk that hangs, is said where it stands, and the rest "
	 "goes on.",
	 FULL(fm_opts_top, true, fm_cmd_top)},
	{"doctor", "",
	 "Say what this node's links allow, what is wrong, and the line that mends it.",
	 "Reads facts of this node and changes nothing. Ends with 1 if there is a finding that "
	 "costs something or worse, else with 3 if a peer that was asked for says no facts. What "
	 "two ends must agree on it sees with the facts of both: --peer or --all; or fmove doctor "
	 "--save FILE on each, then --from with each FILE.",
	 FULL(fm_opts_doctor, true, fm_cmd_doctor)},
	{"topology", "", "Draw which port of which node reaches which, and what goes over it.",
	 "From the connections that the daemons have: nobody labels the cables. The peers' "
	 "daemons are asked for their ends. Ends with 3 if one says none; it is drawn without its "
	 "ports.",
	 FULL(fm_opts_topology, true, fm_cmd_topology)},
	{"bench", "[rdma|tcp|disk|nvme-tcp|put|all] | compare FILE...",
	 "Measure what peers and disks can do, what it costs, and what limits it.",
	 "A peer must allow it: bench = true in its entry of this node. A disk is measured with a "
	 "file of its own, of which nothing is left. Ends with 3 if a number is not to be "
	 "believed: too short, cached, noisy, throttled.",
	 FULL(fm_opts_bench, true, fm_cmd_bench)},
	{"nvme", "COMMAND ...", "Shared NVMe-TCP volumes: connect, mount and watch them.",
	 "Volumes are named in the configuration (fmove.conf(5)). fmove-nvmed, which runs as "
	 "root, connects, watches and mounts them; these commands tell it what is wanted and show "
	 "what is. fmove-nvme(1) has it all.",
	 fm_opts_none, false, NULL},
	{"nvme discover", "ADDRESS[:PORT]", "Ask a target what it offers.",
	 "Prints a table, and lines for fmove.conf for what was found. PORT is 8009 if it is not "
	 "said; some targets answer at 4420.",
	 FULL(fm_opts_nvme_discover, false, fm_cmd_nvme_discover)},
	{"nvme up", "VOLUME | --all", "Connect and mount a volume, and keep it so.",
	 "Ends when it is mounted. If it cannot be in time the wish stays: fmove-nvmed goes on "
	 "trying.",
	 fm_opts_nvme_up, false, fm_cmd_nvme_up},
	{"nvme connect", "VOLUME", "Connect a volume and keep it so, without mounting it.",
	 "Ends when its device is there. If it cannot be in time the wish stays: fmove-nvmed goes "
	 "on trying.",
	 fm_opts_nvme_connect, false, fm_cmd_nvme_connect},
	{"nvme down", "VOLUME | --all", "Unmount and disconnect a volume, and leave it so.", NULL,
	 fm_opts_nvme_down, false, fm_cmd_nvme_down},
	{"nvme disconnect", "VOLUME", "Disconnect a volume that is not mounted.",
	 "While it is mounted this is refused, unless --force is given.", fm_opts_nvme_disconnect,
	 false, fm_cmd_nvme_disconnect},
	{"nvme ask", "VOLUME", "End when systemd may mount a volume now.",
	 "For the units that fmove nvme units writes. Nothing is wished: a volume that is not to "
	 "be mounted is an error.",
	 fm_opts_nvme_ask, false, fm_cmd_nvme_ask},
	{"nvme seal", "VOLUME",
	 "Publish what was written to a shared volume: the readers mount it.",
	 "At its writer. It is synced, unmounted and mounted read-only, its epoch is one more, "
	 "and every reader mounts it anew, with nothing of it left in memory. Until then readers "
	 "have nothing mounted.",
	 fm_opts_nvme_seal, false, fm_cmd_nvme_seal},
	{"nvme unseal", "VOLUME", "Make a shared volume writable again: the readers unmount it.",
	 "At its writer. It is mounted read-write as soon as each of its nodes has said that it "
	 "has it not mounted.",
	 fm_opts_nvme_unseal, false, fm_cmd_nvme_unseal},
	{"nvme forget", "NODE", "Do not wait for a node that is off for good.",
	 "What it said keeps no volume of this node's away any more, until it speaks. If it is "
	 "running all the same and writes, the file system is destroyed. It is remembered over "
	 "boots, and ends when the writer of a volume is another one or the volume is unsealed.",
	 fm_opts_nvme_forget, false, fm_cmd_nvme_forget},
	{"nvme status", "[VOLUME]", "Show all that is known of a volume, or of each.", NULL,
	 fm_opts_nvme_status, false, fm_cmd_nvme_status},
	{"nvme list", "", "List the volumes, one line each.", NULL, fm_opts_nvme_list, false,
	 fm_cmd_nvme_list},
	{"nvme units", "", "Write systemd mount units for the volumes.",
	 "For every volume with a mount point that this node may mount. The volume must name its "
	 "uuid or nguid. Only files that this command wrote are replaced or removed. fmove-nvmed "
	 "need not run.",
	 FULL(fm_opts_nvme_units, false, fm_cmd_nvme_units)},
	{"init", "", "Write configuration and key of the first node, print the line for the next.",
	 "It tries, as the user that fmoved runs as, what fmoved will do, and says the command "
	 "that mends what fails. When it fails, it takes away what it made. With --system, as "
	 "root, it also makes that user and starts the service, and says beforehand what it will "
	 "do.",
	 FULL(fm_opts_init, false, fm_cmd_init)},
	{"invite", "", "Print the line with which one more node joins.", NULL,
	 FULL(fm_opts_invite, false, fm_cmd_invite)},
	{"join", "ADDRESS[,ADDRESS...] [TOKEN] | --find",
	 "Join the node that printed this line.",
	 "The addresses are tried in turn. What is written here is as fmove init writes it. With "
	 "--find: list nodes on the links of this machine that have an open invitation.",
	 FULL(fm_opts_join, false, fm_cmd_join)},
	{"keygen", "[FILE]", "Make a node's key pair, print the public key.", NULL,
	 FULL(fm_opts_keygen, false, fm_cmd_keygen)},
	{"config", "check [FILE] | options | example",
	 "Check a configuration, or show what can be configured.", NULL,
	 FULL(fm_opts_config, false, fm_cmd_config)},
	{"completion", "bash|zsh|fish", "Print the completion of a shell, to be sourced by it.",
	 "make install puts them where these shells look. They ask fmove completion words -- "
	 "WORD..., which prints what the last word may become.",
	 FULL(fm_opts_none, false, fm_cmd_completion)},
	{"help", "[COMMAND...] | TOPIC", "Say what a command does, or what a word means.", NULL,
	 FULL(fm_opts_none, false, fm_cmd_help)},
	{NULL, NULL, NULL, NULL, NULL, false, NULL},
};

const struct fm_cmd fm_cmd_alone = {
	"", "", "Say what this machine has of fmove, and what to do next.", NULL,
	FULL(fm_opts_none, true, fm_overview),
};

const struct fm_cmd *fm_cmd_find(const char *name)
{
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

const char *fm_cmd_word(const struct fm_cmd *cmd, const char *group)
{
	size_t len = strlen(group);
	const char *word = cmd->name;

	if (len > 0) {
		if (strncmp(word, group, len) != 0 || word[len] != ' ')
			return NULL;
		word += len + 1;
	}
	return strchr(word, ' ') ? NULL : word;
}
