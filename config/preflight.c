/* SPDX-License-Identifier: MIT */
/* preflight - see preflight.h. What is found goes through memory that a child shares with us. */
#include "config/preflight.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <mntent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/files.h"
#include "config/keys.h"
#include "config/own_dirs.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/mount_of.h"
#include "mover/base/shell.h"
#include "mover/base/users.h"

#define QUOTED_MAX PATH_MAX
#define UNIT_DROP_INS "/etc/systemd/system/fmoved.service.d"
/* systemd makes these, and gives them to the user, at each start of the unit */
#define UNIT_STATE_DIR "/var/lib/fmove"
#define UNIT_RUNTIME_DIR "/run/fmove"

struct trial {
	const struct fm_config *cfg;
	const struct fm_preflight_user *user;
	struct fm_preflight *found;
};

/* ---- the service ---- */

static const char *const unit_dirs[] = {
	"/etc/systemd/system",
	"/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system",
	"/lib/systemd/system",
};

bool fm_preflight_is_booted(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

bool fm_preflight_has_unit(void)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(unit_dirs) / sizeof(unit_dirs[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/fmoved.service", unit_dirs[i]); /* fits */
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

const char *fm_preflight_make_user(void)
{
	if (access("/usr/local/lib/sysusers.d/fmove.conf", F_OK) == 0 ||
	    access("/usr/lib/sysusers.d/fmove.conf", F_OK) == 0)
		return "systemd-sysusers fmove.conf";
	return "useradd --system --user-group --home-dir /var/lib/fmove --shell /usr/sbin/nologin "
	       FM_SERVICE_USER;
}

static bool is_the_services(const struct fm_config *cfg)
{
	return strcmp(cfg->dir, FM_CONFIG_DIR) == 0;
}

static void take_user(uid_t uid, gid_t gid, struct fm_preflight_user *out)
{
	*out = (struct fm_preflight_user){.uid = uid, .gid = gid};
	if (!fm_users_name(uid, out->name, sizeof(out->name), &out->gid))
		(void)snprintf(out->name, sizeof(out->name), "%u", (unsigned)uid);	/* fits */
}

void fm_preflight_self(struct fm_preflight_user *out)
{
	take_user(geteuid(), getegid(), out);
}

int fm_preflight_user(const struct fm_config *cfg, struct fm_preflight_user *out,
		      struct fm_err *err)
{
	struct stat st;
	uid_t uid;
	gid_t gid;

	fm_preflight_self(out);
	if (geteuid() != 0)
		return 0;
	if (stat(cfg->node.key_file, &st) == 0)
		take_user(st.st_uid, st.st_gid, out);
	if (out->uid != 0 || !is_the_services(cfg) || !fm_preflight_has_unit())
		return 0;
	if (!fm_users_find(FM_SERVICE_USER, &uid, &gid))
		return fm_err_set(err, -ENOENT,
				  "there is no user " FM_SERVICE_USER ", as whom fmoved.service "
				  "runs. To mend it: %s",
				  fm_preflight_make_user());
	take_user(uid, gid, out);
	return 0;
}

/* ---- what is found ---- */

/*
 * Whether a fault with the same remedy was found already. One closed directory is in the way of
 * everything in it, and is reported once.
 */
static bool is_mended_already(const struct fm_preflight *found, const char *mend)
{
	for (unsigned i = 0; i < found->count; i++)
		if (mend[0] && strcmp(found->fault[i].mend, mend) == 0)
			return true;
	return false;
}

static void found(struct trial *t, const char *what, const char *mend_fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void found(struct trial *t, const char *what, const char *mend_fmt, ...)
{
	struct fm_preflight_fault *fault;
	va_list args;

	assert(t->found->count < FM_PREFLIGHT_FAULTS_MAX);
	fault = &t->found->fault[t->found->count];
	(void)snprintf(fault->what, sizeof(fault->what), "%s", what);	/* cut if it is too long */
	va_start(args, mend_fmt);
	if (vsnprintf(fault->mend, sizeof(fault->mend), mend_fmt, args) >=
	    (int)sizeof(fault->mend))
		fault->mend[0] = '\0';	/* a line that is cut would be another one */
	va_end(args);
	if (!is_mended_already(t->found, fault->mend))
		t->found->count++;
}

/* Finds the first part of the path that the user may not search. false: there is none. */
static bool find_closed(const char *path, char out[static PATH_MAX])
{
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(out, PATH_MAX, "%.*s", (int)(slash - path), path);
		if (access(out, X_OK) < 0 && errno == EACCES)
			return true;
	}
	return false;
}

/* Finds where the file system is mounted that the path is in. */
static void find_mount(const char *path, char out[static PATH_MAX])
{
	struct statx st;
	char *slash;

	(void)snprintf(out, PATH_MAX, "%s", path);
	while (strcmp(out, "/") != 0 && statx(AT_FDCWD, out, 0, STATX_TYPE, &st) == 0 &&
	       !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT)) {
		slash = strrchr(out, '/');
		slash[slash == out] = '\0';
	}
}

/*
 * Reports the command that lets the user write to an existing directory. A directory of root is
 * given to the user; one of another user stays his, with an ACL.
 */
static void mend_rights(struct trial *t, const char *what, const char *path)
{
	const char *user = t->user->name;
	char part[PATH_MAX], quoted[QUOTED_MAX];
	struct stat st;

	if (find_closed(path, part))
		found(t, what, "setfacl -m u:%s:x %s", user,
		      fm_shell_quote(part, quoted, sizeof(quoted)));
	else if (stat(path, &st) == 0 && st.st_uid == 0)
		found(t, what, "chown %s: %s", user, fm_shell_quote(path, quoted, sizeof(quoted)));
	else
		found(t, what, "setfacl -m u:%s:rwx,d:u:%s:rwx %s", user, user,
		      fm_shell_quote(path, quoted, sizeof(quoted)));
}

/* Whether ProtectSystem=full of the unit forbids writing there. */
static bool is_closed_by_unit(const struct trial *t, const char *path)
{
	static const char *const closed[] = { "/usr/", "/boot/", "/efi/", "/etc/" };

	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
		if (strncmp(path, closed[i], strlen(closed[i])) == 0)
			return is_the_services(t->cfg) && fm_preflight_has_unit();
	return false;
}

static void mend_unit(struct trial *t, const char *what, const char *path)
{
	char quoted[QUOTED_MAX];

	found(t, what,
	      "mkdir -p " UNIT_DROP_INS " && printf '[Service]\\nReadWritePaths=%%s\\n' %s >"
	      UNIT_DROP_INS "/stores.conf && systemctl daemon-reload",
	      fm_shell_quote(path, quoted, sizeof(quoted)));
}

static void cannot(struct trial *t, const char *whose, const char *verb, const char *path, int code)
{
	char what[FM_PREFLIGHT_MEND_MAX], part[PATH_MAX], quoted[QUOTED_MAX];

	(void)snprintf(what, sizeof(what), "%s: fmoved, as user %s, cannot %s %s: %s", whose,
		       t->user->name, verb, path, fm_err_name(code));	/* cut if too long */
	switch (-code) {
	case ENOENT:
		found(t, what, "install -d -o %s -g %u %s", t->user->name, (unsigned)t->user->gid,
		      fm_shell_quote(path, quoted, sizeof(quoted)));
		break;
	case EROFS:
		if (is_closed_by_unit(t, path)) {
			mend_unit(t, what, path);
			break;
		}
		find_mount(path, part);
		found(t, what, "mount -o remount,rw %s",
		      fm_shell_quote(part, quoted, sizeof(quoted)));
		break;
	case EACCES:
	case EPERM:
		mend_rights(t, what, path);
		break;
	default:
		found(t, what, "%s", "");
		break;
	}
}

/* ---- what is tried ---- */

/*
 * Tries to create a file without a name. Where the file system has none, it has a name that no
 * store shows.
 */
static int try_create(int dir)
{
	char name[48];
	int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0 && errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	if (fd < 0) {
		(void)snprintf(name, sizeof(name), ".fmove.check.%ld", (long)getpid()); /* fits */
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		(void)unlinkat(dir, name, 0);	/* ours alone, and empty */
	}
	close(fd);
	return 0;
}

static void try_dir(struct trial *t, const char *whose, const char *path, bool is_written)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret;

	if (dir < 0) {
		cannot(t, whose, "read", path, -errno);
		return;
	}
	ret = is_written ? try_create(dir) : 0;
	close(dir);
	if (ret < 0)
		cannot(t, whose, "write to", path, ret);
}

/*
 * Tries a directory that fmoved makes when it is missing. If it is, the directory is tried in which
 * it would be made.
 */
static void try_own_dir(struct trial *t, const char *whose, const char *path)
{
	char parent[PATH_MAX];
	char *slash;
	int dir;

	(void)snprintf(parent, sizeof(parent), "%s", path);
	while (access(parent, F_OK) < 0 && errno == ENOENT && strcmp(parent, "/") != 0) {
		slash = strrchr(parent, '/');
		slash[slash == parent] = '\0';
	}
	if (strcmp(parent, path) == 0) {
		try_dir(t, whose, path, true);
		return;
	}
	dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || try_create(dir) < 0)
		cannot(t, whose, "make", path, -ENOENT);
	if (dir >= 0)
		close(dir);
}

static bool is_in(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Finds what /etc/fstab would have mounted on the way to the path, and is not mounted. */
static bool find_unmounted(const char *path, char out[static PATH_MAX])
{
	FILE *fstab = setmntent("/etc/fstab", "re");
	size_t most = fm_mount_len(path);
	const struct mntent *entry;
	bool is_found = false;

	while (fstab && (entry = getmntent(fstab)) != NULL) {
		if (!is_in(path, entry->mnt_dir) || strlen(entry->mnt_dir) <= most)
			continue;
		is_found = true;
		most = strlen(entry->mnt_dir);
		(void)snprintf(out, PATH_MAX, "%s", entry->mnt_dir);	/* a part of path */
	}
	if (fstab)
		(void)endmntent(fstab);
	return is_found;
}

/* What is stored now would lie beneath the mount point. fmoved goes where the path leads later. */
static void try_mounted(struct trial *t, const char *whose, const char *path)
{
	char what[FM_PREFLIGHT_MEND_MAX], point[PATH_MAX], quoted[QUOTED_MAX];
	unsigned before = t->found->count;

	if (!find_unmounted(path, point))
		return;
	(void)snprintf(what, sizeof(what), "%s: %.500s of /etc/fstab is not mounted: until it is, "
		       "what is stored lies beneath it", whose, point);
	found(t, what, "mount %s", fm_shell_quote(point, quoted, sizeof(quoted)));
	if (t->found->count > before)
		t->found->fault[before].is_borne = true;
}

static void try_store(struct trial *t, const struct fm_config_store *store)
{
	char whose[PATH_MAX + FM_VALUE_NAME_MAX + 32], what[FM_PREFLIGHT_MEND_MAX];
	bool is_written = store->write[0], is_open = !is_closed_by_unit(t, store->directory);
	struct fm_err err;

	if (store->directory[0] != '/')
		return;
	if (fm_own_dirs_try(t->cfg, store, &err) < 0)
		found(t, err.text, "%s", "");
	(void)snprintf(whose, sizeof(whose), "%s:%u: store \"%s\"", store->file, store->line,
		       store->name);	/* fits */
	if (!store->volume[0])
		try_mounted(t, whose, store->directory);
	/* from within the unit the try itself shows whether a drop-in opened it */
	if (is_written && !is_open && access(UNIT_DROP_INS, F_OK) < 0) {
		(void)snprintf(what, sizeof(what),
			       "%s: fmoved.service may not write below /usr, /boot and /etc: %s",
			       whose, store->directory);
		mend_unit(t, what, store->directory);
		is_written = false;
	}
	try_dir(t, whose, store->directory, is_written);
}

static void try_key(struct trial *t)
{
	const char *path = t->cfg->node.key_file;
	uint8_t key[FM_CONFIG_KEY_LEN];
	char part[PATH_MAX], quoted[QUOTED_MAX];
	struct fm_err err = { 0 };

	if (fm_key_read(path, key, &err) == 0)
		return;
	fm_shell_quote(path, quoted, sizeof(quoted));
	if (err.code == -EACCES && find_closed(path, part))
		mend_rights(t, err.text, path);
	else if (err.code == -EACCES)
		found(t, err.text, "chown %s: %s && chmod 0400 %s", t->user->name, quoted, quoted);
	else if (err.code == -ENOENT)
		found(t, err.text, "fmove keygen %s", quoted);
	else
		found(t, err.text, "%s", "");
}

static void try_group(struct trial *t)
{
	const char *group = t->cfg->node.socket_group;
	char what[256];
	gid_t gid;

	if (!group[0] || fm_users_find_group(group, &gid))
		return;
	(void)snprintf(what, sizeof(what), "node.socket_group: this machine has no group \"%s\"",
		       group);	/* fits */
	found(t, what, "groupadd %s", group);
}

static void try_sockets(struct trial *t)
{
	char what[700];
	uid_t uid;
	gid_t gid;

	for (unsigned i = 0; i < t->cfg->socket_count; i++) {
		const struct fm_config_socket *s = &t->cfg->sockets[i];

		(void)snprintf(what, sizeof(what), "sockets.user: this machine has no user \"%s\"",
			       s->user);	/* fits */
		if (!fm_users_find(s->user, &uid, &gid))
			found(t, what, "useradd %s", s->user);
		(void)snprintf(what, sizeof(what),
			       "sockets.group: this machine has no group \"%s\"", s->group);
		if (s->group[0] && !fm_users_find_group(s->group, &gid))
			found(t, what, "groupadd %s", s->group);
	}
}

/*
 * Tries the two directories that a joining node is written to. A node that has no directory of
 * invitations lets nobody join.
 */
static void try_invites(struct trial *t)
{
	char invites[PATH_MAX], peers[PATH_MAX];

	if (fm_path_join(t->cfg->dir, FM_CONFIG_INVITES_DIR, invites, NULL) < 0 ||
	    fm_path_join(t->cfg->dir, FM_CONFIG_PEERS_DIR, peers, NULL) < 0 ||
	    access(invites, F_OK) < 0)
		return;
	try_dir(t, "invitations", invites, true);
	if (access(peers, F_OK) == 0)
		try_dir(t, "peers", peers, true);
}

/*
 * Tries the limit of locked memory. The unit has none; fmoved without the unit has the limit of
 * this process.
 */
static void try_memlock(struct trial *t)
{
	char limit_text[FM_VALUE_TEXT_MAX], need_text[FM_VALUE_TEXT_MAX], what[256];
	struct rlimit limit;

	if (t->user->uid == 0 || (is_the_services(t->cfg) && fm_preflight_has_unit()) ||
	    getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_max == RLIM_INFINITY ||
	    limit.rlim_max >= t->cfg->memory.arena_bytes)
		return;
	fm_value_size_print(limit.rlim_max, limit_text);
	fm_value_size_print(t->cfg->memory.arena_bytes, need_text);
	(void)snprintf(what, sizeof(what),
		       "memlock: user %s may lock %s of memory, RDMA and io_uring's fixed buffers "
		       "need %s and more",
		       t->user->name, limit_text, need_text);	/* fits */
	found(t, what, "echo '%s - memlock unlimited' >>/etc/security/limits.conf",
	      t->user->name);
	t->found->fault[t->found->count - 1].is_borne = true;
}

/* Whether systemd makes the directory: StateDirectory= or RuntimeDirectory= of the unit. */
static bool is_made_by_unit(const struct fm_config *cfg, const char *path)
{
	return is_the_services(cfg) && fm_preflight_has_unit() &&
	       (strcmp(path, UNIT_STATE_DIR) == 0 || strcmp(path, UNIT_RUNTIME_DIR) == 0);
}

static void try_node(struct trial *t)
{
	const char *state = t->cfg->node.state_directory;
	char runtime[PATH_MAX];

	if (state[0] == '/' && !is_made_by_unit(t->cfg, state))
		try_own_dir(t, "node.state_directory", state);
	(void)snprintf(runtime, sizeof(runtime), "%s", t->cfg->node.socket);
	*strrchr(runtime, '/') = '\0';
	if (runtime[0] && !is_made_by_unit(t->cfg, runtime))
		try_own_dir(t, "node.socket", runtime);
}

static void try_all(struct trial *t)
{
	const struct fm_config *cfg = t->cfg;

	try_key(t);
	for (unsigned i = 0; i < cfg->store_count; i++)
		try_store(t, &cfg->stores[i]);
	try_node(t);
	if (cfg->staging.directory[0] == '/')
		try_own_dir(t, "staging.directory", cfg->staging.directory);
	try_invites(t);
	try_group(t);
	try_sockets(t);
	try_memlock(t);
}

/* ---- as another user ---- */

static int become(const struct fm_preflight_user *user)
{
	if (initgroups(user->name, user->gid) < 0 && setgroups(0, NULL) < 0)
		return -errno;
	if (setgid(user->gid) < 0 || setuid(user->uid) < 0)
		return -errno;
	return 0;
}

/* Who does not answer keeps no process behind when we end: a change of the user undoes this. */
static void end_with_parent(void)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);	/* it does not fail */
}

/* Runs the trial in a process that has become the user. The process ends with an errno. */
static int try_as_other(struct trial *t)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int ret;

		end_with_parent();
		ret = become(t->user);
		end_with_parent();
		if (ret == 0)
			try_all(t);
		_exit(-ret);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

int fm_preflight_run(const struct fm_config *cfg, const struct fm_preflight_user *user,
		     struct fm_preflight **out, struct fm_err *err)
{
	struct trial t = { .cfg = cfg, .user = user };
	int ret = 0;

	t.found = mmap(NULL, sizeof(*t.found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (t.found == MAP_FAILED)
		return fm_err_sys(err, -errno, "memory for what is tried");
	if (user->uid == geteuid())
		try_all(&t);
	else
		ret = try_as_other(&t);
	if (ret < 0) {
		fm_preflight_free(t.found);
		return fm_err_sys(err, ret, "become user %s", user->name);
	}
	*out = t.found;
	return 0;
}

void fm_preflight_print(const struct fm_preflight_fault *fault, char *out, size_t max)
{
	(void)snprintf(out, max, "%s%s%s", fault->what, fault->mend[0] ? ". To mend it: " : "",
		       fault->mend);	/* cut to max */
}

void fm_preflight_free(struct fm_preflight *found)
{
	if (found)
		munmap(found, sizeof(*found));
}
