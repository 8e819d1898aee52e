/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that a local caller passed. links: fm_store
 */
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "mover/store/snapshot.h"
#include "tests/unit/store_scene.h"

static const struct fm_attr written = { .type = FM_NODE_FILE, .mode = 04640, .mtime_ns = -1 };

static int sink(int fd, uint64_t size, struct fm_file **out)
{
	struct fm_create how = { .size = size, .is_dense = size != FM_SIZE_UNKNOWN };

	return fm_caller_sink(fd, -1, &how, out, &err);
}

/* -------------------------------------------------------------------------------------- regular */

/*
 * Goal: a caller's file takes and gives every length; it is synced and dressed, not renamed; its
 * flags are as before.
 */
static void test_regular(void)
{
	static const uint32_t sizes[] = {0,    1,	  511,	 4095,	    4096,
					 4097, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 13};

	for (size_t n = 0; n < 2 * sizeof(sizes) / sizeof(sizes[0]); n++) {
		struct put p = { .size = sizes[n / 2], .salt = n };
		struct fm_file *file;
		struct fm_attr attr;
		struct stat st;
		int fd, flags;

		begin(bases[n % 2], false);
		fd = open(at("f"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		flags = fcntl(fd, F_GETFL);
		CU_ASSERT_EQUAL_FATAL(sink(dup(fd), p.size, &file), 0);
		CU_ASSERT_EQUAL(file->is_direct, n % 2 == 0 && !file->note);
		CU_ASSERT_EQUAL(put_bytes(&l, file, &p), 0);
		CU_ASSERT_EQUAL(file->ops->publish(file, p.size, &written, true, &err), 0);
		file->ops->close(file);
		CU_ASSERT_EQUAL(fcntl(fd, F_GETFL), flags);
		CU_ASSERT_EQUAL(fstat(fd, &st), 0);
		CU_ASSERT_EQUAL(st.st_mode & 07777, 0640);
		CU_ASSERT_EQUAL(st.st_mtim.tv_sec, -1);
		CU_ASSERT_EQUAL(st.st_mtim.tv_nsec, 999999999);
		CU_ASSERT_EQUAL((uint64_t)st.st_size, p.size);
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", p.size, n), 0);

		CU_ASSERT_EQUAL_FATAL(fm_caller_source(dup(fd), &file, &attr, &err), 0);
		CU_ASSERT_EQUAL(attr.size, p.size);
		CU_ASSERT_EQUAL(attr.mode, 0640);
		CU_ASSERT_FALSE(file->is_stream);
		if (p.size > 0)
			CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, 0),
					(int64_t)(p.size < CHUNK ? p.size : CHUNK));
		if (!file->is_ours)
			CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
		file->ops->close(file);
		CU_ASSERT_EQUAL(fcntl(fd, F_GETFL), flags);
		close(fd);
		end();
	}
}

/* A file of that size with a hole behind its first block, or without: its descriptor. */
static int make_file(uint64_t size, bool has_hole)
{
	const int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	int fd;

	CU_ASSERT_EQUAL_FATAL(put("f", size, 1, false), 0);
	fd = open(at("f"), O_RDWR | O_CLOEXEC);
	if (has_hole)
		CU_ASSERT_EQUAL(fallocate(fd, how, 4096, 4096), 0);
	return fd;
}

static int say_unchanged(struct fm_file *file, struct fm_err *why)
{
	(void)file;
	(void)why;
	return 0;
}

static void note_closed(struct fm_file *file)
{
	(void)file;
}

/*
 * Goal: a file that ends before its size, as it was when it was opened, is no source, whatever its
 * times say: some file systems have them in steps of milliseconds. Method: one whose look finds
 * nothing.
 */
static void test_small_cut(void)
{
	static const struct fm_file_ops ops = {.check_unchanged = say_unchanged,
					       .close = note_closed};

	for (size_t i = 0; i < BASES; i++) {
		struct fm_file of = { .ops = &ops }, *file = &of;
		int fd;

		begin(bases[i], false);
		fd = open(at("f"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		CU_ASSERT_EQUAL(ftruncate(fd, 50), 0);
		CU_ASSERT_EQUAL(fm_snapshot_take(fd, 100, &file, &err), -ESTALE);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "run it again"));
		close(fd);
		CU_ASSERT_EQUAL(unlink(at("f")), 0);
		end();
	}
}

/*
 * Goal: a small file is read when it is opened. Nothing of it is left that would have to be closed,
 * and what is written to it later is not in what is read, however often that is. Larger ones, and
 * those with holes, stay files.
 */
static void test_small(void)
{
	static const struct { uint32_t size; bool has_hole, is_ours; } cases[] = {
		{ 0, false, false },		       { 1, false, true },
		{ 4097, false, true },		       { FM_SNAPSHOT_MAX, false, true },
		{ FM_SNAPSHOT_MAX + 1, false, false }, { FM_SNAPSHOT_MAX, true, false },
	};

	for (size_t n = 0; n < 2 * sizeof(cases) / sizeof(cases[0]); n++) {
		uint32_t size = cases[n / 2].size, behind;
		struct fm_file *file;
		struct fm_attr attr;
		int fd, passed;

		begin(bases[n % 2], false);
		fd = make_file(size, cases[n / 2].has_hole);
		passed = dup(fd);
		CU_ASSERT_EQUAL_FATAL(fm_caller_source(passed, &file, &attr, &err), 0);
		CU_ASSERT_EQUAL(attr.size, size);
		CU_ASSERT_EQUAL(file->is_ours, cases[n / 2].is_ours);
		CU_ASSERT_EQUAL(fcntl(passed, F_GETFD) < 0, cases[n / 2].is_ours);
		if (file->is_ours) {
			CU_ASSERT_PTR_NULL(file->note);
			CU_ASSERT_PTR_NULL(file->ops->check_unchanged);
			CU_ASSERT_EQUAL(ftruncate(fd, 0), 0);
			for (int i = 0; i < 2; i++)
				CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, 0), size);
			CU_ASSERT_TRUE(is_pattern(buffer(), 1, 0, size));
			behind = size > 4096 ? size - 4096 : 0;
			CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, 4096), behind);
			CU_ASSERT_TRUE(is_pattern(buffer(), 1, 4096, behind));
		}
		file->ops->close(file);
		close(fd);
		end();
	}
}

/* Goal: an abandoned target is empty again, and still there: it is the caller's. */
static void test_discard(void)
{
	struct fm_file *file;
	struct stat st;

	for (int i = 0; i < 2; i++) {
		begin(ON_DISK, false);
		CU_ASSERT_EQUAL_FATAL(sink(open(at("f"), O_CREAT | O_WRONLY, 0600), 1 << 20, &file),
				      0);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		if (i)
			file->ops->discard(file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(stat(at("f"), &st), 0);
		CU_ASSERT_EQUAL(st.st_size, 0);
		CU_ASSERT_EQUAL(st.st_blocks, 0);
		end();
	}
}

/* What is left of a file that somebody began to read is a stream. */
static void test_half_read(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	int fd;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 10000, 1, false), 0);
	fd = open(at("f"), O_RDONLY);
	CU_ASSERT_EQUAL(lseek(fd, 8, SEEK_SET), 8);
	CU_ASSERT_EQUAL_FATAL(fm_caller_source(fd, &file, &attr, &err), 0);
	CU_ASSERT_TRUE(file->is_stream && attr.size == FM_SIZE_UNKNOWN && file->note);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 8192, 0), 8192);
	CU_ASSERT_TRUE(is_pattern(buffer(), 1, 8, 8192));
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 8192, 8192), 10000 - 8 - 8192);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 8192, 9992), 0);
	file->ops->close(file);
	end();
}

/*
 * Goal: a file that is read as a whole stays at its beginning for who has its description, too: a
 * second source of it is whole.
 */
static void test_position_stays(void)
{
	for (size_t n = 0; n < 4; n++) {
		const uint32_t size = FM_SNAPSHOT_MAX + 4096;
		bool has_hole = n & 1;
		struct fm_file *file[2];
		struct fm_attr attr;
		uint64_t from, to = 0;
		int fd;

		begin(bases[n / 2], false);
		fd = make_file(size, has_hole);
		CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
		for (int i = 0; i < 2; i++) {
			CU_ASSERT_EQUAL_FATAL(fm_caller_source(dup(fd), &file[i], &attr, &err), 0);
			CU_ASSERT_TRUE(attr.size == size && attr.has_holes == has_hole);
			CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 0);
		}
		while (has_hole && to < size) {
			CU_ASSERT_EQUAL_FATAL(file[0]->ops->next_data(file[0], to, &from, &to), 0);
			CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 0);
		}
		for (int i = 0; i < 2; i++)
			file[i]->ops->close(file[i]);
		close(fd);
		end();
	}
}

/* What is known to be meant as a whole is read from its beginning, wherever its position is. */
static void test_known_to_be_whole(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	int fd;

	begin(ON_DISK, false);
	fd = make_file(10000, false);
	CU_ASSERT_EQUAL(lseek(fd, 4096, SEEK_SET), 4096);
	CU_ASSERT_EQUAL_FATAL(fm_caller_source_whole(fd, false, &file, &attr, &err), 0);
	CU_ASSERT_TRUE(!file->is_stream && attr.size == 10000);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 8192, 0), 8192);
	CU_ASSERT_TRUE(is_pattern(buffer(), 1, 0, 8192));
	file->ops->close(file);
	end();
}

/* -------------------------------------------------------------------------------------- streams */

/* Somebody at the other end of a pipe, who is slow and deals in odd lengths. */
static pid_t feed(int fd, size_t len)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	pattern(buffer(), 1, 0, len);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, buffer() + done, len - done < 1013 ? len - done : 1013);

		if (n <= 0)
			_exit(1);
		done += (size_t)n;
	}
	_exit(0);
}

/* theirs: the end that is written to; the child must not hold it open too. */
static pid_t drain(int fd, int theirs, size_t len)
{
	pid_t child = fork();
	size_t done = 0;
	ssize_t n;

	if (child != 0)
		return child;
	close(theirs);
	while ((n = read(fd, buffer() + done, 1013)) > 0)
		done += (size_t)n;
	_exit(n == 0 && done == len && is_pattern(buffer(), 1, 0, len) ? 0 : 1);
}

static void expect_success(pid_t child)
{
	int status = -1;

	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
}

/* The kinds of stream, each as a service may get it. */
enum { PIPE, PIPE_NONBLOCKING, SOCKET, SOCKET_NONBLOCKING, KINDS };

/* Two connected ends: one to be read, one to be written. `ours` is the one that may be
 * non-blocking. */
static void make_ends(int kind, int ours, int ends[2])
{
	if (kind < SOCKET)
		CU_ASSERT_EQUAL_FATAL(pipe2(ends, O_CLOEXEC), 0);
	if (kind >= SOCKET)
		CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	if (kind == PIPE_NONBLOCKING || kind == SOCKET_NONBLOCKING)
		CU_ASSERT_EQUAL(fcntl(ends[ours], F_SETFL, fcntl(ends[ours], F_GETFL) | O_NONBLOCK),
				0);
}

/* Goal: reads fill the buffer up to the end of the stream, whatever pieces it comes in. */
static void test_stream_source(void)
{
	const size_t len = 2 * CHUNK + 13;

	for (int n = 0; n < 2 * KINDS; n++) {
		struct fm_file *file;
		struct fm_attr attr;
		int ends[2];
		pid_t child;

		begin(ON_DISK, n % 2);
		make_ends(n / 2, 0, ends);
		fflush(stdout);
		child = feed(ends[1], len);
		close(ends[1]);
		CU_ASSERT_EQUAL_FATAL(fm_caller_source(ends[0], &file, &attr, &err), 0);
		CU_ASSERT_TRUE(file->is_stream && !file->is_direct);
		CU_ASSERT_EQUAL(attr.size, FM_SIZE_UNKNOWN);
		for (unsigned i = 0; i < 3; i++) {
			uint32_t want = i < 2 ? CHUNK : 13;

			CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, i * CHUNK), want);
			CU_ASSERT_TRUE(is_pattern(buffer(), 1, i * CHUNK, want));
		}
		CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, len), 0);
		file->ops->close(file);
		expect_success(child);
		end();
	}
}

static void test_stream_sink(void)
{
	const struct put p = { .size = 2 * CHUNK + 13, .salt = 1 };

	for (int n = 0; n < 2 * KINDS; n++) {
		struct fm_file *file;
		int ends[2];
		pid_t child;

		begin(ON_DISK, n % 2);
		make_ends(n / 2, 1, ends);
		fflush(stdout);
		child = drain(ends[0], ends[1], p.size);
		close(ends[0]);
		CU_ASSERT_EQUAL_FATAL(sink(ends[1], FM_SIZE_UNKNOWN, &file), 0);
		CU_ASSERT_TRUE(file->is_stream && !file->has_fixed_size);
		CU_ASSERT_EQUAL(put_bytes(&l, file, &p), 0);
		CU_ASSERT_EQUAL(file->ops->publish(file, p.size + 1, &written, true, &err), -EIO);
		CU_ASSERT_EQUAL(file->ops->publish(file, p.size, &written, true, &err), 0);
		file->ops->close(file);
		expect_success(child);
		end();
	}
}

/* Goal: a read that nobody will ever answer can be given up; so can one behind which nothing is
 * under way. */
static void test_stream_cancel(void)
{
	for (int n = 0; n < 2 * KINDS; n++) {
		struct waited w = { .io = { .done = waited_done, .buf = buffer(), .len = CHUNK } };
		struct waited second = w;
		struct fm_file *file;
		struct fm_attr attr;
		int ends[2];

		begin(ON_DISK, n % 2);
		make_ends(n / 2, 0, ends);
		CU_ASSERT_EQUAL_FATAL(fm_caller_source(ends[0], &file, &attr, &err), 0);
		file->ops->cancel(file, &l.io, &w.io);		/* not begun: nothing happens */
		file->ops->read(file, &l.io, &w.io);
		for (int i = 0; i < 3; i++)
			fm_loop_step(l.loop, 1000000);
		CU_ASSERT_EQUAL(w.calls, 0);
		/* One at a time, in order. */
		file->ops->read(file, &l.io, &second.io);
		wait_for(&l, &second);
		CU_ASSERT_EQUAL(second.io.res, -ESPIPE);
		file->ops->cancel(file, &l.io, &w.io);
		wait_for(&l, &w);
		CU_ASSERT_EQUAL(w.io.res, -ECANCELED);
		CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 10, 4096), -ESPIPE);
		close(ends[1]);
		CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 10, FM_IO_STREAM), 0);
		file->ops->close(file);
		end();
	}
}

/* Goal: a reader that goes away is an error, not a signal's end (the daemon ignores SIGPIPE). */
static void test_stream_broken(void)
{
	struct fm_file *file;
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	begin(ON_DISK, false);
	make_ends(PIPE, 1, ends);
	CU_ASSERT_EQUAL_FATAL(sink(ends[1], FM_SIZE_UNKNOWN, &file), 0);
	close(ends[0]);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), -EPIPE);
	file->ops->discard(file);
	file->ops->close(file);
	end();
}

static void test_terminal(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	int master, slave;

	begin(ON_DISK, false);
	if (openpty(&master, &slave, NULL, NULL, NULL) < 0) {
		printf("SKIP: no terminals here\n");
		end();
		return;
	}
	CU_ASSERT_EQUAL_FATAL(fm_caller_source(slave, &file, &attr, &err), 0);
	CU_ASSERT_TRUE(file->is_stream);
	CU_ASSERT_EQUAL(write(master, "hello\n\x04", 7), 7);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), 100, 0), 6);
	file->ops->close(file);
	close(master);
	end();
}

/* ------------------------------------------------------------------------------------- refusals */

static void test_dev_null(void)
{
	struct fm_file *file;
	struct fm_attr attr;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(sink(open("/dev/null", O_WRONLY), 1 << 20, &file), 0);
	CU_ASSERT_FALSE(file->is_stream);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), CHUNK, 1 << 19), CHUNK);
	CU_ASSERT_EQUAL(file->ops->publish(file, 1 << 20, &written, true, &err), 0);
	file->ops->close(file);
	CU_ASSERT_EQUAL_FATAL(fm_caller_source(open("/dev/null", O_RDONLY), &file, &attr, &err), 0);
	CU_ASSERT_TRUE(file->is_stream);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, 0), 0);
	file->ops->close(file);
	end();
}

static void test_refused(void)
{
	static const struct {
		const char *name;
		int flags;
		int source_ret, sink_ret;
		const char *text;
	} cases[] = {
		{ ".", O_RDONLY | O_DIRECTORY, -EISDIR, -EISDIR, "is a directory" },
		{ "/dev/zero", O_RDWR, -EINVAL, -EINVAL, "is a device" },
		{ "/dev/urandom", O_RDONLY, -EINVAL, -EINVAL, "is a device" },
		{ "/proc/self/oom_score_adj", O_RDWR, -EINVAL, -EINVAL, "the kernel makes up" },
		{ "full", O_RDONLY, 0, -EBADF, "not opened for writing" },
		{ "full", O_PATH, -EBADF, -EBADF, "not opened for writing" },
		{ "full", O_RDWR, 0, -EEXIST, "must be empty" },
		{ "empty", O_WRONLY, -EBADF, 0, "not opened for reading" },
		{ "empty", O_WRONLY | O_APPEND, -EBADF, -EINVAL, "appending" },
	};
	unsigned fds;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("full", 100, 1, false), 0);
	CU_ASSERT_EQUAL(put("empty", 0, 1, false), 0);
	fds = fds_open();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *name = cases[i].name[0] == '/' ? cases[i].name : at(cases[i].name);
		struct fm_file *file;
		struct fm_attr attr;
		int ret;

		ret = fm_caller_source(open(name, cases[i].flags), &file, &attr, &err);
		CU_ASSERT_EQUAL(ret, cases[i].source_ret);
		if (ret == 0)
			file->ops->close(file);
		ret = sink(open(name, cases[i].flags), 1, &file);
		CU_ASSERT_EQUAL(ret, cases[i].sink_ret);
		if (ret == 0)
			file->ops->close(file);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].text));
		CU_ASSERT_EQUAL(fds_open(), fds);
	}
	CU_ASSERT_EQUAL(sink(-1, 1, &(struct fm_file *){ NULL }), -EBADF);
	CU_ASSERT_EQUAL(
		sink(open(at("empty"), O_WRONLY), UINT64_C(1) << 60, &(struct fm_file *){NULL}),
		-ENOSPC);
	CU_ASSERT_EQUAL(fds_open(), fds);
	CU_ASSERT_EQUAL(store_verify(&l, s, "full", 100, 1), 0);
	end();
}

/* Runs in a child that is `nobody`, the service; fds are of a file that is root's, the caller's. */
static int service_publishes(int fd)
{
	struct fm_file *file;
	struct lane lane;

	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	lane_open(&lane, true);
	if (sink(fd, 4096, &file) < 0)
		return 2;
	if (file_write(&lane, file, buffer(), 4096, 0) != 4096)
		return 3;
	if (file->ops->publish(file, 4096, &written, true, &err) < 0)
		return 4;
	if (!file->note || !strstr(file->note, "left to the caller"))
		return 5;
	file->ops->close(file);
	lane_close(&lane);
	return 0;
}

/*
 * Goal: a service that may not read the caller's directory writes what was passed, and leaves mode
 * and time to the caller.
 */
static void test_two_users(void)
{
	int fd, status = -1;
	struct stat st;
	pid_t child;

	if (geteuid() != 0) {
		printf("SKIP: needs root, to become another user\n");
		return;
	}
	begin(IN_MEMORY, false);
	CU_ASSERT_EQUAL(chmod(dir, 0700), 0);
	fd = open(at("f"), O_CREAT | O_RDWR, 0600);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(service_publishes(fd));
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 4096);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	close(fd);
	end();
}

static const struct fm_test tests[] = {
	{ "a caller's file takes and gives every length", test_regular },
	{ "a small file is read when it is opened", test_small },
	{ "a small file that ends early is no source", test_small_cut },
	{ "an abandoned target is empty again", test_discard },
	{ "the rest of a file is a stream", test_half_read },
	{ "what is read as a whole stays at its beginning", test_position_stays },
	{ "what is known to be whole is read from its beginning", test_known_to_be_whole },
	{ "a stream is read up to its end", test_stream_source },
	{ "a stream takes all that is written", test_stream_sink },
	{ "a stream that waits can be given up", test_stream_cancel },
	{ "a reader that goes away is an error", test_stream_broken },
	{ "a terminal is a stream", test_terminal },
	{ "/dev/null forgets, and is empty", test_dev_null },
	{ "what is no file or stream is refused by its kind", test_refused },
	{ "a service without rights to the file writes it all the same", test_two_users },
};
FM_TEST_MAIN("store caller", tests)
