package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needRoot skips a test that makes namespaces, or fails it if all tests must run.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("network namespaces need root, and here all tests should run")
	}
	t.Skip("network namespaces need root")
}

// Bench exits with the code of the program that it ran.
func TestProgramsExitCode(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit 3", 3},
		{"exit 255", 255},
		{"kill -TERM $$", 128 + 15},
		{"kill -KILL $$", 128 + 9},
	} {
		err := runProgram("sh", exec.Command("sh", "-c", c.script))
		if got := exitCode(err); got != c.want {
			t.Errorf("%s: exit code %d (%v), want %d", c.script, got, err, c.want)
		}
	}
	for _, err := range []error{
		runProgram("none", exec.Command(filepath.Join(t.TempDir(), "none"))),
		errors.New("no link"),
	} {
		if got := exitCode(err); got != 1 {
			t.Errorf("%v: exit code %d, want 1", err, got)
		}
	}
	interrupted := fmt.Errorf("ended early: %w", context.Canceled)
	if got := exitCode(interrupted); got != exitInterrupted {
		t.Errorf("%v: exit code %d, want %d", interrupted, got, exitInterrupted)
	}
	// Other errors at the end do not hide the program's exit code.
	both := errors.Join(programError{errors.New("sh: exit status 3"), 3}, errors.New("the namespace stays"))
	if got := exitCode(both); got != 3 {
		t.Errorf("%v: exit code %d, want 3", both, got)
	}
}

// A benchProcess is bench in its own process and process group.
type benchProcess struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func startBench(t *testing.T, args ...string) *benchProcess {
	t.Helper()
	p := &benchProcess{cmd: exec.CommandContext(t.Context(), "/proc/self/exe", args...)}
	p.cmd.Env = append(os.Environ(), asBench+"=1")
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 10 * time.Second // for what a program leaves behind
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }) // after a failed test
	return p
}

// await waits until the program on the link has printed that it is ready.
func (p *benchProcess) await(t *testing.T) {
	t.Helper()
	if line, err := p.stdout.ReadString('\n'); err != nil || line != "ready\n" {
		_ = p.cmd.Wait()
		t.Fatalf("the program does not run: %q, %v\n%s", line, err, &p.stderr)
	}
}

// end returns the exit code.
func (p *benchProcess) end() int {
	_, _ = io.Copy(io.Discard, p.stdout)
	_ = p.cmd.Wait() // the exit code shows the result
	return p.cmd.ProcessState.ExitCode()
}

// An interrupt is for the program. Bench waits until the program has ended, prints what the link
// did, and removes the link.
func TestLinkOutlivesInterrupt(t *testing.T) {
	needRoot(t)
	if testing.Short() {
		t.Skip("brings up four links")
	}
	for _, c := range []struct {
		name, script string
		signal       syscall.Signal
		group        bool // to the group, as from the terminal; otherwise to bench alone
		want         int
	}{
		{"no signal", "echo ready; exit 3", 0, false, 3},
		{"interrupt that the program handles", "trap 'sleep 0.2; exit 7' INT; echo ready; while :; do sleep 0.05; done", syscall.SIGINT, true, 7},
		{"interrupt that ends the program", "echo ready; exec sleep 60", syscall.SIGINT, true, 128 + 2},
		{"SIGTERM to bench", "echo ready; exec sleep 60", syscall.SIGTERM, false, 128 + 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startBench(t, "link", "lan1g", "--", "sh", "-c", c.script)
			p.await(t)
			pid := p.cmd.Process.Pid
			to := pid
			if c.group {
				to = -pid
			}
			if c.signal != 0 {
				if err := syscall.Kill(to, c.signal); err != nil {
					t.Fatal(err)
				}
			}
			if code := p.end(); code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			for _, want := range []string{"link: a to b: ", "link: the emulator took "} {
				if !strings.Contains(p.stderr.String(), want) {
					t.Errorf("%q was not said:\n%s", want, &p.stderr)
				}
			}
			if left, _ := filepath.Glob(fmt.Sprintf("/run/netns/haul-bench-%d-*", pid)); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// gonePID returns the number of a process that has ended.
func gonePID(t *testing.T) int {
	t.Helper()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	return gone.Process.Pid
}

// "link clean" removes the files and control groups of killed runs.
func TestLinkClean(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dead, alive := gonePID(t), os.Getpid()
	paths := map[string]bool{ // the value is whether they stay
		filepath.Join(tmp, fmt.Sprintf("haul-bench-%d-x", dead)):  false,
		filepath.Join(tmp, fmt.Sprintf("haul-bench-%d-x", alive)): true,
	}
	for _, groups := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuacct"} {
		paths[filepath.Join(groups, fmt.Sprintf("haul-bench-%d-1", dead))] = false
		paths[filepath.Join(groups, fmt.Sprintf("haul-bench-%d-77", alive))] = true
		paths[filepath.Join(groups, fmt.Sprintf("other-%d-1", dead))] = true
	}
	paths[fmt.Sprintf("/sys/fs/cgroup/blkio/haul-bench-%d", dead)] = false
	groups := 0
	for path := range paths {
		if os.Mkdir(path, 0o755) != nil { // no such control groups here, or no permission to make them
			delete(paths, path)
			continue
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		if strings.HasPrefix(path, "/sys") {
			groups++
		}
	}
	if groups == 0 {
		t.Log("no control groups can be made here: only files are looked at")
	}
	if _, err := bench(t, "link", "clean"); err != nil {
		t.Fatal(err)
	}
	for path, stays := range paths {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", path, err == nil, stays)
		}
	}
}
