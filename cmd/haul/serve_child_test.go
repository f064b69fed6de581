//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/repeat"
)

// A child is haul in a process of its own, which can handle signals, return exit codes, and give up
// its rights.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *transcript
	url    string // URL of the server's root
	addr   string // the server's address as HOST:PORT
}

// childOptions say how to start a child, apart from its arguments.
type childOptions struct {
	env       []string
	attr      *syscall.SysProcAttr
	dir       string     // working directory
	systemd   bool       // pass the child its own process ID in the environment, as systemd does
	openFiles int        // limit of descriptors; 0 leaves it unchanged
	ignored   string     // signals that are ignored, as under nohup
	first     string     // shell commands that run before the child
	stdin     *os.File   // standard input; nil means no input
	files     []*os.File // files that the child inherits, from descriptor 3 on
}

// anyPort makes a server use a free port on the loopback interface.
var anyPort = []string{"--tftp", "127.0.0.1:0"}

// startChild runs "haul serve" on a free port until it has printed its address.
func startChild(t *testing.T, o childOptions, args ...string) *child {
	t.Helper()
	c := runChild(t, o, append(append([]string{"serve"}, anyPort...), args...)...)
	c.awaitURL()
	return c
}

// awaitURL waits until a server has printed its URL.
func (c *child) awaitURL() {
	c.t.Helper()
	const before = " on tftp://"
	text := c.await(before, "\n")
	_, text, _ = strings.Cut(text, before)
	c.addr = strings.TrimRight(text[:strings.IndexAny(text+"\n", "\n")], `"}`)
	c.url = "tftp://" + c.addr + "/"
}

// runChild starts haul.
func runChild(t *testing.T, o childOptions, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := o.first
	if o.openFiles > 0 {
		before += fmt.Sprintf("ulimit -n %d && ", o.openFiles)
	}
	if o.ignored != "" {
		before += "trap '' " + o.ignored + "; "
	}
	if o.systemd {
		before += "LISTEN_PID=$$ WATCHDOG_PID=$$ "
	}
	switch {
	case before != "":
		args = append([]string{"-c", before + `exec "$0" "$@"`, exe}, args...)
		exe = "/bin/sh"
	case runtime.GOOS == "linux":
		exe = "/proc/self/exe" // for a user who may not enter its directory
	}
	repeat.OnFailure(t)
	c := &child{t: t, cmd: exec.Command(exe, args...), stderr: newTranscript()}
	c.cmd.Env = append(os.Environ(), asHaul+"=1")
	c.cmd.Env = append(c.cmd.Env, o.env...)
	c.cmd.Stdout, c.cmd.Stderr = c.stderr, c.stderr
	if o.stdin != nil {
		c.cmd.Stdin = o.stdin
	}
	c.cmd.ExtraFiles, c.cmd.SysProcAttr, c.cmd.Dir = o.files, o.attr, o.dir
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // ProcessState has the result
		c.stderr.end()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			c.sayWhereItIs()
		}
		c.cmd.Process.Kill()
		c.stderr.await(func(_ string, ended bool) bool { return ended })
		if t.Failed() {
			t.Logf("%q said:\n%s", args, c.stderr)
		}
	})
	return c
}

// await waits until the child has printed all these texts, in order, and returns its output so far.
func (c *child) await(words ...string) string {
	c.t.Helper()
	said := false
	text, ok := c.stderr.await(func(text string, ended bool) bool {
		said = true
		for _, w := range words {
			_, rest, found := strings.Cut(text, w)
			text, said = rest, said && found
		}
		return said || ended
	})
	if !ok || !said {
		c.t.Fatalf("haul did not say %q", words)
	}
	return text
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("%v: %v", s, err)
	}
}

// ended reports whether the child has ended.
func (c *child) ended() bool {
	c.stderr.mu.Lock()
	defer c.stderr.mu.Unlock()
	return c.stderr.over
}

// stop ends a server with SIGTERM, and returns its output.
func (c *child) stop() string {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	return c.wantExit(0)
}

// waitEnded waits for the end, and returns the child's output.
func (c *child) waitEnded() string {
	c.t.Helper()
	text, ok := c.stderr.await(func(_ string, ended bool) bool { return ended })
	if !ok {
		c.t.Fatal("haul does not end")
	}
	return text
}

// wantExit waits for the end, checks the exit code, and returns the child's output.
func (c *child) wantExit(code int) string {
	c.t.Helper()
	text := c.waitEnded()
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit code %d (%v), want %d", got, c.cmd.ProcessState, code)
	}
	return text
}

// wantGet checks that a file can be fetched, and holds content.
func (c *child) wantGet(name, content string) {
	c.t.Helper()
	if code, got, errs := haul(c.t, "get", "-q", c.url+name, "-"); code != 0 || got != content {
		c.t.Errorf("get %s: exit code %d, %q, %s; want %q", name, code, got, errs, content)
	}
}

// wantNoGet checks that fetching a file fails with an exit code.
func (c *child) wantNoGet(name string, code int) {
	c.t.Helper()
	if got, out, errs := haul(c.t, "get", "-q", c.url+name, "-"); got != code {
		c.t.Errorf("get %s: exit code %d, %q, %s; want %d", name, got, out, errs, code)
	}
}

// wantPut checks that an upload ends with an exit code.
func (c *child) wantPut(name, content string, code int) {
	c.t.Helper()
	local := c.t.TempDir() + "/file"
	writeFile(c.t, local, content)
	if got, _, errs := haul(c.t, "put", "-q", local, c.url+name); got != code {
		c.t.Errorf("put %s: exit code %d, %s; want %d", name, got, errs, code)
	}
}

// dial returns a socket to send packets that haul's client would not send.
func (c *child) dial() *rawClient {
	c.t.Helper()
	to, err := net.ResolveUDPAddr("udp4", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return &rawClient{t: c.t, conn: conn, to: to}
}

// A rawClient sends any bytes over UDP.
type rawClient struct {
	t    *testing.T
	conn *net.UDPConn
	to   *net.UDPAddr // sender of the last packet
	had  []string     // packets that want has received
}

func (r *rawClient) send(packet string) {
	r.t.Helper()
	if _, err := r.conn.WriteToUDP([]byte(packet), r.to); err != nil {
		r.t.Fatal(err)
	}
}

// receive returns the next packet.
func (r *rawClient) receive() string {
	r.t.Helper()
	b := make([]byte, 1<<16)
	r.conn.SetReadDeadline(time.Now().Add(patience))
	n, from, err := r.conn.ReadFromUDP(b)
	if err != nil {
		r.t.Fatalf("no answer: %v", err)
	}
	r.to = from
	return string(b[:n])
}

// want waits for a packet. It skips repetitions of earlier packets, which occur on a busy machine.
func (r *rawClient) want(packet string) {
	r.t.Helper()
	for {
		got := r.receive()
		if got != packet && !slices.Contains(r.had, got) {
			r.t.Fatalf("got %q, want %q", got[:min(len(got), 60)], packet[:min(len(packet), 60)])
		}
		r.had = append(r.had, got)
		if got == packet {
			return
		}
	}
}

// nobody is a user ID that needs no entry in /etc/passwd.
const nobody = 65534

// servedDir creates a read-only directory with files, inside a directory that only this user may
// enter.
func servedDir(t *testing.T, files map[string]string) string {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), content)
	}
	if err := os.Chmod(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wantNames checks the names in a directory, in sorted order.
func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

// readRequest and ack return packets of TFTP (RFC 1350 §5).
func readRequest(name string) string { return "\x00\x01" + name + "\x00octet\x00" }
func ack(block byte) string          { return "\x00\x04\x00" + string(block) }

// peekVar makes a child try, at each SIGUSR1, two things that a server does not need: to read the
// file in the variable, and to run a program. This shows what the kernel permits the process,
// whatever its code does.
const peekVar = "HAUL_TEST_PEEK"

func init() {
	path := os.Getenv(peekVar)
	if path == "" || os.Getenv(asHaul) == "" {
		return
	}
	onSignal(syscall.SIGUSR1, func() {
		_, reading := os.ReadFile(path)
		// Package exec would open /dev/null first.
		process, running := os.StartProcess("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{})
		if running == nil {
			_, running = process.Wait()
		}
		fmt.Fprintf(os.Stderr, "peek: reading: %s; running: %s.\n", errText(reading), errText(running))
	})
}

// onSignal calls f at each signal s.
func onSignal(s os.Signal, f func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, s)
	go func() {
		for range asked {
			f()
		}
	}()
}

func errText(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

// sayWhereItIs logs what the kernel has queued and dropped for UDP sockets, makes a running child
// print its goroutines, and waits for its end.
func (c *child) sayWhereItIs() {
	for _, table := range []string{"udp", "udp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", c.cmd.Process.Pid, table))
		if err == nil { // on Linux, while it runs
			c.t.Logf("sockets of the network:\n%s", b[:min(len(b), 16<<10)])
		}
	}
	if c.cmd.Process.Signal(syscall.SIGQUIT) == nil { // Windows does not have this signal
		c.stderr.await(func(_ string, ended bool) bool { return ended })
	}
}
