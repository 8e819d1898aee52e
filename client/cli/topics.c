/* SPDX-License-Identifier: MIT */
/* topics - see topics.h. */
#include "client/cli/topics.h"

#include <stddef.h>

const struct fm_topic fm_topics[] = {
	{"names",
	 "A remote name is NODE:STORE/PATH: a node, one of its stores, and a path below that, "
	 "which cannot leave it. fmove ls lists the nodes, fmove ls NODE: the stores of one, and "
	 "fmove ls NODE:STORE what is in a store.\n"
	 "\n"
	 "What is of no such form is a file of this machine, opened with your rights. One that is "
	 "called like a remote name is written ./NODE:STORE/PATH. A lone - is standard input or "
	 "output.\n"
	 "\n"
	 "ls, get and rm take patterns (* ? [). Quote them, or the shell takes them for files of "
	 "this machine.\n"
	 "\n"
	 "More: fmove(1)."},
	{"stores",
	 "A store is a directory that a node offers to others under a name:\n"
	 "\n"
	 "  stores = ( { name = \"models\"; directory = \"/data/models\"; } );\n"
	 "\n"
	 "stands for it in fmove.conf. fmove init and join write it with --store NAME=DIR. After a "
	 "change: systemctl reload fmoved.\n"
	 "\n"
	 "What arrives belongs to the user that fmoved runs as, with the modes that it was sent "
	 "with. access = \"group\" lets the group of the directory read it; owner = \"caller\" "
	 "gives it to who sent it. read and write say which peers, users and groups may; quota "
	 "says how much there may be.\n"
	 "\n"
	 "fmove df shows the room of stores. More: fmove.conf(5)."},
	{"trust",
	 "A node is who its key says, and speaks only with nodes whose keys are in its "
	 "configuration. fmove invite on one node prints a line with a token, which works once; "
	 "fmove join with it on another exchanges the keys.\n"
	 "\n"
	 "To revoke a node, remove /etc/fmove/peers.d/NAME.conf on each other node and reload "
	 "fmoved there.\n"
	 "\n"
	 "TCP is TLS 1.3, except on loopback and on networks that both nodes name in "
	 "mover.private_networks. RDMA is never encrypted.\n"
	 "\n"
	 "On each node, root uses its fmoved, and who is in the group \"fmove\". More: "
	 "fmove.conf(5)."},
	{"rails",
	 "A rail is one way from a port of this node to a port of another, over RDMA or TCP. "
	 "fmoved tries all of them and uses those that work at once, so two cables carry twice as "
	 "much as one. Of RDMA and TCP over the same cable it uses RDMA. A cable that is cut ends "
	 "no transfer while another one works.\n"
	 "\n"
	 "fmove status lists the rails and what goes over each. fmove topology draws them, fmove "
	 "bench measures them, and fmove doctor says why one is missing or slow."},
	{"resuming",
	 "Say the same command again after a crash or a failure: it goes on with what had come, "
	 "reads that again, and says so. Below 1 MiB, and from a pipe, it begins anew.\n"
	 "\n"
	 "Ctrl-C removes what had come; with --keep-partial it stays. fmove ls --partial lists "
	 "what is unfinished in a store, and fmove purge --unfinished removes it.\n"
	 "\n"
	 "With --detach the daemon goes on after the command has ended: fmove jobs, wait, cancel, "
	 "resume. More: fmove(1), INTERRUPTED TRANSFERS and JOBS."},
	{"volumes",
	 "A volume is an NVMe-TCP namespace that several nodes can connect to. fmove-nvmed, which "
	 "runs as root, connects and mounts those of fmove.conf and keeps them so.\n"
	 "\n"
	 "One node writes, and the others read what it has sealed: no two nodes have one file "
	 "system mounted while one of them writes.\n"
	 "\n"
	 "fmove nvme discover ADDRESS shows what a target offers; fmove nvme list, up, down, seal "
	 "and status do the rest. More: fmove-nvme(1)."},
	{"staging",
	 "fmove stage STORE/PATH prints the path of a checked, read-only copy on a local disk, and "
	 "fetches it first if it is not there:\n"
	 "\n"
	 "  DATA=$(fmove stage first:models/imagenet) || exit\n"
	 "\n"
	 "stands in a job before the training. With --nodes all every node gets it, and the source "
	 "is read once. The copy stays while the job lives, and goes later if the room is needed. "
	 "fmove pin keeps one; fmove datasets lists them; fmove unstage removes one.\n"
	 "\n"
	 "staging.directory in fmove.conf says where copies lie. hf:ORG/NAME is a model in the hub "
	 "cache of a node, or else, for you alone, in your own. More: fmove(1), fmove stage."},
	{NULL, NULL},
};
