/* SPDX-License-Identifier: MIT */
/* links: fm_cli fm_nvmed */
/*
 * test_units - names as systemd escapes them, mount options as the guard decides them, and files of
 * somebody else's that stay as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/unit_files.h"
#include "client/cli/units.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/unit_name.h"
#include "nvmetcp/daemon/volumes.h"
#include "nvmetcp/guard.h"
#include "nvmetcp/mounts.h"
#include "tests/fm_test.h"

#define UUID "5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b"
#define NGUID "0123456789abcdef0123456789abcdef"

/* ---- names ---- */

static const struct escaped {
	const char *path;
	const char *name;	/* NULL: refused */
} names[] = {
	{ "/srv/data", "srv-data" },
	{ "/", "-" },
	{ "", "-" },
	{ "//", "-" },
	{ "/.", "-" },
	{ "/a", "a" },
	{ "//a///b/", "a-b" },
	{ "/a/./b/.", "a-b" },
	{ "./a", "a" },
	{ "/.hidden/.x", "\\x2ehidden-.x" },
	{ "/./.hidden", "\\x2ehidden" },
	{ "/a.b", "a.b" },
	{ "/...", "\\x2e.." },
	{ "/..a", "\\x2e.a" },
	{ "/my-data", "my\\x2ddata" },
	{ "/-", "\\x2d" },
	{ "/a b", "a\\x20b" },
	{ "/a\\b", "a\\x5cb" },
	{ "/a:b_c", "a:b_c" },
	{ "/a@b%c", "a\\x40b\\x25c" },
	{ "/Daten/\xc3\xbc", "Daten-\\xc3\\xbc" },
	{ "/a'b\"c~", "a\\x27b\\x22c\\x7e" },
	{ "/..", NULL },
	{ "/a/../b", NULL },
	{ "../a", NULL },
};

static void test_paths_are_escaped(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char out[FM_UNIT_NAME_MAX] = "";
		int len = fm_unit_escape_path(names[i].path, out, sizeof(out));

		if (!names[i].name) {
			CU_ASSERT_EQUAL(len, -EINVAL);
			continue;
		}
		CU_ASSERT_EQUAL(len, (int)strlen(names[i].name));
		CU_ASSERT_STRING_EQUAL(out, names[i].name);
	}
}

static void test_what_does_not_fit_is_an_error(void)
{
	char out[5];

	CU_ASSERT_EQUAL(fm_unit_escape_path("/abcd", out, sizeof(out)), 4);
	CU_ASSERT_STRING_EQUAL(out, "abcd");
	CU_ASSERT_EQUAL(fm_unit_escape_path("/abcde", out, sizeof(out)), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(fm_unit_escape_path("/a/-", out, sizeof(out)), -ENAMETOOLONG);
	CU_ASSERT_EQUAL(fm_unit_escape_path("/", out, 2), 1);
	CU_ASSERT_EQUAL(fm_unit_escape_path("/", out, 1), -ENAMETOOLONG);
}

/* Its output for these paths (NULL ends them) without the line's end, or false: it refused. */
static bool systemd_escape(const char *const *paths, char *out, size_t cap)
{
	const char *argv[4 + 256] = { "systemd-escape", "--path", "--" };
	int pipes[2], status;
	ssize_t got, len = 0;
	pid_t child;

	for (size_t i = 0; paths[i]; i++)
		argv[3 + i] = paths[i];
	CU_ASSERT_EQUAL_FATAL(pipe2(pipes, O_CLOEXEC), 0);
	child = fork();
	CU_ASSERT_TRUE_FATAL(child >= 0);
	if (child == 0) {
		(void)dup2(pipes[1], STDOUT_FILENO);
		(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		execvp(argv[0], (char **)(uintptr_t)argv);
		_exit(127);
	}
	close(pipes[1]);
	while ((got = read(pipes[0], out + len, cap - 1 - (size_t)len)) > 0)
		len += got;
	close(pipes[0]);
	CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
	out[len > 0 ? len - 1 : 0] = '\0';
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool systemd_escape_one(const char *path, char *out, size_t cap)
{
	return systemd_escape((const char *const[]){ path, NULL }, out, cap);
}

/* A name with each of these bytes, all in one call: what comes back has a space between two and
 * none in one. False: refused. */
static bool is_as_systemd_does_them(int first, int last)
{
	static char paths[256][5], theirs[256 * 16];
	const char *argv[256] = { NULL };
	char out[FM_UNIT_NAME_MAX], *rest = theirs;

	for (int c = first; c <= last; c++) {
		snprintf(paths[c], sizeof(paths[c]), "/a%cb", c);
		argv[c - first] = paths[c];
	}
	if (!systemd_escape(argv, theirs, sizeof(theirs)))
		return false;
	for (int c = first; c <= last; c++) {
		const char *one = strsep(&rest, " ");

		CU_ASSERT_TRUE(fm_unit_escape_path(paths[c], out, sizeof(out)) > 0);
		CU_ASSERT_STRING_EQUAL(out, one ? one : "");
	}
	CU_ASSERT_PTR_NULL(rest);
	return true;
}

static void test_as_systemd_does_it(void)
{
	char theirs[2 * FM_UNIT_NAME_MAX];

	if (!systemd_escape_one("/a", theirs, sizeof(theirs))) {
		printf("(no systemd-escape here) ");
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool is = systemd_escape_one(names[i].path, theirs, sizeof(theirs));

		/* systemd 257 takes "/.." for "/". It is a mistake in a configuration. */
		if (strcmp(names[i].path, "/..") == 0)
			continue;
		CU_ASSERT_EQUAL(is, names[i].name != NULL);
		if (is && names[i].name)
			CU_ASSERT_STRING_EQUAL(theirs, names[i].name);
	}
	CU_ASSERT_TRUE(is_as_systemd_does_them(1, 127));
	/* Alone these are no UTF-8: arguments that systemd refuses, in most of its versions. */
	(void)is_as_systemd_does_them(128, 255);
}

/* ---- the text ---- */

static struct fm_config *load(const char *node, const char *volume)
{
	struct fm_config *cfg = NULL;
	struct fm_err err = { 0 };
	char text[2048];
	int ret;

	snprintf(text, sizeof(text),
		 "node = { name = \"%s\"; };\n"
		 "volumes = ( { name = \"data\"; subsystem = \"disk1\"; address = "
		 "\"10.0.0.9:4420\"; %s } );\n",
		 node, volume);
	ret = fm_config_load_string(text, strlen(text), "f", &cfg, &err);
	if (ret < 0)
		printf("%s\n", err.text);
	CU_ASSERT_EQUAL_FATAL(ret, 0);
	return cfg;
}

/* Its result; the unit, or the reason in err. */
static int make(const char *node, const char *volume, struct fm_unit *out, struct fm_err *err)
{
	struct fm_config *cfg = load(node, volume);
	int ret = fm_unit_make(cfg, &cfg->volumes[0], out, err);

	CU_ASSERT_EQUAL(ret == 0, out->text != NULL);
	fm_config_free(cfg);
	return ret;
}

static void test_the_unit_of_a_writer(void)
{
	struct fm_unit unit;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(make("n1",
				   "mount = \"/srv/my-data\"; type = \"ext4\"; writer = \"n1\"; "
				   "options = \"noatime\"; "
				   "uuid = \"" UUID "\"; nguid = \"" NGUID "\";",
				   &unit, &err),
			      0);
	CU_ASSERT_STRING_EQUAL(unit.name, "srv-my\\x2ddata.mount");
	CU_ASSERT_STRING_EQUAL(unit.text, "# Written by fmove nvme units for volume data; what is "
					  "changed here is lost when it "
					  "runs again.\n"
					  "[Unit]\n"
					  "Description=Volume data (NVMe-TCP)\n"
					  "Documentation=man:fmove-nvme(1)\n"
					  "Requires=fmove-nvme@data.service "
					  "fmove-nvme-ask@data.service\n"
					  "After=fmove-nvme@data.service "
					  "fmove-nvme-ask@data.service\n"
					  "\n"
					  "[Mount]\n"
					  "What=/dev/disk/by-id/nvme-uuid." UUID "\n"
					  "Where=/srv/my-data\n"
					  "Type=ext4\n"
					  "Options=_netdev,nofail,rw,noatime\n"
					  "\n"
					  "[Install]\n"
					  "WantedBy=remote-fs.target\n");
	fm_unit_clear(&unit);
	CU_ASSERT_PTR_NULL(unit.text);
}

/* The only volume's unit has this line. */
static void has_line(const char *node, const char *volume, const char *line)
{
	struct fm_unit unit;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(make(node, volume, &unit, &err), 0);
	if (!strstr(unit.text, line))
		printf("no \"%s\" in:\n%s", line, unit.text);
	CU_ASSERT_PTR_NOT_NULL(strstr(unit.text, line));
	fm_unit_clear(&unit);
}

static void test_what_differs(void)
{
	has_line("n1", "mount = \"/a\"; writer = \"n1\"; nguid = \"" NGUID "\";",
		 "\nWhat=/dev/disk/by-id/nvme-eui." NGUID "\n");
	has_line("n1", "mount = \"/a\"; writer = \"n1\"; uuid = \"" UUID "\";",
		 "\nWhere=/a\nOptions=_netdev,nofail,rw\n");
	has_line("n1", "mount = \"/50% of it\"; writer = \"n1\"; uuid = \"" UUID "\";",
		 "\nWhere=/50%% of it\n");
	has_line("n2",
		 "mount = \"/a\"; mode = \"shared-read\"; writer = \"n1\"; type = \"xfs\"; options "
		 "= \"noatime\"; "
		 "uuid = \"" UUID "\";",
		 "\nOptions=_netdev,nofail,ro,norecovery,noatime\n");
}

static void refuses(int code, const char *node, const char *volume, const char *says)
{
	struct fm_unit unit;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(make(node, volume, &unit, &err), code);
	if (!strstr(err.text, says))
		printf("\"%s\" is not in: %s\n", says, err.text);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
}

#define IDENTIFIED "uuid = \"" UUID "\"; "

static void test_what_gets_no_unit_says_why(void)
{
	struct fm_config *cfg = load("n1", IDENTIFIED);
	char mount[600];

	CU_ASSERT_STRING_EQUAL(fm_unit_why_none(cfg, &cfg->volumes[0]), "it has no mount point");
	fm_config_free(cfg);
	refuses(-EINVAL, "n1", "mount = \"/a\"; writer = \"n1\"; namespace = 1;",
		"f:2: volumes.uuid: missing");
	refuses(-EINVAL, "n1", IDENTIFIED "mount = \"/a\"; mode = \"read-only\";",
		"volumes.type: missing");
	refuses(-EINVAL, "n1", IDENTIFIED "mount = \"/a \"; writer = \"n1\";", "volumes.mount: ");
	refuses(-EINVAL, "n1", IDENTIFIED "mount = \"/a\\\\\"; writer = \"n1\";",
		"volumes.mount: ");
	snprintf(mount, sizeof(mount), IDENTIFIED "mount = \"/%0200d/%0100d\"; writer = \"n1\";", 0,
		 0);
	refuses(-ENAMETOOLONG, "n1", mount, "volumes.mount: a unit's name would be longer");
}

/* Whatever it would be mounted with by the supervisor, and whether at all, the unit says too. */
static void as_the_guard(const char *node, const char *mode, const char *type)
{
	bool is_read_only = strcmp(mode, "read-only") == 0;
	struct fm_inv_namespace ns = {.name = "nvme0n1",
				      .nsid = 1,
				      .wwid = "uuid." UUID,
				      .uuid = UUID,
				      .size_bytes = 1 << 30,
				      .dev = makedev(259, 1)};
	struct fm_superblock sb = { .clean = FM_CLEAN, .has_mmp = true };
	struct fm_mounts mounts = { .mounts = NULL };
	struct fm_guard_answer answer;
	struct fm_volumes volumes;
	struct fm_config *cfg;
	struct fm_unit unit;
	struct fm_err err;
	char text[400], line[64];

	snprintf(text, sizeof(text),
		 IDENTIFIED "mount = \"/a\"; mode = \"%s\"; writer = \"n1\"; type = \"%s\";", mode,
		 type);
	if (is_read_only)
		snprintf(text, sizeof(text),
			 IDENTIFIED "mount = \"/a\"; mode = \"read-only\"; type = \"%s\";", type);
	cfg = load(node, text);
	CU_ASSERT_EQUAL_FATAL(fm_volumes_make(cfg, &volumes, &err), 0);
	snprintf(sb.type, sizeof(sb.type), "%s", type);
	/* What readers wait for has come. */
	fm_guard_decide(&(struct fm_guard_facts){.node = node,
						 .volume = &volumes.volume[0],
						 .ns = &ns,
						 .sb = &sb,
						 .mounts = &mounts,
						 .peers_why = "",
						 .has_heard = true,
						 .is_sealed = strcmp(node, "n1") != 0},
			&answer);
	CU_ASSERT_EQUAL(fm_unit_why_none(cfg, &cfg->volumes[0]) != NULL,
			answer.verdict == FM_GUARD_REFUSED);
	if (answer.verdict != FM_GUARD_REFUSED) {
		CU_ASSERT_EQUAL_FATAL(fm_unit_make(cfg, &cfg->volumes[0], &unit, &err), 0);
		snprintf(line, sizeof(line), "\nOptions=_netdev,nofail,%s\n", answer.options);
		CU_ASSERT_PTR_NOT_NULL(strstr(unit.text, line));
		fm_unit_clear(&unit);
	}
	fm_volumes_clear(&volumes);
	fm_config_free(cfg);
}

static void test_modes_are_the_guards(void)
{
	static const char *const modes[] = { "exclusive", "shared-read", "read-only" };
	static const char *const types[] = { "ext2", "ext3", "ext4", "xfs", "btrfs" };

	for (size_t m = 0; m < 3; m++) {
		for (size_t t = 0; t < 5; t++) {
			as_the_guard("n1", modes[m], types[t]);
			as_the_guard("n2", modes[m], types[t]);
		}
	}
}

/* ---- files ---- */

static char directory[64];

static int directory_begin(void)
{
	int dir;

	strcpy(directory, "/tmp/fm-units.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
	dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(dir >= 0);
	return dir;
}

static void put_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL_FATAL(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int remove_it(void *ctx, const char *name)
{
	const int *dir = ctx;

	return unlinkat(*dir, name, 0);
}

static int stop_there(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return -ECANCELED;
}

static void test_only_our_files_are_ours(void)
{
	static const char text[] = FM_UNIT_MARK " for volume data\n[Unit]\n";
	int dir = directory_begin();
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_unit_file_look(dir, "a.mount", text, &err), 0);
	put_file(dir, "a.mount", text);
	CU_ASSERT_EQUAL(fm_unit_file_look(dir, "a.mount", text, &err), 2);
	CU_ASSERT_EQUAL(fm_unit_file_look(dir, "a.mount", FM_UNIT_MARK " else", &err), 1);
	put_file(dir, "b.mount", "# mine\n" FM_UNIT_MARK "\n");
	put_file(dir, "empty.mount", "");
	put_file(dir, "c.service", text);
	CU_ASSERT_EQUAL(symlinkat("a.mount", dir, "link.mount"), 0);
	CU_ASSERT_EQUAL(symlinkat("/dev/null", dir, "masked.mount"), 0);
	CU_ASSERT_EQUAL(mkdirat(dir, "d.mount", 0755), 0);
	CU_ASSERT_EQUAL(mkfifoat(dir, "fifo.mount", 0644), 0);
	for (size_t i = 0; i < 6; i++) {
		static const char *const theirs[] = {"b.mount",	     "empty.mount", "link.mount",
						     "masked.mount", "d.mount",	    "fifo.mount"};

		CU_ASSERT_EQUAL(fm_unit_file_look(dir, theirs[i], text, &err), -EEXIST);
	}
	CU_ASSERT_EQUAL(fm_unit_files_each(dir, stop_there, NULL, &err), -ECANCELED);
	CU_ASSERT_EQUAL(fm_unit_files_each(dir, remove_it, &dir, &err), 0);
	CU_ASSERT_EQUAL(fm_unit_file_look(dir, "a.mount", text, &err), 0);
	CU_ASSERT_EQUAL(faccessat(dir, "c.service", F_OK, 0), 0);
	for (size_t i = 0; i < 7; i++) {
		static const char *const rest[] = {"b.mount",	 "empty.mount",	 "c.service",
						   "link.mount", "masked.mount", "fifo.mount",
						   "d.mount"};

		CU_ASSERT_EQUAL(unlinkat(dir, rest[i], i == 6 ? AT_REMOVEDIR : 0), 0);
	}
	close(dir);
	CU_ASSERT_EQUAL(rmdir(directory), 0);
}

#ifdef FM_FAULTS
static void test_no_memory_for_a_unit(void)
{
	struct fm_config *cfg = load("n1", IDENTIFIED "mount = \"/a\"; writer = \"n1\";");
	struct fm_unit unit;
	struct fm_err err;

	fm_fault_arm("units.alloc", 1);
	CU_ASSERT_EQUAL(fm_unit_make(cfg, &cfg->volumes[0], &unit, &err), -ENOMEM);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NULL(unit.text);
	fm_config_free(cfg);
}
#endif

static const struct fm_test tests[] = {
	{ "paths are escaped as systemd's", test_paths_are_escaped },
	{ "a name that does not fit is an error", test_what_does_not_fit_is_an_error },
	{ "systemd-escape says the same", test_as_systemd_does_it },
	{ "the unit of a writer", test_the_unit_of_a_writer },
	{ "identity, type, options and percent signs", test_what_differs },
	{ "a volume without a unit says why", test_what_gets_no_unit_says_why },
	{ "read-write and read-only are as the guard decides", test_modes_are_the_guards },
	{ "only files with our mark are ours", test_only_our_files_are_ours },
#ifdef FM_FAULTS
	{ "no memory for a unit", test_no_memory_for_a_unit },
#endif
};
FM_TEST_MAIN("units", tests)
