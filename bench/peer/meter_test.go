package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The work of an ended child for which nobody waited counts, and leftovers of a server are ended
// with it.
func TestGroup(t *testing.T) {
	g, err := newGroup()
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	// If the shell joins the group late, it waits for its input, so that it forks after that.
	wait := "read go; "
	if g.name() == version2 {
		wait = ""
	}
	cmd := exec.Command("sh", "-c", wait+`(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done) & sleep 60 & exec sleep 60`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	joined := g.begin(cmd)
	if err := errors.Join(cmd.Start(), joined()); err != nil {
		t.Fatal(err)
	}
	p := &Process{server: &Server{Name: "shell"}, cmd: cmd, group: g, ended: make(chan struct{}), stopping: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	defer p.Stop()
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	var cpu time.Duration
	for range 1000 {
		if cpu, err = p.CPU(); err != nil {
			t.Fatal(err)
		}
		if len(g.pids()) >= 2 && cpu > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if cpu == 0 {
		t.Errorf("no CPU time was counted by %s", g.name())
	}
	if p.Memory() == 0 {
		t.Error("no memory was counted")
	}
	p.Stop()
	if left := g.pids(); len(left) > 0 {
		t.Errorf("processes %v run after Stop", left)
	}
}

// Without control groups, the process table gives nearly the same result.
func TestProcessTree(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 60 & wait")
	tree := &processTree{}
	joined := tree.begin(cmd)
	if err := errors.Join(cmd.Start(), joined()); err != nil {
		t.Fatal(err)
	}
	p := &Process{server: &Server{Name: "shell"}, cmd: cmd, group: tree, ended: make(chan struct{}), stopping: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	for range 1000 {
		if len(tree.pids()) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if pids := tree.pids(); len(pids) != 2 {
		t.Errorf("the tree has %v, want two processes", pids)
	}
	if _, err := p.CPU(); err != nil {
		t.Error(err)
	}
	if p.Memory() == 0 {
		t.Error("no memory was counted")
	}
	p.Stop()
}

// Leftovers of a killed run are removed; what a running one uses, and what others made, stays.
func TestClean(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead, alive := gone.Process.Pid, os.Getpid()
	h := hierarchy{base: t.TempDir()}
	names := map[string]bool{ // the value is whether they stay
		fmt.Sprintf("%s%d-1", groupPrefix, dead):  false,
		fmt.Sprintf("%s%d-1", groupPrefix, alive): true,
		groupPrefix + "0-1":                       true,
		groupPrefix + "-1-1":                      true,
		groupPrefix + "x-1":                       true,
		fmt.Sprintf("%s%d", groupPrefix, dead):    true, // not a group of this package
		fmt.Sprintf("other-%d-1", dead):           true,
	}
	for name := range names {
		if err := os.Mkdir(filepath.Join(h.base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.clean()
	for name, stays := range names {
		if _, err := os.Stat(filepath.Join(h.base, name)); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", name, err == nil, stays)
		}
	}
}

func TestParseCPU(t *testing.T) {
	if d, err := parseStat("usage_usec 1500\nuser_usec 1000\n"); d != 1500*time.Microsecond || err != nil {
		t.Errorf("cpu.stat: %v, %v", d, err)
	}
	if _, err := parseStat("user_usec 1000\n"); err == nil {
		t.Error("cpu.stat without the line passed")
	}
	if d, err := parseUsage("1500\n"); d != 1500*time.Nanosecond || err != nil {
		t.Errorf("cpuacct.usage: %v, %v", d, err)
	}
}

func TestAddress(t *testing.T) {
	any, fixed := &Server{}, &Server{port69: true}
	for _, test := range []struct {
		s    *Server
		addr string // "" means none
		want string // a prefix; "" means an error
	}{
		{any, "", "127.0.0.1:"},
		{any, "10.1.2.3:0", "10.1.2.3:69"},
		{any, "10.1.2.3:1069", "10.1.2.3:1069"},
		{fixed, "", "127.69."},
		{fixed, "10.1.2.3:0", "10.1.2.3:69"},
		{fixed, "10.1.2.3:1069", ""},
	} {
		var o Options
		if test.addr != "" {
			o.Addr = netip.MustParseAddrPort(test.addr)
		}
		got, err := test.s.address(o)
		if (err != nil) != (test.want == "") || err == nil && !strings.HasPrefix(got.String(), test.want) {
			t.Errorf("%q, on port 69 only %v: %v, %v, want %q", test.addr, test.s.port69, got, err, test.want)
		}
	}
}

// The table is printed in the machine's byte order, which binds reverses; this is the output of a
// little-endian machine.
func TestBinds(t *testing.T) {
	for _, test := range []struct {
		local, addr string
		want        bool
	}{
		{"00000000:0045", "192.0.2.1:69", true},
		{"00000000:0045", "192.0.2.1:70", false},
		{"00000000000000000000000000000000:0045", "192.0.2.1:69", true},
		{"nonsense", "192.0.2.1:69", false},
		{"", "192.0.2.1:69", false},
	} {
		if got := binds(test.local, netip.MustParseAddrPort(test.addr)); got != test.want {
			t.Errorf("binds(%q, %s) = %v", test.local, test.addr, got)
		}
	}
}

func TestTail(t *testing.T) {
	var log tail
	if log.String() != "nothing" {
		t.Errorf("an empty log says %q", log.String())
	}
	for range 10 {
		_, _ = log.Write([]byte(strings.Repeat("x", tailBytes/3)))
	}
	_, _ = log.Write([]byte("the end"))
	if s := log.String(); len(s) != tailBytes || !strings.HasSuffix(s, "the end") {
		t.Errorf("kept %d bytes, the last of them %q", len(s), s[len(s)-10:])
	}
	_, _ = log.Write([]byte(strings.Repeat("y", 5*tailBytes)))
	if s := log.String(); len(s) != tailBytes || strings.Contains(s, "x") {
		t.Errorf("kept %d bytes of one long piece", len(s))
	}
}
