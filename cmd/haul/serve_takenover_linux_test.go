package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// takenOverVar makes a child try, at SIGUSR1, what somebody would try who has taken over the server.
// It holds a takeover as JSON.
const takenOverVar = "HAUL_TEST_TAKEN_OVER"

// A takeover names things that a server that was taken over tries to use.
type takeover struct {
	Served   string // the served directory
	Beside   string // a file that is not served, but that everybody may read
	Config   string // the configuration
	TCP, UDP string // addresses of sockets of another process
	Unix     string // the name of an abstract socket of another process
}

func init() {
	var t takeover
	if err := json.Unmarshal([]byte(os.Getenv(takenOverVar)), &t); err == nil && os.Getenv(asHaul) != "" {
		onSignal(syscall.SIGUSR1, func() {
			text, err := json.Marshal(t.try())
			fmt.Fprintf(os.Stderr, "tried: %s%s\n", text, errText(err))
		})
	}
}

// try returns the result of each attempt: "done", or the error.
func (t takeover) try() map[string]string {
	results := map[string]string{}
	attempt := func(what string, err error) { results[what] = errText(err) }
	read := func(path string) error { _, err := os.ReadFile(path); return err }
	write := func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	closed := func(c interface{ Close() error }, err error) error {
		if err == nil {
			err = c.Close()
		}
		return err
	}
	attempt("may read a served file", read(filepath.Join(t.Served, "kernel")))
	attempt("may write a served file", write(filepath.Join(t.Served, "new")))
	udp, err := net.Dial("udp4", t.UDP)
	if err == nil {
		_, err = udp.Write([]byte("x"))
	}
	attempt("may send a datagram", err)

	attempt("reads another file", read(t.Beside))
	attempt("writes another file", write(t.Beside))
	attempt("creates a file beside the served directory", write(t.Beside+".new"))
	attempt("links a file into the served directory", os.Link(t.Beside, filepath.Join(t.Served, "link")))
	attempt("makes a symbolic link", os.Symlink(t.Beside, filepath.Join(t.Served, "symlink")))
	attempt("reads the configuration", read(t.Config))
	attempt("writes the configuration", write(t.Config))
	attempt("reads the accounts", read("/etc/passwd"))
	process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{})
	if err == nil {
		_, err = process.Wait()
	}
	attempt("runs a program", err)
	attempt("becomes root", syscall.Setuid(0))
	attempt("changes the root directory", syscall.Chroot(t.Served))
	attempt("mounts", syscall.Mount("none", t.Served, "tmpfs", 0, ""))
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // which Landlock does not restrict
	l, err := plain.Listen(context.Background(), "tcp4", "127.0.0.1:0")
	attempt("listens on a TCP port", closed(l, err))
	tcp, err := net.Dial("tcp4", t.TCP)
	attempt("connects by TCP", closed(tcp, err))
	unix, err := net.Dial("unix", t.Unix)
	attempt("connects to an abstract socket", closed(unix, err))
	raw, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	if err == nil {
		_ = syscall.Close(raw)
	}
	attempt("opens a raw socket", err)
	pids, err := os.ReadFile(filepath.Join(t.Served, "pids"))
	if err != nil {
		attempt("reads pids", err)
	}
	for i, text := range strings.Fields(string(pids)) {
		pid, _ := strconv.Atoi(text)
		attempt(fmt.Sprintf("reads the environment of process %d", i), read(fmt.Sprintf("/proc/%d/environ", pid)))
		err := syscall.PtraceAttach(pid)
		if err == nil {
			_ = syscall.PtraceDetach(pid)
		}
		attempt(fmt.Sprintf("traces process %d", i), err)
	}
	return results
}

// A server that somebody has taken over can still use the served directories and its sockets, and
// nothing else: SECURITY.md lists both.
func TestTakenOver(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	top := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir), top, filepath.Dir(top)} { // so that only the confinement denies anything
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	config, beside := filepath.Join(top, "haul.toml"), filepath.Join(top, "beside")
	writeFile(t, config, "dirs = ['"+dir+"']\n[tftp]\nlisten = '127.0.0.1:0'\n[files]\nupload = 'create'\n[[hook]]\non = 'login'\nrun = ['/bin/true']\n")
	writeFile(t, beside, "text")
	if err := os.Chmod(beside, 0o666); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	name := fmt.Sprintf("@haul-taken-over-%d", os.Getpid())
	unix, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	env, err := json.Marshal(takeover{dir, beside, config, tcp.Addr().String(), udp.LocalAddr().String(), name})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--config", config}
	if os.Geteuid() == 0 {
		args = append(args, "--user", fmt.Sprintf("%d:%d", nobody, nobody))
	}
	c := runChild(t, childOptions{env: []string{takenOverVar + "=" + string(env)}}, args...)
	c.awaitURL()
	c.wantGet("kernel", "image")
	children := c.children() // the supervisor of the helper for hooks, and the spawner
	if len(children) != 2 {
		t.Fatalf("%d children", len(children))
	}
	writeFile(t, filepath.Join(dir, "pids"), fmt.Sprintln(children[0], children[1], os.Getppid()))
	if err := os.Chmod(filepath.Join(dir, "pids"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGUSR1)
	said := c.await("tried: ", "}done\n")
	if strings.Contains(said, "Landlock not available") {
		t.Skip("the kernel cannot confine processes")
	}
	_, text, _ := strings.Cut(said, "tried: ")
	text, _, _ = strings.Cut(text, "done\n")
	results := map[string]string{}
	if err := json.Unmarshal([]byte(text), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) < 25 {
		t.Errorf("only %d attempts", len(results))
	}
	refusals := []error{syscall.EACCES, syscall.EPERM, syscall.EXDEV}
	for _, what := range slices.Sorted(maps.Keys(results)) {
		got := results[what]
		allowed := strings.HasPrefix(what, "may ")
		refused := slices.ContainsFunc(refusals, func(err error) bool { return strings.Contains(got, err.Error()) })
		if allowed && got != "done" || !allowed && !refused {
			t.Errorf("%s: %s", what, got)
		}
	}
	if _, err := os.Stat(beside + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file beside the served directory: %v", err)
	}
	c.stop()
}
