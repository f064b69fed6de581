package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/internal/serve"
)

// dieVar names a file with the step at which a successor dies as by kill -9; "" is none.
const dieVar = "HAUL_TEST_DIE_AT"

func init() {
	text, err := os.ReadFile(os.Getenv(dieVar))
	if err != nil || os.Getenv(asHaul) == "" || os.Getenv("HAUL_HANDED") == "" {
		return
	}
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	switch string(text) {
	case "spawned":
		die()
	case "opened":
		run := runServer
		runServer = func(ctx context.Context, cfg serve.Config, out io.Writer) error {
			return run(ctx, cfg, writerFunc(func(p []byte) (int, error) {
				die() // at its first line, with its sockets open
				return len(p), nil
			}))
		}
	case "ready":
		_, _ = os.NewFile(3, "line").WriteString("ready\n")
		die()
	case "go":
		line := os.NewFile(3, "line")
		_, _ = line.WriteString("ready\n")
		_, _ = bufio.NewReader(line).ReadString('\n')
		die()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// processes returns the processes whose environment has a variable.
func processes(t *testing.T, variable string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(variable+"\x00")) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// openFDs counts the descriptors of a process.
func openFDs(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// rss returns the memory of a process, in KiB.
func rss(t *testing.T, pid int) (kib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

func times(n int, text string) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

// Under load of three protocols a server reloads again and again. Most successors die on
// the way. No client notices, and nothing is left behind.
func TestReloadKilled(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	o, _ := newReloads(t)
	file := filepath.Join(t.TempDir(), "step")
	unique := dieVar + "=" + file
	o.env = append(o.env, unique)
	content := strings.Repeat("x", 3*512+1)
	t.Cleanup(func() {
		for _, pid := range processes(t, unique) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	s, config := startBoth(t, o, bigDir(t))
	pid := s.cmd.Process.Pid
	load := newCrowd(s, config, content)
	defer load.end()
	load.more(t)
	memory := rss(t, pid)
	fds := 0 // of a server without clients
	var failed, succeeded int
	steps := []string{"spawned", "opened", "ready", "go", ""}
	for round := range rounds {
		step := steps[round%len(steps)]
		writeFile(t, file, step)
		transfer := s.halfway("kernel")
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if step != "" {
			failed++
			s.await(times(failed, "reload: there is no successor")...)
			transfer.end()
			continue
		}
		succeeded++
		next := s.succeeded(succeeded)
		transfer.end()
		s.awaitEnd(pid)
		pid = next
		if t.Failed() {
			return
		}
	}
	load.more(t)
	load.end()
	if now := rss(t, pid); now > 2*memory+64<<10 {
		t.Errorf("the server has %d KiB, and the first one had %d", now, memory)
	}
	eventually(t, "a server and its spawner are left", func() bool { return len(processes(t, unique)) == 2 })
	for range 2 { // one that has failed once more has as many descriptors as before
		writeFile(t, file, "opened")
		eventually(t, "the clients have gone", func() bool {
			n := openFDs(t, pid)
			if fds == 0 || n <= fds {
				fds = n
				return true
			}
			return false
		})
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		failed++
		s.await(times(failed, "reload: there is no successor")...)
	}

	// One that dies while it serves is as any other server that dies. Those who came to the
	// one before it have their files.
	writeFile(t, file, "")
	transfer := s.halfway("kernel")
	session := s.files(config)
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	next := s.succeeded(succeeded + 1)
	if err := syscall.Kill(next, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	transfer.end()
	session.wantRead("kernel", content)
	session.Close()
	s.awaitEnd(pid)
	eventually(t, "no process is left", func() bool { return len(processes(t, unique)) == 0 })
}
