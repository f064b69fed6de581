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

// A program can be run: its path, and what must be in the environment for it
// and on its command line.
type program struct {
	path string
	env  []string
	args []string // before all others, such as the script for an interpreter
}

// find returns a peer's program: the one scripts/install-peers unpacked, or
// else the machine's own. A peer that is absent ends the test.
func find(t *testing.T, pkg, name string) program {
	t.Helper()
	dir := peerDir(t, pkg)
	// As a shell would, but with the system directories, where daemons live.
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

// peerDir is where scripts/install-peers unpacks a package.
func peerDir(t *testing.T, pkg string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../bin/peers", pkg))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// libraries returns the environment in which a package's programs find the
// libraries that came with it, beside them; nil if none did.
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

// absent ends a test for want of something. On a laptop that is nobody's
// fault; in CI it would pass for a test that held.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("absent in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// command prepares a run of p in a process group of its own, so that whatever
// it starts goes when it goes.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, slices.Concat(p.args, args)...)
	// C, because some peers translate the messages that we read.
	cmd.Env = append(os.Environ(), append(p.env, "LC_ALL=C")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	diesWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// run runs p to its end and returns what it said on both streams together.
func (p program) run(ctx context.Context, args ...string) (string, error) {
	out, err := p.command(ctx, args...).CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("still running at its deadline: %w", err)
	}
	return string(out), err
}

// The time that programs may take, on a busy machine and with a disk that stalls for
// seconds. Only a test that fails waits for this.
const (
	startPatience = time.Minute // until it is ready
	endPatience   = time.Minute // to end, when it is stopped
)

// A daemon is a server that runs until its test ends.
type daemon struct {
	cmd  *exec.Cmd
	log  string        // the file that holds what it says
	told bool          // to end
	done chan struct{} // closed when it has ended
	err  error         // how; once done
}

// start runs p as a daemon. Its output is shown if the test fails.
func (p program) start(t *testing.T, args ...string) *daemon {
	t.Helper()
	// A file and no pipe: children that outlive the server would hold a pipe open.
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
		// Children that it forked for single transfers go when it goes.
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

// threads describes what the daemon's threads do, and what the kernel has queued and dropped for the
// UDP sockets of its network, where the system has /proc and the daemon runs.
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

// dumpGoroutines ends a daemon that is a Go program, and has it print its goroutines first.
func (d *daemon) dumpGoroutines() {
	if d.told || d.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		return // it ends, or has ended
	}
	select {
	case <-d.done:
	case <-time.After(endPatience):
	}
}

// ready waits until the daemon has said what matches a pattern, and returns the match
// and its groups.
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

// end has the daemon end, as an administrator would. Once: a second
// signal means haste.
func (d *daemon) end() {
	if !d.told {
		d.told = true
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	}
}

// stop has the daemon end, waits until it has, and returns how it went.
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

// said returns the last lines of what the daemon has said so far.
func (d *daemon) said(lines int) string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
