/* SPDX-License-Identifier: MIT */
/* setup - see setup.h. */
#include "client/cli/setup.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cli/cables.h"
#include "client/cli/cmd.h"
#include "client/cli/undo.h"
#include "config/files.h"
#include "config/keys.h"
#include "config/preflight.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/text.h"

#define STATE_PARENT "/var/lib"
#define STORE_DIR STATE_PARENT "/fmove/data"
#define TEXT_MAX FM_CONFIG_BYTES_MAX

static const char *dir_of(const struct fm_setup *setup)
{
	return setup->dir ? setup->dir : FM_CONFIG_DIR;
}

/*
 * Whether this is the place that packages use. Anywhere else, everything stays beside the
 * configuration.
 */
static bool is_system(const char *dir)
{
	return strcmp(dir, FM_CONFIG_DIR) == 0;
}

int fm_setup_file(const struct fm_setup *setup, char path[static PATH_MAX], struct fm_err *err)
{
	return fm_path_join(dir_of(setup), FM_CONFIG_FILE, path, err);
}

static int add_store_option(struct fm_setup *setup, struct fm_args *args)
{
	const char *equals = strchr(args->value, '=');

	if (!equals || equals == args->value || equals[1] != '/')
		args->status =
			fm_usage(args, "--store %s: must be NAME=DIRECTORY, the directory absolute",
				 args->value);
	else if (setup->store_count == FM_CONFIG_STORES_MAX)
		args->status = fm_usage(args, "more than %d stores", FM_CONFIG_STORES_MAX);
	else
		setup->stores[setup->store_count++] = args->value;
	return args->status;
}

int fm_setup_add_address(struct fm_addresses *addresses, struct fm_args *args)
{
	if (addresses->count == FM_ADDRESSES_MAX)
		return fm_usage(args, "more than %d addresses", FM_ADDRESSES_MAX);
	if (fm_address_complete(args->value, FM_SETUP_PORT, addresses->text[addresses->count]) < 0)
		return fm_usage(args, "--address %s: must be HOST or HOST:PORT", args->value);
	addresses->count++;
	return 0;
}

int fm_setup_parse(struct fm_setup *setup, struct fm_args *args, int min, int max)
{
	int key;

	while ((key = fm_args_next(args)) > 0) {
		switch (key) {
		case FM_SETUP_NODE:
			setup->node = args->value;
			break;
		case FM_SETUP_ADDRESS:
			args->status = fm_setup_add_address(&setup->addresses, args);
			if (args->status != 0)
				return -1;
			break;
		case FM_SETUP_DIR:
			setup->dir = args->value;
			break;
		case FM_SETUP_USER_NAME:
			setup->user = args->value;
			break;
		case FM_SETUP_SYSTEM:
			setup->is_system = true;
			break;
		case FM_SETUP_DRY:
			setup->is_dry = true;
			break;
		case FM_SETUP_JSON:
			setup->is_json = true;
			break;
		case FM_SETUP_TOKEN_FILE:
			setup->token_file = args->value;
			break;
		case FM_SETUP_FIND:
			setup->is_find = true;
			break;
		case FM_SETUP_ANY_PORT:
			setup->is_any_port = true;
			break;
		case FM_SETUP_STORE:
			if (add_store_option(setup, args) != 0)
				return -1;
			break;
		}
	}
	setup->verb = args->cmd->name;
	if (setup->is_system && (setup->dir || setup->user)) {
		args->status = fm_usage(args, "--system is for " FM_CONFIG_DIR
					      " and the user " FM_SERVICE_USER
					      ": leave out --dir and --user");
		return -1;
	}
	return setup->is_find ? fm_args_end(args, 0, 0) : fm_args_end(args, min, max);
}

/* Takes the first label of the machine's name, with '-' for what a name may not hold. */
static int own_name(char *out, size_t max, struct fm_err *err)
{
	if (gethostname(out, max) < 0)
		return fm_err_sys(err, -errno, "the machine's name");
	out[max - 1] = '\0';
	out[strcspn(out, ".")] = '\0';
	for (char *c = out; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *c))
			*c = '-';
	if (!fm_value_is_name(out))
		return fm_err_set(err, -EINVAL,
				  "the machine's name makes no node name: say --node NAME");
	return 0;
}

/* ---- the text ---- */

/* Adds a string as libconfig reads it. */
static void add_string(struct fm_text *t, const char *name, const char *value)
{
	fm_text_add(t, "\t%s = \"", name);
	for (; *value; value++)
		fm_text_add(t, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
	fm_text_add(t, "\";\n");
}

static void print_store(struct fm_text *t, const char *name, const char *directory)
{
	add_string(t, "name", name);
	add_string(t, "directory", directory);
	fm_text_add(t, "\tread = [ \"*\" ];\n\twrite = [ \"*\" ];\n");
}

/*
 * The "NAME=DIR" of the i-th store; if none was given, the default one. DIR is a real path by now.
 */
static void store_at(const struct fm_setup *setup, const char *dir, unsigned i,
		     char name[static FM_VALUE_NAME_MAX + 2], char directory[static PATH_MAX])
{
	const char *equals;

	if (setup->store_count == 0) {
		strcpy(name, "data");
		if (is_system(dir))
			strcpy(directory, STORE_DIR);
		else
			/* fm_setup_write() saw that it fits */
			(void)fm_path_join(dir, "data", directory, NULL);
		return;
	}
	equals = strchr(setup->stores[i], '=');
	snprintf(name, FM_VALUE_NAME_MAX + 2, "%.*s", (int)(equals - setup->stores[i]),
		 setup->stores[i]);
	snprintf(directory, PATH_MAX, "%s", equals + 1);
}

unsigned fm_setup_stores(const struct fm_setup *setup)
{
	return setup->store_count ? setup->store_count : 1;
}

const char *fm_setup_store(const struct fm_setup *setup, unsigned i)
{
	return setup->store_count ? setup->stores[i] : "data=" STORE_DIR;
}

static void print_stores(struct fm_text *t, const struct fm_setup *setup, const char *dir)
{
	char name[FM_VALUE_NAME_MAX + 2], directory[PATH_MAX];

	fm_text_add(t, "\nstores = (");
	for (unsigned i = 0; i < fm_setup_stores(setup); i++) {
		store_at(setup, dir, i, name, directory);
		fm_text_add(t, "%s {\n", i ? "," : "");
		print_store(t, name, directory);
		fm_text_add(t, "}");
	}
	fm_text_add(t, " );\n");
}

/* Prints a proposal: networks are private only if their owner says so at both ends. */
static void print_cables(struct fm_text *t)
{
	struct fm_networks cables;
	char network[FM_NETWORK_TEXT_MAX];

	fm_cables_find(&cables);
	if (cables.count == 0)
		return;
	fm_text_add(
		t,
		"\n# TCP is encrypted. Over the cables of this machine's RDMA ports it need not be "
		"if nobody else can reach them: take away the\n"
		"# '#' below, on both nodes. See ENCRYPTION in fmove.conf(5).\n"
		"#mover = { private_networks = [");
	for (unsigned i = 0; i < cables.count; i++) {
		fm_network_print(&cables.network[i], network);
		fm_text_add(t, "%s \"%s\"", i ? "," : "", network);
	}
	fm_text_add(t, " ]; };\n");
}

static int compose(const struct fm_setup *setup, const char *node, const char *dir, char *out)
{
	struct fm_text t = { .at = out, .left = TEXT_MAX };
	char host[FM_VALUE_HOST_MAX], path[PATH_MAX];
	uint16_t port = FM_SETUP_PORT;
	const char *address = setup->addresses.count > 0 ? setup->addresses.text[0] : NULL;

	if (address)
		/* was looked at when it was said */
		(void)fm_value_address(address, false, host, sizeof(host), &port);
	fm_text_add(&t,
		    "# What else can be said: fmove.conf(5), fmove config example.\nnode = {\n");
	add_string(&t, "name", node);
	fm_text_add(&t, "\tlisten = \"[::]:%u\";\n", port);
	if (address)
		add_string(&t, "address", address);
	if (!is_system(dir)) {
		(void)fm_path_join(dir, "fmoved.sock", path, NULL);	/* as above */
		add_string(&t, "socket", path);
		(void)fm_path_join(dir, "state", path, NULL);
		add_string(&t, "state_directory", path);
	}
	fm_text_add(&t, "};\n");
	print_cables(&t);
	print_stores(&t, setup, dir);
	return t.is_full ? -E2BIG : 0;
}

/* ---- files and directories ---- */

/* Finds the user that fmoved runs as. Only root, or --user, can name another one. */
static int find_owner(const struct fm_setup *setup, struct fm_preflight_user *owner,
		      struct fm_err *err)
{
	const struct passwd *pw = NULL;

	if (setup->user || geteuid() == 0)
		pw = getpwnam(setup->user ? setup->user : FM_SERVICE_USER);
	if (pw) {
		*owner = (struct fm_preflight_user){.uid = pw->pw_uid, .gid = pw->pw_gid};
		(void)snprintf(owner->name, sizeof(owner->name), "%s", pw->pw_name); /* fits */
		return 0;
	}
	if (setup->user)
		return fm_err_set(err, -ENOENT,
				  "--user %s: no such user; useradd --system makes one",
				  setup->user);
	if (geteuid() == 0 && is_system(dir_of(setup)) && fm_preflight_has_unit())
		return fm_err_set(err, -ENOENT,
				  "there is no user " FM_SERVICE_USER
				  ", as whom fmoved.service runs. To mend it: %s; or let fmove "
				  "do all of it: fmove %s --system",
				  fm_preflight_make_user(), setup->verb);
	fm_preflight_self(owner);
	return 0;
}

/*
 * Gives what was made here to the daemon's user. If he owns the directory around it, he can put
 * another thing under its name. So it is given by the descriptor that it was made or opened with.
 */
static int give(int fd, const char *path, const struct fm_preflight_user *owner,
		struct fm_err *err)
{
	if (owner->uid == geteuid() && owner->gid == getegid())
		return 0;
	if (fchownat(fd, "", owner->uid, owner->gid, AT_EMPTY_PATH) < 0)
		return fm_err_sys(err, -errno, "chown %s", path);
	return 0;
}

int fm_setup_daemons_dir(const struct fm_config *cfg, const char *name, mode_t mode,
			 bool is_written, struct fm_err *err)
{
	struct fm_preflight_user owner = { .uid = 0 };
	struct fm_undo undo = { 0 };
	char path[PATH_MAX];
	struct stat st;
	int fd, ret = fm_path_join(cfg->dir, name, path, err);

	if (ret < 0)
		return ret;
	if (stat(cfg->node.key_file, &st) < 0)
		return fm_err_sys(err, -errno, "%s", cfg->node.key_file);
	owner.uid = st.st_uid;
	owner.gid = st.st_gid;
	ret = fm_undo_dir_make(&undo, path, mode, &fd, err);
	fm_undo_forget(&undo);
	if (ret == 0 && fd >= 0) {
		ret = give(fd, path, &owner, err);
		(void)close(fd);	/* only named */
		return ret;
	}
	if (ret < 0)
		return ret;
	if (stat(path, &st) < 0)
		return fm_err_sys(err, -errno, "%s", path);
	if (!is_written || st.st_uid == owner.uid || owner.uid == 0)
		return 0;
	return fm_err_set(err, -EPERM,
			  "%s belongs to uid %u, so fmoved, which has the key as uid %u, cannot "
			  "write there: chown %u %s",
			  path, (unsigned)st.st_uid, (unsigned)owner.uid, (unsigned)owner.uid,
			  path);
}

/* What is being made, for whom, and what of it would have to go again. */
struct making {
	const struct fm_setup *setup;
	const char *dir;		/* a real path */
	int dir_fd;			/* of it (O_PATH) */
	bool is_dir_given;		/* it becomes the daemon's user's */
	bool is_dir_found;		/* it is given, and was not made here */
	struct stat dir_was;		/* of one that was found: whose it was */
	struct fm_preflight_user owner;
	struct fm_undo *undo;
};

/* Makes a directory of the daemon. One that exists stays as it is. */
static int make_dir(struct making *m, const char *path, mode_t mode, struct fm_err *err)
{
	int fd, ret = fm_undo_dir_make(m->undo, path, mode, &fd, err);

	if (ret == 0 && fd >= 0)
		ret = give(fd, path, &m->owner, err);
	if (fd >= 0)
		(void)close(fd);	/* only named */
	return ret;
}

/*
 * Gives a file that was just made in the configuration's directory. It is looked up in that, as it
 * was opened, so what another directory has by that name is not given.
 */
static int give_file(const struct making *m, const char *name, struct fm_err *err)
{
	int fd = openat(m->dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), ret;
	struct stat st;

	if (fd < 0)
		return fm_err_sys(err, -errno, "open %s/%s", m->dir, name);
	if (fstat(fd, &st) < 0)
		ret = fm_err_sys(err, -errno, "look at %s/%s", m->dir, name);
	else if (st.st_uid == m->owner.uid && st.st_gid == m->owner.gid)
		ret = 0;
	else if (st.st_uid != geteuid() || !S_ISREG(st.st_mode) || st.st_nlink != 1)
		ret = fm_err_set(err, -EPERM, "%s/%s is not what was made there just now", m->dir,
				 name);
	else
		ret = give(fd, name, &m->owner, err);
	(void)close(fd);	/* only named */
	return ret;
}

static int make_dirs(struct making *m, struct fm_err *err)
{
	char name[FM_VALUE_NAME_MAX + 2], path[PATH_MAX];
	int ret;

	ret = fm_path_join(m->dir, FM_CONFIG_PEERS_DIR, path, err);
	if (ret == 0)
		ret = make_dir(m, path, 0755, err);
	if (ret == 0)
		ret = fm_path_join(m->dir, FM_CONFIG_INVITES_DIR, path, err);
	if (ret == 0)
		ret = make_dir(m, path, 0700, err);
	if (ret == 0)
		ret = fm_path_join(is_system(m->dir) ? STATE_PARENT : m->dir,
				   is_system(m->dir) ? "fmove" : "state", path, err);
	if (ret == 0)
		/* the unit makes it, too; who starts fmoved without systemd needs it */
		ret = make_dir(m, path, is_system(m->dir) ? 0755 : 0700, err);
	for (unsigned i = 0; ret == 0 && i < fm_setup_stores(m->setup); i++) {
		store_at(m->setup, m->dir, i, name, path);
		ret = make_dir(m, path, 0755, err);
	}
	return ret;
}

/*
 * A link that leads nowhere is there, too: what it leads to may be on a volume that is not mounted
 * just now.
 */
static int refuse_existing(const char *dir, struct fm_err *err)
{
	static const char *const names[] = { FM_CONFIG_FILE, "node.key" };
	char path[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int ret = fm_path_join(dir, names[i], path, err);

		if (ret < 0)
			return ret;
		if (stat(path, &st) == 0)
			return fm_err_set(err, -EEXIST,
					  "%s is there already, and nothing is overwritten; "
					  "\"fmove invite\" and \"fmove join\" work with it, --dir "
					  "makes another",
					  path);
		if (lstat(path, &st) == 0)
			return fm_err_set(err, -EEXIST,
					  "%s is a link to what is not there now: mount or make "
					  "that, or remove the link",
					  path);
		if (errno != ENOENT && errno != ENOTDIR)	/* the latter is told of later */
			return fm_err_sys(err, -errno, "%s", path);
	}
	return 0;
}

/* Makes the key, and takes it away again if that fails from here on. */
static int make_key(struct making *m, uint8_t key[static FM_CONFIG_KEY_LEN], struct fm_err *err)
{
	char path[PATH_MAX];
	int ret = fm_path_join(m->dir, "node.key", path, err);

	if (ret == 0)
		ret = fm_undo_file(m->undo, m->dir_fd, "node.key", err);
	if (ret == 0)
		ret = fm_key_generate(path, key, err);
	if (ret < 0)
		return ret;
	fm_undo_made(m->undo);
	return give_file(m, "node.key", err);
}

static int make_config(struct making *m, const char *text, struct fm_err *err)
{
	char path[PATH_MAX];
	struct fm_file_write how = { .path = path, .mode = 0644 };
	int ret = fm_path_join(m->dir, FM_CONFIG_FILE, path, err);

	if (ret == 0)
		ret = fm_undo_file(m->undo, m->dir_fd, FM_CONFIG_FILE, err);
	if (ret == 0)
		ret = fm_file_write(&how, text, err);
	if (ret < 0)
		return ret;
	fm_undo_made(m->undo);
	return m->is_dir_given ? give_file(m, FM_CONFIG_FILE, err) : 0;
}

static bool has_only_key(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool is_so = dir;

	if (!dir && fd >= 0)
		(void)close(fd);	/* nothing was read */
	while (is_so && (entry = readdir(dir)) != NULL)
		is_so = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			strcmp(entry->d_name, "node.key") == 0;
	if (dir)
		(void)closedir(dir);
	return is_so;
}

/*
 * Whether the words of --dir lead to the directory without a link. Who owns a link on the way chose
 * the directory, and might be given any that is root's and empty.
 */
static bool is_dir_said(const struct making *m)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, dir_of(m->setup), &how, sizeof(how));
	struct stat st;
	bool is_so = fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == m->dir_was.st_dev &&
		     st.st_ino == m->dir_was.st_ino;

	if (fd >= 0)
		(void)close(fd);	/* only named */
	return is_so;
}

/*
 * Of two that begin at once, one may have made the directory and the other the key. The key's maker
 * goes on, so it also gives a directory that is ours and has nothing else in it.
 */
static void take_dir(struct making *m)
{
	m->is_dir_found = !m->is_dir_given && !is_system(m->dir) &&
			  fstat(m->dir_fd, &m->dir_was) == 0 && m->dir_was.st_uid == geteuid() &&
			  is_dir_said(m) && has_only_key(m->dir_fd);
	m->is_dir_given |= m->is_dir_found;
}

/*
 * The key first: of two that begin at once, one makes it, and the other has made nothing yet that
 * it would take away. The directory around all is given last: until then nobody else can change
 * names in it.
 */
static int write_node(struct making *m, const char *text, uint8_t key[static FM_CONFIG_KEY_LEN],
		      struct fm_err *err)
{
	int ret = make_key(m, key, err);

	if (ret == 0)
		take_dir(m);
	if (ret == 0)
		ret = make_dirs(m, err);
	if (ret == 0)
		ret = make_config(m, text, err);
	if (ret == 0 && m->is_dir_given)
		ret = give(m->dir_fd, m->dir, &m->owner, err);
	return ret;
}

/* Checks everything as the daemon would, before anything is written. */
static int check_text(const char *file, const char *text, struct fm_err *err)
{
	struct fm_config *cfg;
	int ret = fm_config_load_string(text, strlen(text), file, &cfg, err);

	if (ret == 0)
		fm_config_free(cfg);
	return ret;
}

static int write_checked(struct making *m, const char *node, uint8_t key[static FM_CONFIG_KEY_LEN],
			 struct fm_err *err)
{
	char *text = malloc(TEXT_MAX);
	int ret;

	if (!text)
		return fm_err_set(err, -ENOMEM, "out of memory");
	ret = compose(m->setup, node, m->dir, text);
	if (ret < 0)
		fm_err_sys(err, ret, "the configuration");
	else
		ret = check_text(FM_CONFIG_FILE, text, err);
	if (ret == 0)
		ret = write_node(m, text, key, err);
	free(text);
	return ret;
}

/*
 * Reports, line by line, what the daemon could not do. If it is more than warnings, nothing is
 * written.
 */
static int fly(const struct making *m, const struct fm_config *cfg, struct fm_err *err)
{
	char line[2 * FM_PREFLIGHT_MEND_MAX];
	struct fm_preflight *found;
	unsigned faults = 0;
	int ret = fm_preflight_run(cfg, &m->owner, &found, err);

	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < found->count; i++) {
		fm_preflight_print(&found->fault[i], line, sizeof(line));
		fm_say("%s: %s", found->fault[i].is_borne ? "warning" : m->setup->verb, line);
		faults += !found->fault[i].is_borne;
	}
	fm_preflight_free(found);
	if (faults == 0)
		return 0;
	return fm_err_set(err, -EACCES,
			  "fmoved could not work with this, so nothing was written; mend it, and "
			  "say the same again");
}

/* Opens the configuration's directory, which is made if it is not there. */
static int open_dir(struct making *m, char real[static PATH_MAX], struct fm_err *err)
{
	const char *dir = dir_of(m->setup);
	int ret = fm_undo_dir_make(m->undo, dir, 0755, &m->dir_fd, err);

	if (ret < 0)
		return ret;
	/* with the system's own, root's, the daemon's socket goes into one of its own */
	m->is_dir_given = m->dir_fd >= 0 && !is_system(dir);
	if (m->dir_fd < 0)
		m->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (m->dir_fd < 0 || !realpath(dir, real))
		return fm_err_sys(err, -errno, "%s", dir);
	return 0;
}

static int write_all(struct making *m, const char *node, struct fm_config **cfg,
		     uint8_t key[static FM_CONFIG_KEY_LEN], struct fm_err *err)
{
	char dir[PATH_MAX], path[PATH_MAX];
	int ret = open_dir(m, dir, err);

	if (ret < 0)
		return ret;
	m->dir = dir;
	/* the longest of the names that follow */
	ret = fm_path_join(dir, "fmoved.sock", path, err);
	if (ret == 0)
		ret = write_checked(m, node, key, err);
	if (ret == 0)
		ret = fm_path_join(dir, FM_CONFIG_FILE, path, err);
	if (ret == 0)
		ret = fm_config_load(path, cfg, err);
	if (ret < 0)
		return ret;
	ret = fly(m, *cfg, err);
	if (ret < 0)
		fm_config_free(*cfg);
	return ret;
}

int fm_setup_write(const struct fm_setup *setup, struct fm_undo *undo, struct fm_config **cfg,
		   uint8_t key[static FM_CONFIG_KEY_LEN], struct fm_err *err)
{
	struct making m = { .setup = setup, .dir_fd = -1, .undo = undo };
	char node[FM_VALUE_NAME_MAX + 1];
	int ret = refuse_existing(dir_of(setup), err);

	if (ret == 0 && !setup->node)
		ret = own_name(node, sizeof(node), err);
	if (ret == 0)
		ret = find_owner(setup, &m.owner, err);
	if (ret == 0)
		ret = write_all(&m, setup->node ? setup->node : node, cfg, key, err);
	if (ret < 0 && m.is_dir_found)	/* the first error is the one to tell */
		(void)fchownat(m.dir_fd, "", m.dir_was.st_uid, m.dir_was.st_gid, AT_EMPTY_PATH);
	if (m.dir_fd >= 0)
		(void)close(m.dir_fd);	/* only named */
	if (ret < 0)
		fm_undo_all(undo);
	return ret;
}

/* ---- said again ---- */

static bool has_store(const struct fm_config *cfg, const char *text)
{
	size_t len = strcspn(text, "=");

	for (unsigned i = 0; i < cfg->store_count; i++)
		if (strlen(cfg->stores[i].name) == len &&
		    strncmp(cfg->stores[i].name, text, len) == 0 &&
		    strcmp(cfg->stores[i].directory, text + len + 1) == 0)
			return true;
	return false;
}

static bool is_of_user(const struct fm_config *cfg, const char *user)
{
	const struct passwd *pw = getpwnam(user);
	struct stat st;

	return pw && stat(cfg->node.key_file, &st) == 0 && st.st_uid == pw->pw_uid;
}

int fm_setup_agrees(const struct fm_setup *setup, const struct fm_config *cfg, struct fm_err *err)
{
	const char *other = NULL;

	if (setup->node && strcmp(setup->node, cfg->node.name) != 0)
		other = "--node";
	if (setup->addresses.count > 0 &&
	    strcmp(setup->addresses.text[0], cfg->node.address) != 0)
		other = "--address";
	if (setup->user && !is_of_user(cfg, setup->user))
		other = "--user";
	for (unsigned i = 0; i < setup->store_count; i++)
		if (!has_store(cfg, setup->stores[i]))
			other = "--store";
	if (!other)
		return 0;
	return fm_err_set(err, -EEXIST,
			  "%s is there already, and does not say what %s does: change it there, "
			  "and join without %s",
			  cfg->file, other, other);
}

bool fm_setup_is_started(const struct fm_setup *setup)
{
	return setup->is_system && fm_preflight_is_booted();
}

void fm_setup_start_line(const struct fm_config *cfg, char *out, size_t max)
{
	const struct passwd *pw = NULL;
	struct stat st;

	if (is_system(cfg->dir) && fm_preflight_is_booted() && fm_preflight_has_unit()) {
		snprintf(out, max, "systemctl enable --now fmoved");
		return;
	}
	if (stat(cfg->node.key_file, &st) == 0 && st.st_uid != geteuid())
		pw = getpwuid(st.st_uid);
	if (pw)	/* the key is the daemon's user's alone, and we are root */
		snprintf(out, max, "setpriv --reuid %s --regid %u --init-groups fmoved --config %s",
			 pw->pw_name, (unsigned)pw->pw_gid, cfg->file);
	else
		snprintf(out, max, "fmoved --config %s", cfg->file);
}

void fm_setup_say_group(const struct fm_config *cfg)
{
	const char *user = getenv("SUDO_USER");

	if (geteuid() != 0 || !is_system(cfg->dir) || !getgrnam(FM_SERVICE_USER))
		return;
	fm_say("Who uses fmove here is root or in the group " FM_SERVICE_USER
	       ": usermod -aG " FM_SERVICE_USER " %s (counts from the next login)",
	       user && strcmp(user, "root") != 0 ? user : "USER");
}
