//go:build unix

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program can be run. It consists of a path with the required environment and arguments.
type program struct {
	path string
	env  []string
	args []string // before all other arguments, such as the script for an interpreter
}

// find returns a peer's program: unpacked by scripts/install-peers, or else the machine's own. If
// it is absent, the test is skipped or fails.
func find(t *testing.T, pkg, name string) program {
	t.Helper()
	dir := peerDir(t, pkg)
	// This is like a shell, but also searches the system directories with daemons.
	path := []string{dir + "/usr/bin", dir + "/usr/sbin", dir + "/bin", dir + "/sbin"}
	path = append(path, filepath.SplitList(os.Getenv("PATH"))...)
	for _, d := range append(path, "/usr/sbin", "/sbin") {
		file, err := exec.LookPath(filepath.Join(d, name))
		if err != nil {
			continue
		}
		return program{path: file, env: libraries(dir)}
	}
	absent(t, "%s is not here; scripts/install-peers fetches it (package %s)", name, pkg)
	panic("unreachable")
}

// peerDir returns the directory in which scripts/install-peers unpacks a package.
func peerDir(t *testing.T, pkg string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../bin/peers", pkg))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// libraries returns the environment in which a package's programs find the libraries in the same
// package, or nil if the package has no libraries.
func libraries(dir string) []string {
	var libs []string
	for _, pattern := range []string{"/usr/lib/*-linux-gnu*", "/lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(dir + pattern)
		libs = append(libs, found...)
	}
	if len(libs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libs, ":")}
}

// absent ends a test because something is missing. On a laptop the test is skipped; in CI it
// fails, because a skipped test would look like a passed one.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("absent in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// command prepares a run of p in its own process group, so that everything it starts ends with
// it.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, slices.Concat(p.args, args)...)
	// The locale is C, because some peers translate the messages that tests read.
	cmd.Env = append(os.Environ(), append(p.env, "LC_ALL=C")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	diesWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs p to its end and returns its combined output.
func (p program) run(ctx context.Context, args ...string) (string, error) {
	out, err := p.command(ctx, args...).CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("still running at its deadline: %w", err)
	}
	return string(out), err
}

// The time that programs may take, on a busy machine and with a disk that stalls for seconds.
// Only a failing test waits this long.
const (
	startPatience = time.Minute // until the program is ready
	endPatience   = time.Minute // until the program ends when it is stopped
)

// A daemon is a server that runs until its test ends.
type daemon struct {
	cmd  *exec.Cmd
	log  string        // file with its output
	told bool          // it was asked to end
	done chan struct{} // closed when it has ended
	err  error         // result; valid once done is closed
}

// start runs p as a daemon. Its output is shown if the test fails.
func (p program) start(t *testing.T, args ...string) *daemon {
	t.Helper()
	// The output is a file, not a pipe: children that outlive the server would keep a pipe open.
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d := &daemon{log: log.Name(), done: make(chan struct{})}
	d.cmd = p.command(context.Background(), args...)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		// Kill the children that it forked for single transfers, too.
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		close(d.done)
	}()
	t.Cleanup(func() {
		lines := 60
		if t.Failed() && filepath.Base(p.path) == "haul" {
			t.Logf("UDP sockets, and threads of haul: name, state, where it waits in the kernel, system call\n%s", d.threads())
			d.dumpGoroutines()
			lines = 600
		}
		_ = d.stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(p.path), d.said(lines))
		}
	})
	return d
}

// threads describes the state of the daemon's threads, and what the kernel has queued and dropped
// for the UDP sockets of its network, if the system has /proc and the daemon runs.
func (d *daemon) threads() string {
	var all strings.Builder
	for _, table := range []string{"udp", "udp6"} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", d.cmd.Process.Pid, table))
		all.Write(b[:min(len(b), 16<<10)])
	}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", d.cmd.Process.Pid)) // the pattern is valid
	for _, task := range tasks {
		for _, name := range []string{"comm", "stat", "wchan", "syscall"} {
			b, _ := os.ReadFile(filepath.Join(task, name)) // the thread may have ended
			fields := strings.Fields(string(b))
			if name == "stat" {
				fields = fields[min(2, len(fields)):min(3, len(fields))] // after the number and the name
			}
			fmt.Fprint(&all, strings.Join(fields, " "), "  ")
		}
		all.WriteByte('\n')
	}
	return all.String()
}

// dumpGoroutines ends a daemon that is a Go program, and makes it print its goroutines first.
func (d *daemon) dumpGoroutines() {
	if d.told || d.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		return // it is ending, or has ended
	}
	select {
	case <-d.done:
	case <-time.After(endPatience):
	}
}

// ready waits until the daemon's output matches a pattern, and returns the match and its groups.
func (d *daemon) ready(t *testing.T, pattern *regexp.Regexp) []string {
	t.Helper()
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		if m := pattern.FindStringSubmatch(d.said(100)); m != nil {
			return m
		}
		select {
		case <-d.done:
			t.Fatalf("%s ended at once: %v", filepath.Base(d.cmd.Path), d.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("%s has not said %v within %v", filepath.Base(d.cmd.Path), pattern, startPatience)
	panic("unreachable")
}

// end asks the daemon to end, as an administrator would. It sends only one signal, because a
// second one would hurry the daemon.
func (d *daemon) end() {
	if !d.told {
		d.told = true
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	}
}

// stop asks the daemon to end, waits until it has, and returns the result.
func (d *daemon) stop() error {
	d.end()
	select {
	case <-d.done:
		return d.err
	case <-time.After(endPatience):
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		<-d.done
		return fmt.Errorf("ignored SIGTERM for %v", endPatience)
	}
}

// said returns the last lines of the daemon's output so far.
func (d *daemon) said(lines int) string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
