/* Stands for the interpreter in a process that the server of support/forked_command.py forked: what such a process starts as
 * `python -I .../casrewind/__main__.py WORDS` is a fork, too. This program has the process's pid, session and signals; it gives its
 * descriptors 0 to 2, its directory, arguments and environment to the server, and ends as the fork ends. When it is killed, the server
 * kills the fork. Anything else is started by the interpreter itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char text[1 << 17];
static size_t length;

static void add(const char *word)
{
    size_t size = strlen(word) + 1;
    if (length + size > sizeof text)
        exit(125);
    memcpy(text + length, word, size);
    length += size;
}

static void add_number(long long number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", number);
    add(digits);
}

static int ask(const char *program)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%.90s.socket", program);
    if (server < 0 || connect(server, (struct sockaddr *)&to, sizeof to) < 0)
        return -1;
    union {
        char space[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr aligned;
    } rights;
    struct iovec data = {text, length};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = rights.space, .msg_controllen = sizeof rights.space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(head), (int[]){0, 1, 2}, 3 * sizeof(int));
    return sendmsg(server, &message, MSG_NOSIGNAL) < 0 ? -1 : server;
}

int main(int count, char **words)
{
    static const int limits[] = {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS};
    char directory[4096], answer[32] = "";
    if (count < 3 || strcmp(words[1], "-I") || !strstr(words[2], "/casrewind/__main__.py")) {
        words[0] = PYTHON;
        execv(PYTHON, words);
        return 126;
    }
    mode_t mask = umask(077);
    umask(mask);
    add(getcwd(directory, sizeof directory) ? directory : "/");
    add_number(mask);
    for (int each = 0; each < 3; each++) {
        struct rlimit found;
        getrlimit(limits[each], &found);
        add_number((long long)found.rlim_cur);
        add_number((long long)found.rlim_max);
    }
    add_number(count - 3);
    for (int each = 3; each < count; each++)
        add(words[each]);
    for (char **each = environ; *each; each++)
        add(*each);
    int server = ask(words[0]);
    if (server < 0)
        return 125;
    ssize_t got;
    while ((got = recv(server, answer, sizeof answer - 1, 0)) < 0 && errno == EINTR)
        ;
    if (got <= 0)
        return 125;
    int code = atoi(answer);
    if (code < 0) {
        signal(-code, SIG_DFL);
        kill(getpid(), -code);
    }
    return code & 255;
}
