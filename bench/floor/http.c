/*
 * The floor of HTTP over TCP: one thread, epoll, and for each request no system
 * call that could be left out. A connection is read from as soon as it is
 * accepted, epoll hears of it only when it has to wait, and where it ends with
 * the answer the FIN goes with the last segment.
 *
 * A yardstick, not a server: no timers, no checks beyond the empty line that
 * ends a request, and clients that send one request at a time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	EVENTS = 512,           /* taken from epoll at once */
	MAX_CONNS = 1 << 16,    /* and so file descriptors */
	BACKLOG = 4096,
	MAX_REQUEST = 4096,     /* bytes */
	MAX_ANSWER = 1 << 20,   /* bytes of the body */
	HEAD = 128,             /* bytes, more than any head here has */
	AES_BLOCK = 16,
	FILE_PIECE = 1 << 30,   /* bytes for sendfile at once */
	DEFER_SECONDS = 10,     /* of silence, after which a client is accepted all the same */
};

struct conn {
	int socket;
	uint32_t events;        /* that epoll was told, 0 if it does not know the socket */
	const char *rest;       /* of an answer */
	size_t left;            /* bytes of it */
	char *own;              /* memory to free behind it, or NULL */
	off_t at, end;          /* of the file, still to be sent */
	char *kept;             /* a request that is not complete, or NULL */
	size_t got;             /* bytes of it */
	uint64_t due;           /* when to answer, in ns */
	struct conn *next;      /* of those that are due later */
	bool waiting;           /* for that */
};

static struct conn conns[MAX_CONNS]; /* by file descriptor */
static struct conn *first, *last;    /* that are due */
static int ep, file = -1;
static off_t file_size;

static struct {
	bool close, encrypted, defer;
	uint64_t delay;         /* ns */
	size_t size;
} how;

static char head[HEAD], *answer, *plain;
static size_t head_size, answer_size, plain_size;

static void fail(const char *doing, const char *what)
{
	fprintf(stderr, "floor: %s %s: %s\n", doing, what, strerror(errno));
	exit(1);
}

/* The few functions of libcrypto that are needed, which is there wherever
 * anything speaks TLS, without its headers. */
static struct {
	void *(*ctx_new)(void);
	const void *(*aes_128_cbc)(void);
	int (*init)(void *, const void *, void *, const unsigned char *, const unsigned char *);
	int (*update)(void *, unsigned char *, int *, const unsigned char *, int);
	int (*pad)(void *, int);
	int (*random)(unsigned char *, int);
	void *ctx;
} crypto;

static void *symbol(void *library, const char *name)
{
	void *s = dlsym(library, name);
	if (!s) {
		fprintf(stderr, "floor: libcrypto.so.3 has no %s\n", name);
		exit(1);
	}
	return s;
}

static void load_crypto(void)
{
	static const unsigned char key[] = "haul-bench-aes16"; /* as package tcpprog has it */
	void *l = dlopen("libcrypto.so.3", RTLD_NOW);
	if (!l) {
		fprintf(stderr, "floor: --encrypted wants OpenSSL: %s\n", dlerror());
		exit(1);
	}
	*(void **)&crypto.ctx_new = symbol(l, "EVP_CIPHER_CTX_new");
	*(void **)&crypto.aes_128_cbc = symbol(l, "EVP_aes_128_cbc");
	*(void **)&crypto.init = symbol(l, "EVP_EncryptInit_ex");
	*(void **)&crypto.update = symbol(l, "EVP_EncryptUpdate");
	*(void **)&crypto.pad = symbol(l, "EVP_CIPHER_CTX_set_padding");
	*(void **)&crypto.random = symbol(l, "RAND_bytes");
	crypto.ctx = crypto.ctx_new();
	if (!crypto.ctx || !crypto.init(crypto.ctx, crypto.aes_128_cbc(), NULL, key, NULL) || !crypto.pad(crypto.ctx, 0)) {
		fprintf(stderr, "floor: prepare AES-128-CBC: it fails\n");
		exit(1);
	}
}

/* Writes a vector of random bytes, and the body encrypted with it. */
static void encrypt(char *to)
{
	unsigned char *iv = (unsigned char *)to;
	int n = 0;
	if (crypto.random(iv, AES_BLOCK) != 1 || !crypto.init(crypto.ctx, NULL, NULL, NULL, iv) ||
	    !crypto.update(crypto.ctx, iv + AES_BLOCK, &n, (const unsigned char *)plain, (int)plain_size) || (size_t)n != plain_size) {
		fprintf(stderr, "floor: encrypt an answer: it fails\n");
		exit(1);
	}
}

/* Prepares the answer that all get, or its head. */
static void prepare_answer(void)
{
	size_t pad = how.encrypted ? AES_BLOCK - how.size % AES_BLOCK : 0, body;
	plain_size = how.size + pad; /* PKCS #7 */
	body = file >= 0 ? (size_t)file_size : plain_size + (how.encrypted ? AES_BLOCK : 0);
	head_size = (size_t)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%s\r\n", body,
				     how.close ? "Connection: close\r\n" : "");
	if (file >= 0)
		return;
	answer_size = head_size + body;
	plain = malloc(plain_size);
	answer = malloc(answer_size);
	if (!plain || !answer)
		fail("keep", "the answer");
	for (size_t i = 0; i < how.size; i++)
		plain[i] = (char)('a' + i % 26);
	memset(plain + how.size, (int)pad, pad);
	memcpy(answer, head, head_size);
	if (how.encrypted)
		load_crypto();
	else
		memcpy(answer + head_size, plain, plain_size);
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void hang_up(struct conn *c)
{
	close(c->socket); /* which takes it out of epoll as well */
	free(c->own);
	free(c->kept);
	memset(c, 0, sizeof *c);
}

static void watch(struct conn *c, uint32_t events)
{
	if (c->events == events)
		return;
	struct epoll_event e = {events, {.fd = c->socket}};
	if (epoll_ctl(ep, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->socket, &e))
		fail("watch", "a connection");
	c->events = events;
}

/* Sends what is left of an answer, as far as the socket takes it. */
static void transmit(struct conn *c)
{
	int more = MSG_NOSIGNAL | (how.close || c->at < c->end ? MSG_MORE : 0);
	while (c->left > 0 || c->at < c->end) {
		ssize_t n;
		if (c->left > 0) {
			n = send(c->socket, c->rest, c->left, more);
			if (n > 0) {
				c->rest += n;
				c->left -= (size_t)n;
			}
		} else {
			off_t all = c->end - c->at;
			n = sendfile(c->socket, file, &c->at, (size_t)(all < FILE_PIECE ? all : FILE_PIECE));
		}
		if (n < 0 && errno == EAGAIN) {
			watch(c, EPOLLOUT);
			return;
		}
		if (n <= 0) { /* the client has gone, or the file was cut */
			hang_up(c);
			return;
		}
	}
	free(c->own);
	c->own = NULL;
	if (how.close)
		hang_up(c);
	else
		watch(c, EPOLLIN);
}

static void respond(struct conn *c)
{
	if (file >= 0) {
		c->rest = head, c->left = head_size;
		c->at = 0, c->end = file_size;
	} else {
		c->rest = answer, c->left = answer_size;
	}
	if (how.encrypted)
		encrypt(answer + head_size);
	transmit(c);
	/* The next one is encrypted in the same place: what waits needs its own. */
	if (how.encrypted && c->left > 0 && !c->own) {
		c->own = malloc(c->left);
		if (!c->own)
			fail("keep", "the rest of an answer");
		memcpy(c->own, c->rest, c->left);
		c->rest = c->own;
	}
}

/* Puts an answer off: all have the same delay, so that the last comes last. */
static void put_off(struct conn *c)
{
	c->due = now() + how.delay;
	c->waiting = true;
	c->next = NULL;
	if (first)
		last->next = c;
	else
		first = c;
	last = c;
}

static void respond_due(void)
{
	for (uint64_t t = first ? now() : 0; first && first->due <= t;) {
		struct conn *c = first;
		first = c->next;
		c->waiting = false;
		respond(c);
	}
}

/* Reads, and answers once a request is complete. */
static void readable(struct conn *c)
{
	static char in[MAX_REQUEST];
	if (c->waiting) { /* the client has gone: it has nothing to say before the answer */
		if (epoll_ctl(ep, EPOLL_CTL_DEL, c->socket, NULL))
			fail("forget", "a connection");
		c->events = 0;
		return;
	}
	if (c->kept)
		memcpy(in, c->kept, c->got);
	ssize_t n = recv(c->socket, in + c->got, sizeof in - c->got, 0);
	if (n < 0 && errno == EAGAIN) {
		watch(c, EPOLLIN);
		return;
	}
	if (n <= 0) {
		hang_up(c);
		return;
	}
	c->got += (size_t)n;
	if (memmem(in, c->got, "\r\n\r\n", 4)) {
		free(c->kept);
		c->kept = NULL;
		c->got = 0;
		if (how.delay) {
			watch(c, EPOLLIN);
			put_off(c);
		} else {
			respond(c);
		}
		return;
	}
	if (c->got == sizeof in || (!c->kept && !(c->kept = malloc(sizeof in)))) {
		hang_up(c);
		return;
	}
	memcpy(c->kept, in, c->got);
	watch(c, EPOLLIN);
}

static void accept_all(int listening)
{
	for (;;) {
		int s = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (s < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
			perror("floor: accept");
		if (s < 0)
			return;
		if (s >= MAX_CONNS) {
			close(s);
			continue;
		}
		conns[s].socket = s;
		readable(&conns[s]);
	}
}

static int listen_at(const char *address, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	int on = 1, seconds = DEFER_SECONDS, s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (inet_pton(AF_INET, address, &a.sin_addr) != 1) {
		fprintf(stderr, "floor: --address %s is no IPv4 address\n", address);
		exit(2);
	}
	/* Accepted connections inherit the second and the third. */
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
	    (how.defer && setsockopt(s, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds)) ||
	    bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, BACKLOG))
		fail("listen on", address);
	return s;
}

/* Allows as many open files as there may be connections, or as the hard limit lets us. */
static void allow_files(void)
{
	struct rlimit most;
	if (getrlimit(RLIMIT_NOFILE, &most))
		return;
	most.rlim_cur = most.rlim_max < MAX_CONNS ? most.rlim_max : MAX_CONNS;
	setrlimit(RLIMIT_NOFILE, &most);
}

static void open_file(const char *path)
{
	struct stat s;
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &s))
		fail("open", path);
	file_size = s.st_size;
}

static void usage(void)
{
	fprintf(stderr, "usage: floor-http [--address A] [--port N] [--size BYTES] [--close] [--encrypted] [--delay-ms N] [--defer] [--file PATH]\n");
	exit(2);
}

/* Reads the options and returns the socket that listens. */
static int start(int argc, char **argv)
{
	static const struct option known[] = {
		{"address", required_argument, NULL, 'a'}, {"port", required_argument, NULL, 'p'},
		{"size", required_argument, NULL, 's'},    {"close", no_argument, NULL, 'c'},
		{"encrypted", no_argument, NULL, 'e'},     {"delay-ms", required_argument, NULL, 'd'},
		{"defer", no_argument, NULL, 'D'},         {"file", required_argument, NULL, 'f'},
		{NULL, 0, NULL, 0},
	};
	const char *address = "127.0.0.1", *port = "8080";
	how.size = 1024;
	for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (o) {
		case 'a': address = optarg; break;
		case 'p': port = optarg; break;
		case 's': how.size = (size_t)atol(optarg); break;
		case 'c': how.close = true; break;
		case 'e': how.encrypted = true; break;
		case 'd': how.delay = (uint64_t)atol(optarg) * 1000000; break;
		case 'D': how.defer = true; break;
		case 'f': open_file(optarg); break;
		default: usage();
		}
	}
	if (optind != argc || how.size < 1 || how.size > MAX_ANSWER)
		usage();
	prepare_answer();
	return listen_at(address, port);
}

int main(int argc, char **argv)
{
	allow_files();
	int listening = start(argc, argv);
	struct epoll_event ready[EVENTS], e = {EPOLLIN, {.fd = listening}};
	ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, listening, &e))
		fail("watch", "the socket that listens");
	for (;;) {
		struct timespec wait = {0, 0};
		if (first) {
			uint64_t t = now(), ns = first->due > t ? first->due - t : 0;
			wait = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
		}
		int n = epoll_pwait2(ep, ready, EVENTS, first ? &wait : NULL, NULL);
		for (int i = 0; i < n; i++) {
			int s = ready[i].data.fd;
			if (s == listening)
				accept_all(listening);
			else if (conns[s].left > 0 || conns[s].at < conns[s].end)
				transmit(&conns[s]);
			else
				readable(&conns[s]);
		}
		respond_due();
	}
}
