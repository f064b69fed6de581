package link

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

func space(t *testing.T, settings map[string]string) *Space {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must run this as root")
		}
		t.Skip("network namespaces need root")
	}
	s, err := NewSpace(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A namespace has its own settings, those of this machine do not change, and a program in the
// namespace runs on its core only.
func TestSpace(t *testing.T) {
	const setting = "/proc/sys/net/ipv4/ip_local_port_range"
	before, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := os.ReadFile(allowedPath)
	if err != nil {
		t.Fatal(err)
	}
	s := space(t, map[string]string{"net.ipv4.ip_local_port_range": "20000 20100", controlSetting: "cubic"})
	if after, err := os.ReadFile(allowedPath); err != nil || string(after) != string(allowed) {
		t.Errorf("this machine allowed %q and allows %q, %v", allowed, after, err)
	}
	cores, err := Cores()
	if err != nil || len(cores) == 0 {
		t.Fatalf("cores %v, %v", cores, err)
	}
	last := cores[len(cores)-1]
	out, err := s.Command(t.Context(), last, "sh", "-c", "cat "+setting+"; cat /proc/sys/net/ipv4/tcp_congestion_control; grep Cpus_allowed_list: /proc/self/status").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := fmt.Sprintf("20000\t20100\ncubic\nCpus_allowed_list:\t%d\n", last)
	if string(out) != want {
		t.Errorf("in the namespace: %q, want %q", out, want)
	}
	if after, err := os.ReadFile(setting); err != nil || string(after) != string(before) {
		t.Errorf("this machine's setting was %q and is %q, %v", before, after, err)
	}
}

// Everything in a namespace ends with it.
func TestSpaceEnds(t *testing.T) {
	s := space(t, nil)
	cmd := s.Command(context.Background(), AnyCore, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Until it is there it could be missed, like any program that is about to start.
	ready(t, cmd.Process.Pid, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(namespacePath(s.name)); !os.IsNotExist(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
}

// ready waits until a process is in a namespace.
func ready(t *testing.T, pid int, s *Space) {
	t.Helper()
	ns, err := os.Stat(namespacePath(s.name))
	if err != nil {
		t.Fatal(err)
	}
	for t.Context().Err() == nil {
		if theirs, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && os.SameFile(ns, theirs) {
			return
		}
	}
}

// A setting that does not exist is an error, and nothing is left behind.
func TestSpaceRefuses(t *testing.T) {
	space(t, nil) // skips the test without root
	_, err := NewSpace(t.Context(), map[string]string{"net.ipv4.no_such_setting": "1"})
	if err == nil || !strings.Contains(err.Error(), "net.ipv4.no_such_setting") {
		t.Errorf("%v", err)
	}
	left, _ := os.ReadDir(namespaces)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), fmt.Sprintf("%s%d-", namePrefix, os.Getpid())) && strings.HasSuffix(e.Name(), "-a") {
			if n := made.Load(); strings.Contains(e.Name(), fmt.Sprintf("-%d-a", n)) {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
}

// Several namespaces made at the same time do not take the congestion control from each other,
// and restore the set of permitted ones.
func TestSpacesAtOnce(t *testing.T) {
	before, err := os.ReadFile(allowedPath)
	if err != nil {
		t.Fatal(err)
	}
	space(t, nil) // skips the test without root
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := NewSpace(t.Context(), map[string]string{controlSetting: "cubic"})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if after, err := os.ReadFile(allowedPath); err != nil || string(after) != string(before) {
		t.Errorf("this machine allowed %q and allows %q, %v", before, after, err)
	}
}

// A process that looks for the programs in a namespace that another one removes meanwhile does
// not find those in a new namespace: the kernel reuses the number at once.
func TestNumberIsHeld(t *testing.T) {
	gone := space(t, nil)
	held, err := hold(namespacePath(gone.name))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s := space(t, nil)
		cmd := s.Command(t.Context(), AnyCore, "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready(t, cmd.Process.Pid, s)
		pids, err := programsIn(held)
		if err != nil || len(pids) != 0 {
			t.Fatalf("in a namespace without a name there are %v, %v", pids, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
}
