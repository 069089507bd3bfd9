// SPDX-License-Identifier: Apache-2.0
/*
 * The responder: answers each UDP datagram to its address with the same bytes (RFC 862). It runs in a
 * router, which may be a guest that has no libraries and sees no file of the host, so it needs nothing
 * but a kernel: no C library, a few system calls, one small file.
 *
 *	isolane-responder ADDRESS PORT	the address as 8 or 32 hexadecimal digits
 *
 * Writes "ready" once its socket takes datagrams; a number in place of that is the error (errno).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* Datagrams of one system call: what waits is answered together, and none waits for others. */
#define BATCH 64
#define LONGEST 2048

static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];
static struct sockaddr_in6 senders[BATCH];
static char bytes[BATCH][LONGEST];

static long call(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
#else
#error "the responder's system calls are written for x86_64 and aarch64"
#endif
}

static void say(const char *text, long length)
{
	call(SYS_write, 1, (long)text, length, 0, 0);
}

static void end(long error)
{
	char digits[4] = { '0' + error / 100 % 10, '0' + error / 10 % 10, '0' + error % 10, '\n' };

	say(digits, sizeof(digits));
	call(SYS_exit_group, 1, 0, 0, 0, 0);
}

/* Reads pairs of hexadecimal digits; gives their number. */
static int read_address(const char *text, unsigned char *address)
{
	int length = 0;

	for (; text[2 * length] && length < 16; length++) {
		unsigned char byte = 0;

		for (int i = 0; i < 2; i++) {
			char digit = text[2 * length + i];

			byte = byte << 4 | (digit <= '9' ? digit - '0' : digit - 'a' + 10);
		}
		address[length] = byte;
	}
	return length;
}

static int open_socket(const char *address, const char *port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	unsigned char found[16];
	int ipv4 = read_address(address, found) == 4;
	unsigned short number = 0;
	long socket, failed;

	while (*port)
		number = number * 10 + (*port++ - '0');
	socket = call(SYS_socket, ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0, 0, 0);
	if (socket < 0)
		end(-socket);
	v4.sin_port = v6.sin6_port = __builtin_bswap16(number);
	__builtin_memcpy(&v4.sin_addr, found, 4);
	__builtin_memcpy(&v6.sin6_addr, found, 16);
	failed = ipv4 ? call(SYS_bind, socket, (long)&v4, sizeof(v4), 0, 0) :
			call(SYS_bind, socket, (long)&v6, sizeof(v6), 0, 0);
	if (failed)
		end(-failed);
	return socket;
}

static void prepare(int received)
{
	for (int i = 0; i < received; i++) {
		parts[i].iov_base = bytes[i];
		parts[i].iov_len = LONGEST;
		messages[i].msg_hdr.msg_name = &senders[i];
		messages[i].msg_hdr.msg_namelen = sizeof(senders[i]);
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
}

/* Answers for ever. What cannot be sent is lost, as on any wire. */
static void answer(int socket)
{
	long received = BATCH, sent, done;

	for (;;) {
		prepare(received > 0 ? received : 0);
		received = call(SYS_recvmmsg, socket, (long)messages, BATCH, MSG_WAITFORONE, 0);
		if (received < 0 && received != -EINTR && received != -ECONNREFUSED)
			end(-received);
		for (done = 0; done < received; done++)
			parts[done].iov_len = messages[done].msg_len;
		for (done = 0; done<received; done += sent> 0 ? sent : 1)
			sent = call(SYS_sendmmsg, socket, (long)&messages[done], received - done, 0,
				    0);
	}
}

__attribute__((used)) static void begin(long *stack)
{
	char **words = (char **)(stack + 1);

	call(SYS_prctl, PR_SET_NAME, (long)"isl-responder", 0, 0, 0);
	if (stack[0] != 3)
		end(EINVAL);
	int socket = open_socket(words[1], words[2]);

	say("ready\n", 6);
	answer(socket);
}

/* The kernel starts a program here, with its words on the stack. */
#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall "
	"begin\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n\tbl begin\n");
#endif
