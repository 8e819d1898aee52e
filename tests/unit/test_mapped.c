/* SPDX-License-Identifier: MIT */
/*
 * Writes to a file of tmpfs through mappings: by several lanes at once, where somebody cuts the
 * file or the file system is full, and where the kernel refuses. links: fm_store
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "mover/store/fileio.h"
#include "mover/store/mapped.h"
#include "tests/unit/may_mount.h"
#include "tests/unit/store_scene.h"

#define WINDOW (UINT64_C(1) << 20)
#define SIZE (20 * WINDOW + 12345)
#define PIECE 100001u			/* it ends within a page, and lies across windows */
#define PIECES ((unsigned)((SIZE + PIECE - 1) / PIECE))
#define LANES 4

/* A file without a name, so that nothing is left. */
static int open_in(const char *base, int access)
{
	char path[64];
	int fd, out;

	(void)snprintf(path, sizeof(path), "%s/fm-mapped.%d", base, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	out = access == O_RDWR ? fd : open(path, access | O_CLOEXEC);
	CU_ASSERT_EQUAL(unlink(path), 0);
	if (out != fd)
		close(fd);
	return out;
}

/* How many mappings of files in memory this process has. */
static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096];
	unsigned n = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, IN_MEMORY "/") != NULL;
	(void)fclose(f);
	return n;
}

static uint32_t piece_len(unsigned i)
{
	uint64_t left = SIZE - (uint64_t)i * PIECE;

	return left < PIECE ? (uint32_t)left : PIECE;
}

static void fill(unsigned char *buf, unsigned piece)
{
	for (unsigned i = 0; i < PIECE; i++)
		buf[i] = (unsigned char)((piece * 31 + i) * 2654435761u >> 24);
}

static bool has_all(int fd)
{
	unsigned char *want = malloc(PIECE), *got = malloc(PIECE);
	bool is_same = true;

	for (unsigned i = 0; i < PIECES; i++) {
		fill(want, i);
		is_same = is_same &&
			  pread(fd, got, piece_len(i), (off_t)i * PIECE) == (ssize_t)piece_len(i) &&
			  memcmp(want, got, piece_len(i)) == 0;
	}
	free(want);
	free(got);
	return is_same;
}

/* ---- side by side ---- */

struct writer {
	struct fm_mapped *m;
	unsigned first, step;
	unsigned failures;
};

static void *write_pieces(void *arg)
{
	struct writer *w = arg;
	unsigned char *buf = malloc(PIECE);

	for (unsigned i = w->first; i < PIECES; i += w->step) {
		fill(buf, i);
		w->failures += fm_mapped_write(w->m, buf, piece_len(i), (uint64_t)i * PIECE) !=
			       (int64_t)piece_len(i);
	}
	free(buf);
	return NULL;
}

/* Goal: every byte is where it belongs. */
static void test_side_by_side(void)
{
	int fd = open_in(IN_MEMORY, O_RDWR);
	struct fm_mapped *m = fm_mapped_new(fd, SIZE, WINDOW);
	struct writer writer[LANES];
	pthread_t id[LANES];

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	for (unsigned i = 0; i < LANES; i++) {
		writer[i] = (struct writer){ .m = m, .first = i, .step = LANES };
		CU_ASSERT_EQUAL_FATAL(pthread_create(&id[i], NULL, write_pieces, &writer[i]), 0);
	}
	for (unsigned i = 0; i < LANES; i++) {
		CU_ASSERT_EQUAL(pthread_join(id[i], NULL), 0);
		CU_ASSERT_EQUAL(writer[i].failures, 0);
	}
	CU_ASSERT_TRUE(has_all(fd));
	fm_mapped_free(m);
	CU_ASSERT_EQUAL(mappings(), 0);
	close(fd);
}

/* Goal: a window goes as soon as all of it is written. */
static void test_in_order(void)
{
	int fd = open_in(IN_MEMORY, O_RDWR);
	struct fm_mapped *m = fm_mapped_new(fd, SIZE, WINDOW);
	struct writer writer = { .m = m, .first = 0, .step = 1 };
	unsigned char byte = 1;

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	(void)write_pieces(&writer);
	CU_ASSERT_EQUAL(writer.failures, 0);
	CU_ASSERT_EQUAL(mappings(), 0);
	CU_ASSERT_TRUE(has_all(fd));
	CU_ASSERT_EQUAL(fm_mapped_write(m, &byte, 1, 0), 1);	/* again, as after a damaged one */
	CU_ASSERT_EQUAL(mappings(), 1);
	fm_mapped_free(m);
	CU_ASSERT_EQUAL(mappings(), 0);
	close(fd);
}

/*
 * Goal: bytes that come in any order are written, with no more windows than a few; none is left
 * when a transfer ends in its midst.
 */
static void test_any_order(void)
{
	int fd = open_in(IN_MEMORY, O_RDWR);
	struct fm_mapped *m = fm_mapped_new(fd, SIZE, WINDOW);
	unsigned char *buf = malloc(PIECE);

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	for (unsigned n = 0; n < PIECES; n++) {
		unsigned i = n * 89 % PIECES;

		fill(buf, i);
		CU_ASSERT_EQUAL(fm_mapped_write(m, buf, piece_len(i), (uint64_t)i * PIECE),
				(int64_t)piece_len(i));
		CU_ASSERT_TRUE(mappings() <= 8);
		if (n == PIECES / 2)
			CU_ASSERT_EQUAL(mappings(), 8);
	}
	CU_ASSERT_TRUE(has_all(fd));
	fm_mapped_free(m);
	CU_ASSERT_EQUAL(mappings(), 0);
	free(buf);
	close(fd);
}

/* ---- what goes wrong ---- */

/* Goal: who cuts the file gives its transfer an error, and this process no signal. */
static void test_cut(void)
{
	int fd = open_in(IN_MEMORY, O_RDWR);
	struct fm_mapped *m = fm_mapped_new(fd, SIZE, WINDOW);
	static unsigned char buf[PIECE];

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_EQUAL(fm_mapped_write(m, buf, PIECE, 0), PIECE);
	CU_ASSERT_EQUAL(ftruncate(fd, PIECE), 0);
	CU_ASSERT_EQUAL(fm_mapped_write(m, buf, PIECE, WINDOW / 2), -EIO);
	fm_mapped_free(m);
	close(fd);
}

/* Goal: a file system that is full says so, and keeps nothing that it was not asked to write. */
static void test_full(void)
{
	char base[] = "/tmp/fm-mapped.XXXXXX";
	static unsigned char buf[PIECE];
	struct fm_mapped *m;
	struct stat st;
	int fd;

	if (!may_mount())
		return;
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(base));
	CU_ASSERT_EQUAL_FATAL(mount("none", base, "tmpfs", 0, "size=3m"), 0);
	fd = open_in(base, O_RDWR);
	m = fm_mapped_new(fd, SIZE, WINDOW);
	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	for (uint64_t i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(fm_mapped_write(m, buf, PIECE, i * WINDOW), PIECE);
	CU_ASSERT_EQUAL(fm_mapped_write(m, buf, PIECE, 3 * WINDOW), -ENOSPC);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL((uint64_t)st.st_blocks * 512, 3 * WINDOW);
	fm_mapped_free(m);
	close(fd);
	CU_ASSERT_EQUAL(umount(base), 0);
	CU_ASSERT_EQUAL(rmdir(base), 0);
}

/* Goal: what is no file of tmpfs, and what lies behind its end, goes the other way. */
static void test_not_here(void)
{
	static const unsigned char byte;
	int fd = open_in(ON_DISK, O_RDWR);
	struct fm_mapped *m;

	CU_ASSERT_PTR_NULL(fm_mapped_new(fd, SIZE, WINDOW));
	close(fd);
	fd = open_in(IN_MEMORY, O_RDWR);
	m = fm_mapped_new(fd, SIZE, WINDOW);
	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_EQUAL(fm_mapped_write(m, &byte, 1, SIZE), 0);
	CU_ASSERT_EQUAL(fm_mapped_write(m, &byte, 1, UINT64_MAX), 0);
	CU_ASSERT_EQUAL(mappings(), 0);
	fm_mapped_free(m);
	close(fd);
}

/* ---- as a file of the engine ---- */

static unsigned copies;

static void count_copies(void *ctx, const char *point)
{
	(void)ctx;
	copies += strcmp(point, "store.copy") == 0;
}

static unsigned write_pieces_as_lane(struct fm_fileio *io)
{
	unsigned char *buf = buffer();
	unsigned failures = 0;

	for (unsigned i = 0; i < PIECES; i++) {
		struct waited w = { .io = { .done = waited_done, .buf = buf, .len = piece_len(i),
					    .offset = (uint64_t)i * PIECE } };

		fill(buf, i);
		fm_fileio_write(io, &l.io, &w.io);
		wait_for(&l, &w);
		failures += w.io.res != (int64_t)piece_len(i);
	}
	return failures;
}

/* Whether all of it came into fd as it should. */
static bool write_file(int fd)
{
	const char *note;
	struct fm_fileio io;
	unsigned failures;

	fm_mapped_set_lanes(FM_MAPPED_LANES_MIN);
	lane_open(&l, true);
	if (fm_fileio_init(&io, fd, true, false, &note, NULL) < 0)
		return false;
	fm_fileio_expect(&io, SIZE);
	failures = io.mapped ? write_pieces_as_lane(&io) : 1;
	fm_fileio_end(&io);
	lane_close(&l);
	return failures == 0 && mappings() == 0;
}

/* Goal: a put into a store in memory goes this way, and one whose size is known later does, too. */
static void test_store(void)
{
	struct fm_create how = { .size = FM_SIZE_UNKNOWN };
	struct put p = { .path = "later", .size = SIZE, .salt = 2 };
	struct fm_attr attr = { .type = FM_NODE_FILE, .size = SIZE, .mode = 0640 };
	struct fm_file *file;

	fm_mapped_set_lanes(FM_MAPPED_LANES_MIN);
	begin(IN_MEMORY, false);
	copies = 0;
	fm_fault_watch(count_copies, NULL);
	CU_ASSERT_EQUAL(put("f", SIZE, 1, false), 0);
	CU_ASSERT_EQUAL(copies, (SIZE + CHUNK - 1) / CHUNK);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "later", &root_user, &how, &file, &err), 0);
	CU_ASSERT_EQUAL(file->ops->make_room(file, SIZE, &err), 0);
	CU_ASSERT_EQUAL(put_bytes(&l, file, &p), 0);
	CU_ASSERT_EQUAL(copies, 2 * ((SIZE + CHUNK - 1) / CHUNK));
	CU_ASSERT_EQUAL(file->ops->publish(file, SIZE, &attr, false, &err), 0);
	file->ops->close(file);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", SIZE, 1), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "later", SIZE, 2), 0);
	end();
}

/* Goal: few lanes are faster without. */
static void test_few_lanes(void)
{
	fm_mapped_set_lanes(FM_MAPPED_LANES_MIN - 1);
	begin(IN_MEMORY, false);
	copies = 0;
	fm_fault_watch(count_copies, NULL);
	CU_ASSERT_EQUAL(put("f", SIZE, 1, false), 0);
	CU_ASSERT_EQUAL(copies, 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", SIZE, 1), 0);
	end();
}

/* Goal: none is left when the file is published, though some of it was not written, or given up. */
static void test_ends(void)
{
	struct fm_create how = { .size = SIZE, .is_dense = true };
	struct fm_attr attr = { .type = FM_NODE_FILE, .size = SIZE, .mode = 0640 };
	struct fm_file *file;

	fm_mapped_set_lanes(FM_MAPPED_LANES_MIN);
	begin(IN_MEMORY, false);
	for (int is_published = 0; is_published < 2; is_published++) {
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), CHUNK, 0), CHUNK);
		CU_ASSERT_EQUAL(mappings(), 1);
		if (is_published) {
			CU_ASSERT_EQUAL(file->ops->publish(file, SIZE, &attr, false, &err), 0);
			CU_ASSERT_EQUAL(mappings(), 0);
		}
		file->ops->close(file);
		CU_ASSERT_EQUAL(mappings(), 0);
	}
	end();
}

/* ---- where it is refused ---- */

/* Goal: what the kernel refuses, at first or later, goes the other way, and is not asked again. */
static void test_refused(void)
{
	static const struct {
		const char *call;
		unsigned n, copies;
	} refused[] = { { "store.map", 1, 0 }, { "store.copy", 1, 1 }, { "store.copy", 50, 50 } };

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int fd = open_in(IN_MEMORY, O_RDWR);

		copies = 0;
		fm_fault_watch(count_copies, NULL);
		fm_fault_arm(refused[i].call, refused[i].n);
		CU_ASSERT_TRUE(write_file(fd));
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_EQUAL(copies, refused[i].copies);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_TRUE(has_all(fd));
		close(fd);
	}
}

/* Goal: a descriptor that is not for reading cannot be mapped, and takes the bytes all the same. */
static void test_write_only(void)
{
	int fd = open_in(IN_MEMORY, O_WRONLY);
	struct stat st;

	CU_ASSERT_TRUE(write_file(fd));
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL((uint64_t)st.st_size, SIZE);
	close(fd);
}

/* The kernel says to process_vm_writev(2) what one says that does not know it. */
static int refuse_call(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0 ? -errno : 0;
}

/* Goal: a filter of system calls costs the speed, not the file. */
static void test_filtered(void)
{
	int fd = open_in(IN_MEMORY, O_RDWR), status = -1;
	pid_t pid = fork();

	CU_ASSERT_TRUE_FATAL(pid >= 0);
	if (pid == 0)
		_exit(refuse_call() < 0 ? 77 : !write_file(fd));
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("SKIP: no filters of system calls here\n");
	} else {
		CU_ASSERT_EQUAL(status, 0);
		CU_ASSERT_TRUE(has_all(fd));
	}
	close(fd);
}

static const struct fm_test tests[] = {
	{ "lanes write side by side", test_side_by_side },
	{ "a window goes when it is full", test_in_order },
	{ "in any order, through a few windows", test_any_order },
	{ "a file that is cut is an error, not a signal", test_cut },
	{ "a full file system says so", test_full },
	{ "what is not on tmpfs is not mapped", test_not_here },
	{ "a file of a store in memory", test_store },
	{ "few lanes map nothing", test_few_lanes },
	{ "no mapping is left at the end", test_ends },
	{ "what the kernel refuses is written all the same", test_refused },
	{ "a descriptor for writing only", test_write_only },
	{ "a filter that refuses the call", test_filtered },
};

FM_TEST_MAIN("mapped", tests)
