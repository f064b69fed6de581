package privilege

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDrop(t *testing.T) {
	needRoot(t)
	for _, user := range []string{"nobody", "4711:4712", "65534:0", "4294967294:4294967294"} {
		t.Run(user, func(t *testing.T) { run(t, order{Child: "drop", User: user}, nil) })
	}
}

func dropChild(o order) error {
	u, err := LookUp(o.User)
	if err != nil {
		return err
	}
	open, err := os.Open("/proc/self/status") // open like a served directory
	if err != nil {
		return err
	}
	defer open.Close()
	if err := Drop(u); err != nil {
		return err
	}
	if err := wantThreads(u, true); err != nil {
		return err
	}
	if _, err := open.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("what was open before: %w", err)
	}
	// A second call works too, as when systemd starts haul as the user that --user names.
	if err := Drop(u); err != nil {
		return fmt.Errorf("again: %w", err)
	}
	if err := Drop(User{Name: "another", UID: u.UID - 1, GID: u.GID}); !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("to another user after that: %v, want EPERM", err)
	}
	return wantThreads(u, true)
}

// wantThreads checks the kernel's status of each thread, including a new one.
func wantThreads(u User, noBounding bool) error {
	status := make(chan string)
	go func() {
		runtime.LockOSThread()
		b, err := os.ReadFile("/proc/thread-self/status")
		status <- fmt.Sprint(string(b), err)
	}()
	all := []string{<-status}
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return err
	}
	if len(tasks) < 5 {
		return fmt.Errorf("%d threads, too few to prove anything", len(tasks))
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // ended meanwhile
		}
		if err != nil {
			return err
		}
		all = append(all, string(b))
	}
	const none = "0000000000000000"
	want := map[string]string{
		"Uid": fmt.Sprint(u.UID, u.UID, u.UID, u.UID), "Gid": fmt.Sprint(u.GID, u.GID, u.GID, u.GID),
		"Groups": strings.Trim(fmt.Sprint(u.Groups), "[]"), "NoNewPrivs": "1",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none,
	}
	if noBounding {
		want["CapBnd"] = none
	}
	for _, text := range all {
		for key, value := range want {
			if got := field(text, key); got != value {
				return fmt.Errorf("a thread has %s %q, want %q", key, got, value)
			}
		}
	}
	return nil
}

// field returns a line of a status file, its values separated by single spaces.
func field(status, key string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "missing"
}

func TestDropRefused(t *testing.T) {
	for _, u := range []User{{}, {UID: 0, GID: 5}, {UID: -1, GID: 5}, {UID: 5, GID: -1}} {
		if err := Drop(u); err == nil {
			t.Errorf("Drop(%+v) was not refused", u)
		}
	}
	var attr *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	}
	run(t, order{Child: "refused"}, attr)
}

// refusedChild is not root, and cannot become another user.
func refusedChild(order) error {
	u, err := LookUp("4713:4713")
	if err != nil {
		return err
	}
	err = Drop(u)
	if !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "4713:4713") || !strings.Contains(err.Error(), "start it as root") {
		return fmt.Errorf("Drop without root: %v", err)
	}
	return nil
}

// This is the state in which systemd starts a service with AmbientCapabilities, and setcap a
// program.
func TestDropCapabilities(t *testing.T) {
	needRoot(t)
	nobody := &syscall.Credential{Uid: 4711, Gid: 4711}
	t.Run("ambient", func(t *testing.T) {
		run(t, order{Child: "capabilities"}, &syscall.SysProcAttr{Credential: nobody, AmbientCaps: []uintptr{unix.CAP_NET_BIND_SERVICE}})
	})
	t.Run("with SETPCAP", func(t *testing.T) {
		run(t, order{Child: "capabilities"}, &syscall.SysProcAttr{Credential: nobody, AmbientCaps: []uintptr{unix.CAP_NET_BIND_SERVICE, unix.CAP_SETPCAP}})
	})
	t.Run("none", func(t *testing.T) {
		run(t, order{Child: "capabilities"}, &syscall.SysProcAttr{Credential: nobody})
	})
	t.Run("root", func(t *testing.T) { run(t, order{Child: "capabilities"}, nil) })
}

func capabilitiesChild(order) error {
	before, err := capabilities()
	if err != nil {
		return err
	}
	bind := before[0].Effective&(1<<unix.CAP_NET_BIND_SERVICE) != 0
	if err := lowPort(bind); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	if err := DropCapabilities(); err != nil {
		return err
	}
	if err := lowPort(false); err != nil {
		return fmt.Errorf("after: %w", err)
	}
	if err := DropCapabilities(); err != nil {
		return fmt.Errorf("again: %w", err)
	}
	me := User{UID: os.Getuid(), GID: os.Getgid()}
	if me.Groups, err = syscall.Getgroups(); err != nil {
		return err
	}
	return wantThreads(me, before[0].Effective&(1<<unix.CAP_SETPCAP) != 0)
}

// lowPort checks whether a privileged port can be bound, if there are any.
func lowPort(may bool) error {
	first, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil || strings.TrimSpace(string(first)) == "0" {
		return err
	}
	// An address that no other program uses.
	c, err := net.ListenPacket("udp4", "127.69.69.69:1")
	if err == nil {
		c.Close()
	}
	if may && err != nil || !may && !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("bind port 1: %v, allowed: %v", err, may)
	}
	return nil
}
